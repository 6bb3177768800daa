"""The plan of a GatherLayer: a tile is a range of rows and, where a row does not fit, of its bytes.

Offsets are int32 bytes.
"""

from dataclasses import dataclass

from spec.config import NpuConfig
from spec.fields import field_of
from spec.isa import Opcode
from sw.compiler.errors import CompileError
from sw.compiler.kernels.budget import MemoryBudget
from sw.compiler.kernels.gather.cost import gather_cycles
from sw.compiler.kernels.gather.layer import GatherLayer

# LOAD and STORE read an index when an iteration of loop 0 begins: every row is one of those.
MAX_ROWS = field_of(Opcode.LOAD, "loop.count").maximum
OFFSET_BYTES = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class GatherPlan:
    """Tiles of `rows` rows and `part` bytes of each; two buffers of `nbytes`, two of offsets."""

    rows: int
    part: int
    nbytes: int
    index_bytes: int
    cycles: int = 0
    traffic: int = 0

    @property
    def spad_bytes(self) -> int:
        return 2 * (self.nbytes + self.index_bytes)

    def __str__(self) -> str:
        return f"{self.rows} rows of {self.part} bytes; {self.spad_bytes} bytes"


def plan_gather(layer: GatherLayer, config: NpuConfig, budget: MemoryBudget) -> GatherPlan:
    """The most rows that fit twice; parts of rows where not even one does."""
    word = config.word_bytes
    # Half of the room, so that a tile is loaded while the one before it is stored. Rounding rows
    # and offsets up to whole words can take a word each.
    limit = budget.buffer_bytes // 2 - 2 * word
    part = min(layer.row_bytes, limit - OFFSET_BYTES)
    if part < 1:
        raise CompileError("no row fits in the scratchpad", node=layer.name, source=layer.source)
    rows = min(layer.rows, max(1, limit // (part + OFFSET_BYTES)), MAX_ROWS)
    size = layer.batch * layer.rows * layer.row_bytes
    return GatherPlan(
        rows=rows,
        part=part,
        nbytes=-(-rows * part // word) * word,
        index_bytes=-(-rows * OFFSET_BYTES // word) * word,
        cycles=gather_cycles(layer, config),
        traffic=2 * size,
    )

"""The plan of a fused elementwise layer: extents of a tile, and where its registers lie."""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

from sw.compiler.kernels.fused.layer import FusedLayer

Ranges = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FusedPlan:
    """Extents of a tile; bytes of each register's buffer, and how many such buffers rotate.

    `vectors`: of the accumulator, for each register; 0 for those in the scratchpad. `operands`:
    bytes of those of a product. `held`: the registers whose tensors lie on chip, which the steps
    read and write where they are. `blocks`: in how many blocks of columns rows pass, of which a
    tile is one; 0 where it holds whole rows. `rights`: buffers of a product's right operand.
    `abreast`: tiles that pass each step one after another, before the next step.
    `entries`: of the parameter memory that it may have.
    """

    tile: tuple[int, ...]
    nbytes: tuple[int, ...]
    slots: tuple[int, ...]
    vectors: tuple[int, ...]
    operands: int = 0
    held: frozenset[int] = frozenset()
    blocks: int = 0
    rights: int = 2
    abreast: int = 1
    entries: int = 0
    cycles: int = 0
    traffic: int = 0

    @property
    def spad_bytes(self) -> int:
        return self.operands + sum(n * s for n, s in zip(self.slots, self.nbytes, strict=True))

    @property
    def acc_vectors(self) -> int:
        return sum(n * size for n, size in zip(self.slots, self.vectors, strict=True))

    def __str__(self) -> str:
        where = f"{self.spad_bytes} bytes, {self.acc_vectors} accumulator vectors"
        abreast = f" x {self.abreast}" if self.abreast > 1 else ""
        return f"tile {list(self.tile)}{abreast}; {where}; {self.cycles} cycles"


def fused_tiles(layer: FusedLayer, plan: FusedPlan) -> Iterator[Ranges]:
    """Ranges (start, stop) of every dimension, row-major."""
    # The innermost dimension changes fastest: a source that does not span it is then the same for
    # neighbouring tiles, and is loaded once for all of them.
    cuts = [
        [(at, min(at + step, size)) for at in range(0, size, step)]
        for size, step in zip(layer.shape, plan.tile, strict=True)
    ]
    yield from itertools.product(*cuts)

"""Virtual instructions: over symbolic buffers, before addresses and semaphores.

The base addresses of a `VirtualInstruction` are relative to buffers. It lists what it accesses
(`Access`), slice by slice where that matters, so that dependence analysis can derive every wait and
post. The order of a `VirtualProgram` is a correct sequential order; engines run ahead of it only as
far as the accesses allow.
"""

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from spec.isa import Engine, Opcode
from sw.compiler.program.records import Loop, Record


class Place(enum.Enum):
    """Where a buffer lives. Units: bytes; ACC vectors; PARAM entries."""

    DRAM = "dram"
    SPAD = "spad"
    ACC = "acc"
    PARAM = "param"
    TABLE = "table"


@dataclass(slots=True, kw_only=True, eq=False)
class Buffer:
    """A piece of memory; `address` is set by allocation (ACC: by the schedule).

    `region` counts for DRAM only. `layer` is the index of the layer that uses an on-chip buffer.
    """

    name: str
    place: Place
    size: int
    layer: int = 0
    region: int = 0
    address: int = -1

    def __str__(self) -> str:
        where = f"{self.place.value}{self.region}" if self.place is Place.DRAM else self.place.value
        at = f"@{self.address:#x}" if self.address >= 0 else "@?"
        return f"{self.name}: {where}{at}+{self.size}"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Access:
    """Bytes (or vectors, entries) `start`…`stop` of a buffer that some of the steps touch.

    `level` 0: all steps. Level l: those of flat iteration `iteration` of loop l-1.
    `weights`: read by the matrix engine's weight sequencer. `pitch`: if not 0, of each `pitch`
    bytes of the buffer only bytes `lanes[0]`…`lanes[1]` (some channels of every pixel).
    """

    buffer: Buffer
    start: int
    stop: int
    write: bool
    level: int = 0
    iteration: int = 0
    weights: bool = False
    pitch: int = 0
    lanes: tuple[int, int] = (0, 0)

    def misses(self, other: "Access") -> bool:
        """Whether both touch different channels of the same pixels."""
        if not self.pitch or self.pitch != other.pitch or self.buffer is not other.buffer:
            return False
        return self.lanes[1] <= other.lanes[0] or other.lanes[1] <= self.lanes[0]

    def spans(self, other: "Access") -> bool:
        """Whether no byte of `other` between `start` and `stop` is left out."""
        if not self.pitch:
            return True
        if self.pitch != other.pitch or self.buffer is not other.buffer:
            return False
        return self.lanes[0] <= other.lanes[0] and other.lanes[1] <= self.lanes[1]


ENGINE_OF = {
    Opcode.LOAD: Engine.LOAD,
    Opcode.STORE: Engine.STORE,
    Opcode.MATRIX: Engine.MATRIX,
    Opcode.DEPTHWISE: Engine.DEPTHWISE,
    Opcode.VECTOR: Engine.VECTOR,
}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class VirtualInstruction:
    """One instruction to be: based field f of `record` is relative to `bases[f]`.

    `engine`: the one that runs it. `layer`: number of the layer that it is part of.
    """

    record: Record
    bases: Mapping[str, Buffer]
    accesses: Sequence[Access]
    layer: int
    note: str = ""
    engine: Engine = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "engine", ENGINE_OF[self.record.opcode])

    @property
    def opcode(self) -> Opcode:
        return self.record.opcode


@dataclass(slots=True, kw_only=True, eq=False)
class VirtualProgram:
    """Instructions in program order and every on-chip buffer they use; emitters append to both.

    `table`: the content of TABLE behind the last instruction. `kept`: names of weights on chip that
    have been loaded.
    """

    instructions: list[VirtualInstruction] = field(default_factory=list)
    buffers: list[Buffer] = field(default_factory=list)
    table: bytes = b""
    kept: set[str] = field(default_factory=set)

    def buffer(self, name: str, place: Place, size: int, layer: int) -> Buffer:
        """A new on-chip buffer of `layer`."""
        made = Buffer(name=name, place=place, size=size, layer=layer)
        self.buffers.append(made)
        return made


def iterations(loops: Sequence[Loop], level: int) -> int:
    """How many times the body of loop `level - 1` runs in an instruction (level 0: once).

    A loop runs `last` times for the last iteration of the loop around it.
    """
    return levels(loops[:level])[-1]


def levels(loops: Sequence[Loop]) -> list[int]:
    """`iterations` of every level, from 0 on."""
    out, entered, bodies = [1], 1, 1
    for number, loop in enumerate(loops):
        count = loop.count
        last = loop.last or count
        previous, entered_before = bodies, entered
        # The outermost loop has none around it, whose last iteration could differ.
        bodies = (previous - entered_before) * count + entered_before * last if number else count
        entered = previous
        out.append(bodies)
    return out

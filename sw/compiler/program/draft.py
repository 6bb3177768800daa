"""The draft program: instructions over symbolic buffers, before addresses and semaphores.

A `Node` is one instruction whose base addresses are relative to buffers. It lists what it accesses
(`Access`), slice by slice where that matters, so that `sync` can derive every wait and post.
The order of the nodes is a correct sequential order; engines run ahead of it only as far as the
accesses allow.
"""

import enum
from dataclasses import dataclass, field
from typing import Any

from spec.isa import Engine, Opcode

Values = dict[str, Any]


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
    """Bytes (or vectors, entries) `start`…`stop` of a buffer that some steps of a node touch.

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


@dataclass(slots=True, kw_only=True, eq=False)
class Node:
    """One instruction to be: `values[f]` of a based field f is relative to `bases[f]`.

    `engine`: the one that runs it.
    """

    opcode: Opcode
    values: Values
    bases: dict[str, Buffer]
    accesses: list[Access]
    layer: int
    note: str = ""
    engine: Engine = field(init=False)

    def __post_init__(self) -> None:
        self.engine = ENGINE_OF[self.opcode]


@dataclass(slots=True, kw_only=True, eq=False)
class Draft:
    """The nodes in program order and every buffer they use."""

    nodes: list[Node] = field(default_factory=list)
    buffers: list[Buffer] = field(default_factory=list)

    def buffer(self, name: str, place: Place, size: int, layer: int) -> Buffer:
        """A new on-chip buffer of `layer`."""
        made = Buffer(name=name, place=place, size=size, layer=layer)
        self.buffers.append(made)
        return made


def iterations(loops: list[dict[str, int]], level: int) -> int:
    """How many times the body of loop `level - 1` runs in an instruction (level 0: once).

    A loop runs `last` times for the last iteration of the loop around it.
    """
    entered, bodies = 1, 1
    for loop in loops[:level]:
        count = loop.get("count", 1)
        last = loop.get("last", count)
        previous, entered_before = bodies, entered
        if loop is loops[0]:
            bodies = count
        else:
            bodies = (previous - entered_before) * count + entered_before * last
        entered = previous
    return bodies

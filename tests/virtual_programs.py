"""Small virtual programs, instruction by instruction, for the tests of what orders them."""

from collections.abc import Sequence

from spec.config import NpuConfig
from spec.isa import Space
from sw.compiler.program.records import (
    ArrayLoop,
    DmaLoop,
    Load,
    Matrix,
    Record,
    Store,
    Vector,
    VectorLoop,
)
from sw.compiler.program.virtual import Access, Buffer, Place, VirtualInstruction


def spad(name: str, size: int, address: int = 0) -> Buffer:
    """A buffer in the scratchpad."""
    return Buffer(name=name, place=Place.SPAD, size=size, address=address)


def reads(buffer: Buffer, start: int = 0, stop: int = -1, **more: int) -> Access:
    """The access of a reader; all of the buffer if no end is given."""
    stop = buffer.size if stop < 0 else stop
    return Access(buffer=buffer, start=start, stop=stop, write=False, **more)


def writes(buffer: Buffer, start: int = 0, stop: int = -1, **more: int) -> Access:
    """The access of a writer."""
    stop = buffer.size if stop < 0 else stop
    return Access(buffer=buffer, start=start, stop=stop, write=True, **more)


def instruction(
    record: Record, accesses: Sequence[Access], note: str = "", layer: int = 0
) -> VirtualInstruction:
    """An instruction without bases: nobody encodes it."""
    return VirtualInstruction(
        record=record, bases={}, accesses=list(accesses), layer=layer, note=note
    )


def load(
    to: Buffer,
    note: str = "load",
    layer: int = 0,
    cycles: int = 10,
    space: Space = Space.SPAD,
) -> VirtualInstruction:
    """A LOAD of a whole buffer, in so many cycles of a bus of 16 bytes."""
    record = Load(run=16, loop=[DmaLoop(count=cycles)], space=space)
    return instruction(record, [writes(to)], note, layer)


def store(of: Buffer, note: str = "store", layer: int = 0, cycles: int = 10) -> VirtualInstruction:
    """A STORE of a whole buffer."""
    record = Store(run=16, loop=[DmaLoop(count=cycles)])
    return instruction(record, [reads(of)], note, layer)


def matrix(
    accesses: Sequence[Access], note: str = "matrix", layer: int = 0, cycles: int = 100
) -> VirtualInstruction:
    """A MATRIX of one fold."""
    record = Matrix(loop=[ArrayLoop(), ArrayLoop(count=cycles)], fold_loops=1)
    return instruction(record, accesses, note, layer)


def vector(
    accesses: Sequence[Access], config: NpuConfig, note: str = "vector", layer: int = 0, n: int = 10
) -> VirtualInstruction:
    """A VECTOR of `n` int8 vectors."""
    record = Vector(lanes=config.cols, loop=[VectorLoop(count=n)])
    return instruction(record, accesses, note, layer)

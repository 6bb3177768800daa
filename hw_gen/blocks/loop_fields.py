"""Counts and strides of the loops of an instruction."""

from collections.abc import Iterable, Sequence
from typing import Any

from amaranth.hdl import *
from amaranth.lib import memory

from hw_gen.blocks.choose import chosen_of


def equal(loop: Any, number: int) -> list[Value]:
    """Whether a loop has that many iterations, and whether it has in the last ones of the loop
    around it."""
    return [loop[name] == number for name in ("count", "last")]


class LoopFields:
    """Of instructions that have all of them in registers, or in the output of a memory.

    new, instr : the fields of the instruction that begins, and of the one that is here.
    """

    def __init__(self, new: Any, instr: Any) -> None:
        self.new = new
        self.instr = instr

    def few(self, level: int) -> list[Value]:
        """Of the instruction that begins: whether the loop has one iteration, whether it has in the
        last ones of the loop around it, and the same for two."""
        loop = self.new.loop[level]
        return [*equal(loop, 1), *equal(loop, 2)]

    def iterations(self, whole: Sequence[Value], rest: Sequence[Value]) -> Value:
        """Of the one loop of `whole` that is set its `count`, or of that of `rest` its `last`."""
        return chosen_of(
            [*whole, *rest], [loop[name] for name in ("count", "last") for loop in self.instr.loop]
        )

    def stride(self, name: str, goes_on: Iterable[Value]) -> Value:
        """Of the one loop that is set in `goes_on`; 0 where none is."""
        return chosen_of(goes_on, [loop[name] for loop in self.instr.loop])


class LoopTables:
    """The same from small memories, which loops are written to one by one.

    Two halves take turns: while one has the loops of the instruction that is here, those of the
    next one come to the other. Strides that lie apart in an instruction do not come with a loop:
    they are read from `instr`, as in `LoopFields`.
    """

    def __init__(self, m: Module, entries: Any, instr: Any, load: Value) -> None:
        self._m = m
        self._entries = entries
        self._instr = instr
        self._loops = loops = len(instr.loop)
        self._load = load
        self._into = Signal(name="loops_into")
        self._level = Signal(range(loops + 1), name="level_of_entry")
        m.d.comb += self._level.eq(entries.level)
        self._few = [Signal(4, name=f"few_of_{k}", reset_less=True) for k in range(loops)]
        loop = entries.payload
        for level, few in enumerate(self._few):
            with m.If(entries.valid & (entries.level == level)):
                m.d.sync += few.eq(Cat(equal(loop, 1), equal(loop, 2)))
        with m.If(load):
            m.d.sync += self._into.eq(~self._into)

    def few(self, level: int) -> list[Value]:
        """See `LoopFields.few`."""
        return list(self._few[level])

    def iterations(self, whole: Sequence[Value], rest: Sequence[Value]) -> Value:
        """See `LoopFields.iterations`."""
        at = self._at("counts", [a | b for a, b in zip(whole, rest, strict=True)])
        return Mux(Cat(rest).any(), self._read("last", at), self._read("count", at))

    def stride(self, name: str, goes_on: Iterable[Value]) -> Value:
        """See `LoopFields.stride`."""
        if name not in self._entries.payload.shape().members:
            return chosen_of(goes_on, [loop[name] for loop in self._instr.loop])
        return self._read(name, self._at(name, goes_on))

    def _at(self, name: str, goes_on: Iterable[Value]) -> Value:
        level = Signal(range(self._loops + 1), name=f"level_of_{name}")
        numbers = [Const(k, level.shape()) for k in range(self._loops)]
        # The word behind those of the loops stays 0. No loop goes on where an instruction begins.
        none = Mux(self._load, Const(self._loops, level.shape()), 0)
        self._m.d.comb += level.eq(chosen_of(goes_on, numbers) | none)
        return Cat(level, ~self._into)

    def _read(self, name: str, at: Value) -> Value:
        m, entries = self._m, self._entries
        value = entries.payload[name]
        table: memory.Memory = memory.Memory(
            shape=unsigned(len(value)), depth=1 << len(at), init=[]
        )
        m.submodules[f"loops_{name}"] = table
        read, write = table.read_port(domain="comb"), table.write_port()
        m.d.comb += [
            read.addr.eq(at),
            write.en.eq(entries.valid),
            write.addr.eq(Cat(self._level, self._into)),
            write.data.eq(value),
        ]
        return read.data

"""How far the loops of a nest are: what is left of each, and which are in their last iteration."""

from collections.abc import Sequence
from dataclasses import dataclass

from amaranth.hdl import *
from amaranth.lib import memory

from hw_gen.blocks.choose import chosen_of
from hw_gen.blocks.loop_fields import LoopFields, LoopTables, equal
from hw_gen.platform import asks_for


@dataclass(frozen=True, slots=True, kw_only=True)
class Nest:
    """A loop nest that is walked.

    loops, index : number of loops, and the shape of a count.
    fields : counts of the loops. folded : of the instruction that begins, and of the one that is
        here, a bit for each loop: it is not walked.
    at_first, at_last : a bit for each loop, driven here: it is in its first or last iteration.
    accept, load : a step is taken; an instruction begins, which goes first.
    """

    loops: int
    index: Shape
    fields: LoopFields | LoopTables
    folded: tuple[Value, Value]
    at_first: Value
    at_last: Value
    accept: Value
    load: Value


def loop_counts(m: Module, platform, nest: Nest) -> tuple[Value, Value, Value]:
    """Follow the iterations; returns bit vectors: bit k: all loops >= k in their first / last step,
    and in their first one when the next step comes.

    Whether a loop is in its first or last iteration is known when the iteration begins.
    """
    n = nest.loops
    first_from, last_from = (
        Signal(n + 1, name=f"{name}_from") for name in ("all_first", "all_last")
    )
    m.d.comb += [first_from.eq(_from_each(nest.at_first)), last_from.eq(_from_each(nest.at_last))]
    if asks_for(platform, "for_fpga"):
        _by_table(m, nest, last_from)
    else:
        assert isinstance(nest.fields, LoopFields)
        _by_registers(m, nest, nest.fields, last_from)
    for level in range(n):
        at_first = nest.at_first[level]
        with m.If(nest.load):
            m.d.sync += at_first.eq(1)
        with m.Elif(nest.accept & last_from[level + 1]):
            m.d.sync += at_first.eq(last_from[level])
    next_first = Signal(n + 1, name="next_first_from")
    m.d.comb += next_first.eq(
        _from_each(
            Cat(
                last_from[level] | (nest.at_first[level] & ~last_from[level + 1])
                for level in range(n)
            )
        )
    )
    return first_from, last_from, next_first


def _from_each(flags: Value) -> Value:
    """Bit k: all flags >= k."""
    return Cat(*(flags[level:].all() for level in range(len(flags))), Const(1, 1))


def _by_registers(m: Module, nest: Nest, fields: LoopFields, last_from: Value) -> None:
    """What is left of each loop is in a register."""
    new, instr = fields.new, fields.instr
    fresh_last, next_last = Signal(nest.loops), Signal(nest.loops)
    for level in range(nest.loops):
        at_last = nest.at_last[level]
        begins, restarts = (
            [one | folded[level] for one in equal(loops.loop[level], 1)]
            for loops, folded in zip((new, instr), nest.folded, strict=True)
        )
        left = Signal(nest.index, name=f"left_{level}", reset_less=True)
        fresh, again = (Signal.like(left, name=f"{name}_{level}") for name in ("fresh", "again"))
        m.d.comb += [
            fresh.eq(_of(_counts(new.loop[level]), level, fresh_last)),
            again.eq(_of(_counts(instr.loop[level]), level, next_last)),
            fresh_last[level].eq(_of(begins, level, fresh_last)),
        ]
        with m.If(last_from[level]):
            m.d.comb += next_last[level].eq(_of(restarts, level, next_last))
        with m.Elif(last_from[level + 1]):
            m.d.comb += next_last[level].eq(left == 2)
        with m.Else():
            m.d.comb += next_last[level].eq(at_last)
        with m.If(nest.load):
            m.d.sync += [left.eq(fresh), at_last.eq(fresh_last[level])]
        with m.Elif(nest.accept):
            m.d.sync += at_last.eq(next_last[level])
            with m.If(last_from[level]):
                m.d.sync += left.eq(again)
            with m.Elif(last_from[level + 1]):
                m.d.sync += left.eq(left - 1)


def _by_table(m: Module, nest: Nest, last_from: Value) -> None:
    """What is left of each loop is in a small memory, from its second iteration on.

    One loop goes on in a step. Whether it comes to its last iteration then, its step before has
    found out, or, of two iterations, the beginning of the instruction.
    """
    n, at_last = nest.loops, nest.at_last
    fresh_last, next_last = Signal(n), Signal(n)
    goes_on = [last_from[level + 1] & ~at_last[level] for level in range(n)]
    begins, now = Signal(nest.index), Signal(nest.index)
    nears, near = Signal(), Signal(n, reset_less=True)
    for level in range(n):
        *once, whole_two, rest_two = nest.fields.few(level)
        once = [one | nest.folded[0][level] for one in once]
        # Of the instruction that is here.
        held = Signal(4, name=f"few_{level}", reset_less=True)
        with m.If(nest.load):
            m.d.sync += held.eq(Cat(*once, whole_two, rest_two))
        m.d.comb += fresh_last[level].eq(_of(once, level, fresh_last))
        after_first = _of(held[2:], level, at_last)
        with m.If(last_from[level]):
            m.d.comb += next_last[level].eq(_of(held[:2], level, next_last))
        with m.Elif(last_from[level + 1]):
            m.d.comb += next_last[level].eq(Mux(nest.at_first[level], after_first, near[level]))
        with m.Else():
            m.d.comb += next_last[level].eq(at_last[level])
        with m.If(nest.load):
            m.d.sync += at_last[level].eq(fresh_last[level])
        with m.Elif(nest.accept):
            m.d.sync += at_last[level].eq(next_last[level])
            with m.If(goes_on[level]):
                m.d.sync += near[level].eq(nears)
    around = [Const(0, 1), *(at_last[level] for level in range(n - 1))]
    whole = [one & ~last for one, last in zip(goes_on, around, strict=True)]
    rest = [one & last for one, last in zip(goes_on, around, strict=True)]
    m.d.comb += [
        begins.eq(nest.fields.iterations(whole, rest)),
        now.eq(Mux(chosen_of(goes_on, list(nest.at_first)), begins, _left(m, nest, goes_on, now))),
        nears.eq(now == 3),
    ]


def _left(m: Module, nest: Nest, goes_on: Sequence[Value], now: Value) -> Value:
    """What is left of the loop that goes on; it is written that it is one less."""
    level = Signal(range(nest.loops), name="goes")
    table: memory.Memory = memory.Memory(shape=nest.index, depth=1 << len(level), init=[])
    m.submodules.left = table
    read, write = table.read_port(domain="comb"), table.write_port()
    m.d.comb += [
        level.eq(chosen_of(goes_on, [Const(k, level.shape()) for k in range(nest.loops)])),
        read.addr.eq(level),
        write.addr.eq(level),
        write.en.eq(nest.accept),
        write.data.eq(now - 1),
    ]
    return read.data


def _counts(loop) -> list[Value]:
    """Iterations of a loop, and those in the last one of the loop around it."""
    return [loop["count"], loop["last"]]


def _of(values: Sequence[Value] | Value, level: int, at_last: Value) -> Value:
    """The first of two values for a loop; the second where the loops around it are in their last
    iteration, as the outermost loop's never are.
    """
    return Mux(at_last[level - 1], values[1], values[0]) if level else values[0]

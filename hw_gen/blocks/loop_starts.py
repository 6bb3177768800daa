"""Where the running values of a loop nest began, for each of its loops."""

from dataclasses import dataclass

from amaranth.hdl import *
from amaranth.lib import memory

from hw_gen.blocks.choose import chosen_of
from hw_gen.platform import asks_for


@dataclass(frozen=True, slots=True, kw_only=True)
class Steps:
    """What happens in a cycle.

    goes_on : for each loop, outermost first, whether it is the one that goes on in this step.
    restarts : whether it is that one or lies within.
    accept, load : a step is taken; an instruction begins, which goes first.
    """

    goes_on: Value
    restarts: Value
    accept: Value
    load: Value


def loop_starts(m: Module, platform, steps: Steps) -> "StartRegisters | StartTables":
    """The form of the platform, for values that all go the same way.

    On an FPGA the start is 0 where an instruction begins: no loop goes on then, and the value that
    follows is the first one as a sum.
    """
    if asks_for(platform, "for_fpga"):
        return StartTables(m, steps)
    return StartRegisters(m, steps)


class StartRegisters:
    """A register for each value and loop."""

    def __init__(self, m: Module, steps: Steps) -> None:
        self._m = m
        self._steps = steps
        self._starts: dict[str, list[Signal]] = {}

    def add(self, name: str, width: int) -> tuple[Value, Value]:
        """A value: what it is now, and where the loop that goes on began."""
        goes_on = self._steps.goes_on
        loops = range(len(goes_on))
        starts = [Signal(width, name=f"{name}_{k}", reset_less=True) for k in loops]
        self._starts[name] = starts
        return starts[-1], chosen_of(goes_on, starts)

    def follow(self, name: str, first: Value, value: Value) -> None:
        """first : of an instruction. value : in the step that follows."""
        m, steps = self._m, self._steps
        for start, restarts in zip(self._starts[name], steps.restarts, strict=True):
            with m.If(steps.load):
                m.d.sync += start.eq(first)
            with m.Elif(steps.accept & restarts):
                m.d.sync += start.eq(value)


class StartTables:
    """A small memory for each value, and for each loop a register that says which of its words.

    A step writes the word of the loop that goes on, and this loop and those within begin there.
    """

    def __init__(self, m: Module, steps: Steps) -> None:
        self._m = m
        self._moves = steps.accept | steps.load
        # The word behind those of the loops is never written: it stays 0.
        loops = range(len(steps.goes_on) + 1)
        words = [
            Signal(loops, name=f"word_{k}", reset_less=True) for k in range(len(steps.goes_on))
        ]
        goes, self._reads, self._writes = (
            Signal(loops, name=x) for x in ("goes", "reads", "writes")
        )
        m.d.comb += [
            goes.eq(chosen_of(steps.goes_on, [Const(k, loops) for k in range(len(words))])),
            self._reads.eq(chosen_of(steps.goes_on, words)),
            self._writes.eq(Mux(steps.load, 0, goes)),
        ]
        with m.If(steps.load):
            m.d.comb += self._reads.eq(len(words))
        for word, restarts in zip(words, steps.restarts, strict=True):
            with m.If(steps.load):
                m.d.sync += word.eq(0)
            with m.Elif(steps.accept & restarts):
                m.d.sync += word.eq(goes)
        self._depth = 1 << goes.shape().width
        self._values: dict[str, tuple[Signal, memory.Memory]] = {}

    def add(self, name: str, width: int) -> tuple[Value, Value]:
        """See `StartRegisters.add`."""
        m = self._m
        now = Signal(width, name=f"{name}_now", reset_less=True)
        table: memory.Memory = memory.Memory(shape=unsigned(width), depth=self._depth, init=[])
        m.submodules[f"starts_{name}"] = table
        port = table.read_port(domain="comb")
        m.d.comb += port.addr.eq(self._reads)
        self._values[name] = now, table
        return now, port.data

    def follow(self, name: str, first: Value, value: Value) -> None:
        """See `StartRegisters.follow`."""
        m = self._m
        now, table = self._values[name]
        port = table.write_port()
        m.d.comb += [
            port.en.eq(self._moves),
            port.addr.eq(self._writes),
            port.data.eq(value),
        ]
        with m.If(self._moves):
            m.d.sync += now.eq(port.data)

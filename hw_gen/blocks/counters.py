"""64-bit counters of a run: what every engine did in every cycle, and traffic."""

from amaranth.hdl import *
from amaranth.lib import enum, wiring
from amaranth.lib.wiring import In, Out

from hw_gen.blocks.adders import fast_sum
from hw_gen.blocks.sram import Sram
from hw_gen.blocks.stall_counts import StallCounts
from hw_gen.interfaces import STALL
from hw_gen.platform import asks_for
from spec.config import NpuConfig
from spec.isa import Engine
from spec.memmap import Stall

COUNTER_BITS = 64
TOTALS = ("CYCLES", "VECTORS", "READ_BYTES", "WRITE_BYTES")
COUNTERS = (*TOTALS, *(f"COUNT_{e.name}_{stall.name}" for e in Engine for stall in Stall))
"""Names of the counters in the order of their numbers. An engine's six sum to CYCLES."""


def counter_names(config: NpuConfig) -> tuple[str, ...]:
    """Those of `COUNTERS` that a configuration has, in the same order."""
    return COUNTERS if config.engine_counters else TOTALS


class _Phase(enum.Enum, shape=2):
    """What happens to a word: it is read, leaves the memory, and its low part is added."""

    READ = 0
    TAKE = 1
    ADD = 2


class Counters(wiring.Component):
    """Counts while `run`; `clear` goes first.

    Each counter is a word of a memory and a few low bits that are registers. The registers count,
    and one after the other they are added to their word and cleared. On an FPGA and in simulators
    those of an engine's states are `StallCounts`: what they counted since is the difference to
    their word.

    Members
    -------
    stall[engine] : a `Stall`. vector_taken, read_beat : an activation vector entered the array, a
        beat was read. write_bytes : bytes that memory took.
    ask, which : the number of a counter that the host reads, held until it ``answers``.
    value : of that counter, in that cycle; without the two cycles before.

    Without `engine_counters` there are only `TOTALS`, and no ``stall``.

    Timing: an answer comes two to seven cycles after the first cycle of ``ask``.
    """

    def __init__(self, config: NpuConfig):
        self._config = config
        self._names = counter_names(config)
        stall = {"stall": In(STALL).array(len(Engine))} if config.engine_counters else {}
        super().__init__(
            {
                "run": In(1),
                "clear": In(1),
                **stall,
                "vector_taken": In(1),
                "read_beat": In(1),
                "write_bytes": In(range(config.bus_bytes + 1)),
                "ask": In(1),
                "which": In(range(len(self._names))),
                "answers": Out(1),
                "value": Out(COUNTER_BITS),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.words = words = Sram(depth=len(self._names), width=COUNTER_BITS)
        # Each phase is a cycle, and no word is read while another one is under way.
        phase, serves, takes, adds = Signal(_Phase), Signal(), Signal(), Signal()
        at, turn = Signal.like(self.which), Signal.like(self.which)
        fresh = Signal(len(self._names))  # counters whose word is not from this run
        word, part = (Signal(COUNTER_BITS, name=n, reset_less=True) for n in ("word", "part"))
        reads, ends = phase == _Phase.READ, phase == _Phase.ADD
        serve = self.ask & ~serves  # a turn follows each answer
        base = Signal(COUNTER_BITS)
        m.d.comb += base.eq(Mux(fresh.bit_select(at, 1), 0, words.r_data))
        low = self._low(m, platform, at, takes, base)
        m.d.comb += [
            words.r_en.eq(reads),
            words.r_addr.eq(Mux(serve, self.which, turn)),
            takes.eq((phase == _Phase.TAKE) & ~serves),
            self.value.eq(fast_sum(m, platform, "sum", word, part)),
            self.answers.eq(ends & serves),
            adds.eq(ends & ~serves),
            words.w_en.eq(adds),
            words.w_addr.eq(at),
            words.w_data.eq(self.value),
        ]
        with m.If(reads):
            m.d.sync += [at.eq(words.r_addr), serves.eq(serve), phase.eq(_Phase.TAKE)]
            with m.If(~serve):
                m.d.sync += turn.eq(Mux(turn == len(self._names) - 1, 0, turn + 1))
        with m.Elif(ends):
            m.d.sync += phase.eq(_Phase.READ)
        with m.Else():
            m.d.sync += phase.eq(_Phase.ADD)
            m.d.sync += [word.eq(base), part.eq(low)]
        with m.If(adds):
            m.d.sync += fresh.bit_select(at, 1).eq(0)
        with m.If(self.clear):
            # What was taken before is of the run before.
            m.d.sync += [fresh.eq(~0), phase.eq(_Phase.READ)]
        return m

    def _low(self, m: Module, platform, at: Value, takes: Value, word: Value) -> Value:
        """What counts; returns: what counter `at` has counted that is not in its `word` yet."""
        # READ_BYTES counts beats here: every one is a bus word.
        shift = (self._config.bus_bytes - 1).bit_length()
        tables = asks_for(platform, "for_fpga") or asks_for(platform, "idle_clocks")
        if self._config.engine_counters and tables:
            counts = self._registers(m, self._totals(), at, takes) + self._tables(m, at, word)
        else:
            counts = self._registers(m, [*self._totals(), *self._states()], at, takes)
        low = Signal(64)
        with m.Switch(at):
            for number, (name, count) in enumerate(zip(self._names, counts, strict=True)):
                with m.Case(number):
                    m.d.comb += low.eq(count << shift if name == "READ_BYTES" else count)
        return low

    @property
    def _longest(self) -> int:
        """Most cycles from one turn of a counter to its next: each turn takes three cycles, and
        three more if the host reads a counter before it."""
        return 6 * len(self._names)

    def _registers(self, m: Module, steps: list[Value], at: Value, takes: Value) -> list[Value]:
        """The first counters add `steps`, which come a cycle late: no path of an engine ends in a
        sum.
        """
        counts: list[Value] = []
        for number, (name, step) in enumerate(zip(self._names, steps, strict=False)):
            last = Signal.like(step, name=f"last_{name}")
            m.d.sync += last.eq(step)
            bits = (self._longest * ((1 << len(last)) - 1)).bit_length()
            count = Signal(bits, name=f"low_{name}")
            m.d.sync += count.eq(Mux(takes & (at == number), 0, count) + last)
            with m.If(self.clear):
                m.d.sync += count.eq(0)
            counts.append(count)
        return counts

    def _totals(self) -> list[Value]:
        """What each of `TOTALS` adds."""
        vector, beat = self.vector_taken & self.run, self.read_beat & self.run
        return [self.run, vector, beat, Mux(self.run, self.write_bytes, 0)]

    def _states(self) -> list[Value]:
        """What the counters of each state of each engine add."""
        if not self._config.engine_counters:
            return []
        return [self.run & (self.stall[engine] == stall) for engine in Engine for stall in Stall]

    def _tables(self, m: Module, at: Value, word: Value) -> list[Value]:
        """What counter `at` has counted since its word was written, if it is of a state: for all
        of them the same.
        """
        bits, run = self._longest.bit_length(), Signal(name="last_run")
        asked, count = Signal(STALL), Signal(bits, name="count_of_state")
        m.d.sync += run.eq(self.run)
        counts = []
        for engine in Engine:
            last = Signal(STALL, name=f"last_{engine.name}")
            m.d.sync += last.eq(self.stall[engine])
            name = f"states_{engine.name.lower()}"
            states = StallCounts(m, name, bits, stall=last, run=run, clear=self.clear)
            counts.append(states.of(asked))
        with m.Switch(at):
            for number, (engine, stall) in enumerate((e, s) for e in Engine for s in Stall):
                with m.Case(len(TOTALS) + number):
                    m.d.comb += [asked.eq(stall), count.eq(counts[engine])]
        return [(count - word[:bits])[:bits]] * (len(Engine) * len(Stall))

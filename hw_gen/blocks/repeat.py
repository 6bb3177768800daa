"""REPEAT: which section of the program runs again, and how far its addresses have moved."""

from amaranth.hdl import *
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from hw_gen.blocks.adders import fast_difference, fast_sum
from hw_gen.blocks.dma_bursts import lane_bits
from hw_gen.interfaces import PROGRAM_BITS
from hw_gen.layouts import OPCODE_BITS, fields_in_order, instruction_layout
from spec.config import NpuConfig
from spec.isa import (
    BY_BITS,
    DISPLACED,
    FORMATS,
    GRANULE_BITS,
    GRANULE_BYTES,
    MEM_BITS,
    STEPS,
    Opcode,
    Space,
)
from spec.logic import among

MAX_GRANULES = max(f.granules for f in FORMATS.values())
ADDRESSES = max(map(len, DISPLACED.values()))
"""Most addresses of an instruction that displacements are added to."""
_WORD_BITS = MAX_GRANULES * GRANULE_BITS
_LENGTH_BITS = FORMATS[Opcode.REPEAT].field("granules").bits
_GRANULE = exact_log2(GRANULE_BYTES)


def moved_layout() -> data.StructLayout:
    """The addresses of an instruction in the order of `DISPLACED`."""
    rows = [(opcode, names) for opcode, names in DISPLACED.items()]
    widths = [
        max(FORMATS[opcode].field(names[i]).bits for opcode, names in rows if len(names) > i)
        for i in range(ADDRESSES)
    ]
    return data.StructLayout({f"a{i}": width for i, width in enumerate(widths)})


def fields_of(opcode: Opcode, word: Value):
    """The fields of the instruction in `word`."""
    layout = instruction_layout(opcode)
    return layout(fields_in_order(opcode, word[: layout.size]))


class Displacements(wiring.Component):
    """Adds displacements to the addresses of an instruction, and steps to displacements.

    Members
    -------
    clear : displacements are 0 again.
    word : the instruction that the decoder has. check : it has been there for a cycle or more;
        from the next cycle on `moved` has its addresses, as they are stored.
    moves : they are not yet what they should be. add : in this cycle one of them is moved. `last` :
        it is the last one.
    step : add a step of REPEAT to a displacement, a cycle each; `stepped` : all are added.
    skewed : after `check`: the displacement changes how the bytes of PARAM or TABLE lie in a word
        of the bus.
    """

    def __init__(self, config: NpuConfig):
        self._config = config
        super().__init__(
            {
                "clear": In(1),
                "word": In(_WORD_BITS),
                "check": In(1),
                "moves": Out(1),
                "add": In(1),
                "last": Out(1),
                "moved": Out(moved_layout()),
                "step": In(1),
                "stepped": Out(1),
                "skewed": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        turn = Signal(range(STEPS + 1))
        by = [Signal(BY_BITS, name=f"by_{i}") for i in range(ADDRESSES)]
        held = [Signal(MEM_BITS, name=f"displacement_{i}") for i in range(STEPS)]
        moved = [self.moved[f"a{i}"] for i in range(ADDRESSES)]
        # The displacement of the next sum is chosen a cycle before.
        ahead, which = Signal.like(turn), Signal(BY_BITS)
        origin, step = Signal(MEM_BITS, reset_less=True), Signal(MEM_BITS)
        value = fast_sum(m, platform, "displaced", origin, step)
        repeat = fields_of(Opcode.REPEAT, self.word)
        m.d.comb += [
            self.moves.eq(Cat(*by).any()),
            self.last.eq(turn == ADDRESSES - 1),
            self.stepped.eq(turn == STEPS),
        ]
        is_repeat = self.word[:OPCODE_BITS] == Opcode.REPEAT
        m.d.comb += ahead.eq(Mux(self.check, 0, turn + (self.add | self.step)))
        with m.Switch(ahead):
            for i in range(STEPS):
                with m.Case(i):
                    m.d.comb += which.eq(Mux(is_repeat, i + 1, by[i] if i < ADDRESSES else 0))
        m.d.sync += origin.eq(0)
        with m.Switch(which):
            for i, each in enumerate(held):
                with m.Case(i + 1):
                    m.d.sync += origin.eq(each)
        with m.Switch(turn):
            for i in range(STEPS):
                with m.Case(i):
                    address = moved[i] if i < ADDRESSES else Const(0)
                    m.d.comb += step.eq(Mux(self.step, repeat.step[i].bytes, address))
        with m.If(self.check):
            m.d.sync += turn.eq(0)
        with m.Elif(self.add | (self.step & ~self.stepped)):
            m.d.sync += turn.eq(turn + 1)
        for i, each in enumerate(held):
            with m.If(self.clear):
                m.d.sync += each.eq(0)
            with m.Elif(self.step & (turn == i)):
                m.d.sync += each.eq(value)
        self._addresses(m, by)
        for i, address in enumerate(moved):
            with m.If(self.add & (turn == i)):
                m.d.sync += address.eq(value)
        self._alignment(m, by[0], held)
        return m

    def _addresses(self, m: Module, by: list[Signal]) -> None:
        """The addresses as they are stored, and the number of each one's displacement."""
        with m.Switch(self.word[:OPCODE_BITS]):
            for opcode, names in DISPLACED.items():
                fields = fields_of(opcode, self.word)
                with m.Case(opcode):
                    for i, name in enumerate(names):
                        m.d.comb += by[i].eq(fields[f"{name}_by"])
                        with m.If(self.check):
                            m.d.sync += self.moved[f"a{i}"].eq(fields[name])

    def _alignment(self, m: Module, by: Value, held: list[Signal]) -> None:
        load, low = fields_of(Opcode.LOAD, self.word), Signal(lane_bits(self._config))
        with m.Switch(by):
            for i, each in enumerate(held):
                with m.Case(i + 1):
                    m.d.comb += low.eq(each)
        aligned = among(load.space, Space.PARAM, Space.TABLE) & (load.fill == 0)
        is_load = self.word[:OPCODE_BITS] == Opcode.LOAD
        with m.If(self.check):
            m.d.sync += self.skewed.eq(is_load & aligned & low.any())


class Sections(wiring.Component):
    """Positions in the program, and the section that is being repeated.

    Members
    -------
    start, address, bytes : a program begins; where it lies.
    word, check : as in `Displacements`.
    illegal : after `check`: REPEAT of a section that does not lie in the program, or that another
        REPEAT lies in. ends : REPEAT has nothing left to repeat.
    take : the instruction is gone. again : REPEAT runs its section again. jumped : from where that
        begins, `section`, on; `left` bytes are there to the end of the program.
    """

    def __init__(self, config: NpuConfig):
        super().__init__(
            {
                "start": In(1),
                "address": In(config.axi_addr_bits),
                "bytes": In(PROGRAM_BITS),
                "word": In(_WORD_BITS),
                "check": In(1),
                "illegal": Out(1),
                "ends": Out(1),
                "take": In(1),
                "again": In(1),
                "jumped": In(1),
                "section": Out(config.axi_addr_bits),
                "left": Out(PROGRAM_BITS),
            }
        )

    def elaborate(self, platform):
        m = Module()
        bits = PROGRAM_BITS - _GRANULE
        # In granules: of the program, and from its beginning.
        home, whole = Signal(len(self.address) - _GRANULE), Signal(bits)
        at, end, begin = Signal(bits), Signal(bits), Signal(bits + 1)
        repeat = fields_of(Opcode.REPEAT, self.word)
        is_repeat = self.word[:OPCODE_BITS] == Opcode.REPEAT
        active, runs, other = Signal(), Signal.like(repeat.count), Signal()
        back = Cat(repeat.section, Const(0, bits))[: bits + 1]
        back = fast_difference(m, platform, "back", Cat(at, Const(0, 1)), back)
        section = fast_sum(m, platform, "section_at", home, begin[:-1])
        left = fast_difference(m, platform, "section_left", whole, begin[:-1])
        m.d.comb += [
            self.illegal.eq(is_repeat & (begin[-1] | other)),
            self.section.eq(Cat(Const(0, _GRANULE), section)),
            self.left.eq(Cat(Const(0, _GRANULE), left)),
        ]
        with m.If(self.check):
            m.d.sync += [
                begin.eq(back),
                other.eq(active & (at != end)),
                self.ends.eq(active & (runs == 0)),
            ]
        with m.If(self.start):
            m.d.sync += [at.eq(0), active.eq(0)]
            m.d.sync += [home.eq(self.address[_GRANULE:]), whole.eq(self.bytes[_GRANULE:])]
        with m.Elif(self.take):
            m.d.sync += at.eq(at + self.word[OPCODE_BITS:][:_LENGTH_BITS])
            with m.If(is_repeat):
                m.d.sync += active.eq(0)
        with m.Elif(self.again):
            m.d.sync += [active.eq(1), end.eq(at)]
            m.d.sync += runs.eq(Mux(active, runs, repeat.count) - 1)
        with m.Elif(self.jumped):
            m.d.sync += at.eq(begin)
        return m

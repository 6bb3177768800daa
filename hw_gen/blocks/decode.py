"""Granules become checked instructions."""

from amaranth.hdl import *
from amaranth.lib import data, enum, stream, wiring
from amaranth.lib.wiring import In, Out

from hw_gen.blocks.decode_rules import broken_rules
from hw_gen.blocks.dma_program import granule_layout
from hw_gen.layouts import INDEX_BITS, instruction_layout
from spec.config import NpuConfig
from spec.exhaustive import exhaustive
from spec.isa import FORMATS, GRANULE_BITS, ISA_DIGEST, Engine, Opcode
from spec.logic import among
from spec.memmap import Fault

MAX_GRANULES = max(f.granules for f in FORMATS.values())
_BEGIN = FORMATS[Opcode.BEGIN]
_OPCODE_BITS = _BEGIN.field("opcode").bits
_LENGTH_BITS = _BEGIN.field("granules").bits
_DIGEST_MASK = _BEGIN.field("isa_digest").maximum
FETCHED = (Opcode.BEGIN, Opcode.END)
"""What fetch executes itself; engines execute everything else."""
exhaustive(
    "hw_gen.blocks.decode",
    Opcode,
    dict.fromkeys(FETCHED),
    without=[opcode for opcode, fmt in FORMATS.items() if fmt.engine is not Engine.FETCH],
)


def decoded_layout() -> data.StructLayout:
    """An instruction as it was in memory, bit 0 first, with its opcode and index."""
    return data.StructLayout(
        {"word": MAX_GRANULES * GRANULE_BITS, "opcode": _OPCODE_BITS, "index": INDEX_BITS}
    )


class State(enum.Enum, shape=3):
    """What the decoder does."""

    IDLE = 0
    ASSEMBLE = 1
    CHECK = 2
    DISPATCH = 3
    END = 4
    FAULT = 5


class Decoder(wiring.Component):
    """Assembles instructions, checks them, and offers those that engines execute.

    Members
    -------
    start : begin a program. i : ``In(stream)`` of granules; exhausted : no more will come.
    o : ``Out(stream)`` of `decoded_layout`: all but BEGIN and END.
    ended : END was reached. finish : leave that state.
    halt : take and offer nothing more.
    index : the instruction being assembled or offered. state : a `State`.
    fault, cause : something is wrong with it; raised once, then nothing until reset.

    Timing: two cycles more than granules per instruction.
    """

    def __init__(self, config: NpuConfig):
        self._config = config
        super().__init__(
            {
                "start": In(1),
                "i": In(stream.Signature(granule_layout())),
                "exhausted": In(1),
                "o": Out(stream.Signature(decoded_layout())),
                "ended": Out(1),
                "finish": In(1),
                "halt": In(1),
                "index": Out(INDEX_BITS),
                "state": Out(State),
                "fault": Out(1),
                "cause": Out(Fault),
            }
        )

    def elaborate(self, platform):
        m = Module()
        word = Signal(MAX_GRANULES * GRANULE_BITS, reset_less=True)
        count = Signal(range(MAX_GRANULES + 1))
        opcode, illegal, foreign = Signal(_OPCODE_BITS), Signal(), Signal()
        first = Signal()  # not `index == 0`: a long program's index wraps
        m.d.comb += [
            opcode.eq(word[:_OPCODE_BITS]),
            self.o.payload.word.eq(word),
            self.o.payload.opcode.eq(opcode),
            self.o.payload.index.eq(self.index),
            self.ended.eq(self.state == State.END),
        ]
        with m.Switch(self.state):
            with m.Case(State.IDLE), m.If(self.start):
                m.d.sync += [
                    self.state.eq(State.ASSEMBLE),
                    self.index.eq(0),
                    first.eq(1),
                    count.eq(0),
                ]
            with m.Case(State.ASSEMBLE):
                self._assemble(m, word, count, first)
            with m.Case(State.CHECK):
                m.d.sync += [
                    illegal.eq(self._illegal(m, opcode, word)),
                    foreign.eq(self._foreign(opcode, word)),
                    count.eq(0),
                    first.eq(0),
                    self.state.eq(State.DISPATCH),
                ]
            with m.Case(State.DISPATCH):
                self._dispatch(m, opcode, illegal, foreign)
            with m.Case(State.END), m.If(self.finish):
                m.d.sync += self.state.eq(State.IDLE)
        with m.If(self.fault):
            m.d.sync += self.state.eq(State.FAULT)
        return m

    def _assemble(self, m: Module, word: Signal, count: Signal, first: Signal) -> None:
        granule = self.i.payload
        # Every instruction begins with its opcode and its length in granules.
        opcode, length = granule.data[:_OPCODE_BITS], granule.data[_OPCODE_BITS:][:_LENGTH_BITS]
        total, known = Signal(_LENGTH_BITS), Signal()
        expected = Signal(_LENGTH_BITS)
        with m.Switch(opcode):
            for fmt in FORMATS.values():
                with m.Case(fmt.opcode):
                    m.d.comb += [known.eq(1), expected.eq(fmt.granules)]
        head = count == 0
        misplaced = (opcode == Opcode.BEGIN) != first
        unknown = ~known | (length != expected) | misplaced
        m.d.comb += [
            self.i.ready.eq(~self.halt),
            total.eq(Mux(head, expected, word[_OPCODE_BITS:][:_LENGTH_BITS])),
            self.cause.eq(Fault.ILLEGAL_INSTRUCTION),
        ]
        with m.If(self.i.valid & self.i.ready):
            m.d.sync += [
                word.word_select(count, GRANULE_BITS).eq(granule.data),
                count.eq(count + 1),
            ]
            with m.If(granule.error):
                m.d.comb += [self.fault.eq(1), self.cause.eq(Fault.AXI_ERROR)]
            with m.Elif(head & unknown):
                m.d.comb += self.fault.eq(1)
            with m.Elif(count + 1 == total):
                m.d.sync += self.state.eq(State.CHECK)
        with m.Elif(self.exhausted & ~self.halt):
            m.d.comb += self.fault.eq(1)

    def _dispatch(self, m: Module, opcode: Value, illegal: Value, foreign: Value) -> None:
        to_engine = ~among(opcode, *FETCHED)
        with m.If(self.halt):
            pass
        with m.Elif(illegal | foreign):
            m.d.comb += [
                self.fault.eq(1),
                self.cause.eq(Mux(illegal, Fault.ILLEGAL_INSTRUCTION, Fault.DIGEST_MISMATCH)),
            ]
        with m.Elif(opcode == Opcode.END):
            m.d.sync += self.state.eq(State.END)
        with m.Else():
            m.d.comb += self.o.valid.eq(to_engine)
            with m.If(self.o.ready | ~to_engine):
                m.d.sync += [self.state.eq(State.ASSEMBLE), self.index.eq(self.index + 1)]

    def _illegal(self, m: Module, opcode: Value, word: Signal) -> Value:
        broken = Signal()
        with m.Switch(opcode):
            for each in FORMATS:
                with m.Case(each):
                    rules = list(broken_rules(self._config, each, word))
                    m.d.comb += broken.eq(Cat(rules).any())
        return broken

    def _foreign(self, opcode: Value, word: Signal) -> Value:
        begin = instruction_layout(Opcode.BEGIN)(word[: FORMATS[Opcode.BEGIN].bits])
        ours = (begin.isa_digest == (ISA_DIGEST & _DIGEST_MASK)) & (
            begin.config_digest == self._config.digest()
        )
        return (opcode == Opcode.BEGIN) & ~ours

"""Granules become checked instructions."""

from amaranth.hdl import *
from amaranth.lib import data, enum, stream, wiring
from amaranth.lib.wiring import In, Out

from hw_gen.blocks.assembly import Assembly
from hw_gen.blocks.choose import chosen_of
from hw_gen.blocks.decode_rules import broken_rules
from hw_gen.blocks.dma_program import granule_layout
from hw_gen.blocks.narrow_queue import granules
from hw_gen.blocks.repeat import MAX_GRANULES, Displacements, Sections, moved_layout
from hw_gen.interfaces import PROGRAM_BITS
from hw_gen.layouts import INDEX_BITS, OPCODE_BITS, instruction_layout
from hw_gen.platform import asks_for
from spec.config import NpuConfig
from spec.exhaustive import exhaustive
from spec.isa import FORMATS, GRANULE_BITS, ISA_DIGEST, Engine, Opcode
from spec.logic import among
from spec.memmap import Fault

_BEGIN = FORMATS[Opcode.BEGIN]
_LENGTH_BITS = _BEGIN.field("granules").bits
_DIGEST_MASK = _BEGIN.field("isa_digest").maximum
FETCHED = (Opcode.BEGIN, Opcode.END, Opcode.REPEAT)
"""What fetch executes itself; engines execute everything else."""
exhaustive(
    "hw_gen.blocks.decode",
    Opcode,
    dict.fromkeys(FETCHED),
    without=[opcode for opcode, fmt in FORMATS.items() if fmt.engine is not Engine.FETCH],
)


def decoded_layout() -> data.StructLayout:
    """An instruction as it was in memory, bit 0 first, with its opcode and index.

    `moved`: the addresses of `DISPLACED`, with their displacements.
    """
    return data.StructLayout(
        {
            "word": MAX_GRANULES * GRANULE_BITS,
            "moved": moved_layout(),
            "opcode": OPCODE_BITS,
            "index": INDEX_BITS,
        }
    )


class State(enum.Enum, shape=3):
    """What the decoder does."""

    IDLE = 0
    ASSEMBLE = 1
    CHECK = 2
    DISPATCH = 3
    END = 4
    FAULT = 5
    REPEAT = 6
    MOVE = 7


class Decoder(wiring.Component):
    """Assembles instructions, checks them, and offers those that engines execute.

    Members
    -------
    start : begin a program. address, bytes : where it lies, then.
    i : ``In(stream)`` of granules; exhausted : no more will come.
    o : ``Out(stream)`` of `decoded_layout`: what engines execute.
    granules : those that come, for narrow queues, which say when they are ready for one.
    flush : granules that are on their way are not wanted. flushed : none are left.
    jump : granules from `section` on are wanted, `left` bytes; for one cycle, after a flush.
    ended : END was reached. finish : leave that state.
    halt : take and offer nothing more.
    index : the instruction being assembled or offered, in the order of execution; REPEAT has none.
    state : a `State`.
    fault, cause : something is wrong with it; raised once, then nothing until reset.

    Timing: an instruction is offered three cycles after its last granule came, one with displaced
    addresses three cycles later. Meanwhile the next one is assembled, so that a program takes a
    cycle a granule. From a REPEAT to the first granule of its section the reader decides.

    The granules of an instruction go into a word of a memory, whose output is the instruction that
    is checked and offered. What is wrong with the next one counts when that is gone.
    """

    def __init__(self, config: NpuConfig):
        self._config = config
        super().__init__(
            {
                "start": In(1),
                "address": In(config.axi_addr_bits),
                "bytes": In(PROGRAM_BITS),
                "i": In(stream.Signature(granule_layout())),
                "exhausted": In(1),
                "o": Out(stream.Signature(decoded_layout())),
                "granules": Out(granules()),
                "flush": Out(1),
                "flushed": In(1),
                "jump": Out(1),
                "section": Out(config.axi_addr_bits),
                "left": Out(PROGRAM_BITS),
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
        m.submodules.words = words = Assembly()
        word = words.r_data
        opcode, foreign = Signal(OPCODE_BITS), Signal()
        # What is wrong with an instruction of each opcode: which one it has comes later.
        wrong = {each: Signal(name=f"wrong_{each.name.lower()}") for each in FORMATS}
        illegal = chosen_of((opcode == each for each in wrong), wrong.values())
        # Outside of the state in which it counts, which would be a gate for each bit of the word.
        broken = {each: self._broken(m, each, word) for each in FORMATS}
        complete = Signal()
        m.d.comb += [
            opcode.eq(word[:OPCODE_BITS]),
            self.o.payload.word.eq(word),
            self.o.payload.opcode.eq(opcode),
            self.o.payload.index.eq(self.index),
            self.ended.eq(self.state == State.END),
        ]
        moves = sections = None
        if self._config.program_loops:
            m.submodules.displacements = moves = Displacements(self._config)
            m.submodules.sections = sections = Sections(self._config)
            self._repeat(m, moves, sections, word, opcode)
        self._assemble(m, platform, words, complete)
        with m.If(words.r_en):
            m.d.sync += [complete.eq(0), self.state.eq(State.CHECK)]
        with m.Switch(self.state):
            with m.Case(State.IDLE), m.If(self.start):
                m.d.sync += [self.state.eq(State.ASSEMBLE), self.index.eq(0)]
            with m.Case(State.ASSEMBLE):
                m.d.comb += words.r_en.eq(complete)
            with m.Case(State.CHECK):
                m.d.sync += [
                    *(bad.eq(broken[each]) for each, bad in wrong.items()),
                    foreign.eq(self._foreign(opcode, word)),
                    self.state.eq(State.DISPATCH),
                ]
                if moves is not None:
                    with m.If(moves.moves):
                        m.d.sync += self.state.eq(State.MOVE)
            with m.Case(State.DISPATCH):
                bad = illegal if sections is None else illegal | moves.skewed | sections.illegal
                done = self._dispatch(m, opcode, bad, foreign, sections)
                if sections is not None:
                    m.d.comb += sections.take.eq(done)
                with m.If(done):
                    m.d.comb += words.r_en.eq(complete)
                    m.d.sync += self.index.eq(self.index + (opcode != Opcode.REPEAT))
                    m.d.sync += self.state.eq(Mux(complete, State.CHECK, State.ASSEMBLE))
            with m.Case(State.END), m.If(self.finish):
                m.d.sync += self.state.eq(State.IDLE)
        if moves is not None:
            with m.If((self.state == State.MOVE) & moves.last):
                m.d.sync += self.state.eq(State.DISPATCH)
            with m.If((self.state == State.REPEAT) & self.jump):
                m.d.sync += self.state.eq(State.ASSEMBLE)
        with m.If(self.fault):
            m.d.sync += self.state.eq(State.FAULT)
        return m

    def _repeat(self, m: Module, moves, sections, word: Value, opcode: Value) -> None:
        """Connects what REPEAT needs."""
        first, check, repeats = Signal(), self.state == State.CHECK, self.state == State.REPEAT
        m.d.comb += [
            first.eq((self.state == State.IDLE) & self.start),
            moves.word.eq(word),
            moves.check.eq(check),
            moves.add.eq(self.state == State.MOVE),
            moves.step.eq(repeats),
            moves.clear.eq(first | (sections.take & (opcode == Opcode.REPEAT))),
            self.o.payload.moved.eq(moves.moved),
            sections.start.eq(first),
            sections.address.eq(self.address),
            sections.bytes.eq(self.bytes),
            sections.word.eq(word),
            sections.check.eq(check),
            sections.jumped.eq(self.jump),
            self.flush.eq(repeats),
            self.jump.eq(repeats & moves.stepped & self.flushed & ~self.halt),
            self.section.eq(sections.section),
            self.left.eq(sections.left),
        ]

    def _assemble(self, m: Module, platform, words: Assembly, complete: Signal) -> None:
        """Granules into the memory. What is wrong with one waits until the instructions before it
        are gone.
        """
        granule, count = self.i.payload, Signal(range(MAX_GRANULES))
        first = Signal()  # not `index == 0`: a long program's index wraps
        failed, late_cause = Signal(), Signal(Fault)
        # Every instruction begins with its opcode and its length in granules.
        opcode, length = granule.data[:OPCODE_BITS], granule.data[OPCODE_BITS:][:_LENGTH_BITS]
        total, known = Signal(_LENGTH_BITS), Signal()
        expected, held = Signal(_LENGTH_BITS), Signal(_LENGTH_BITS)
        with m.Switch(opcode):
            for fmt in FORMATS.values():
                with m.Case(fmt.opcode):
                    m.d.comb += [known.eq(1), expected.eq(fmt.granules)]
        head = count == 0
        misplaced = (opcode == Opcode.BEGIN) != first
        unknown = ~known | (length != expected) | misplaced
        alone, runs = self.state == State.ASSEMBLE, Signal()
        ours, narrow = Signal(), asks_for(platform, "for_fpga")
        m.d.comb += [
            runs.eq(
                alone
                | (self.state == State.CHECK)
                | (self.state == State.MOVE)
                | (self.state == State.DISPATCH)
            ),
            ours.eq(runs & ~self.halt & ~complete & ~failed),
            self.i.ready.eq(ours & self.granules.ready if narrow else ours),
            total.eq(Mux(head, expected, held)),
            words.w_data.eq(granule.data),
            self.cause.eq(late_cause),
        ]
        with m.If(self.i.valid & self.i.ready):
            m.d.comb += words.w_en.eq(1 << count)
            m.d.sync += [count.eq(count + 1), held.eq(total), first.eq(0)]
            with m.If(granule.error):
                m.d.sync += [failed.eq(1), late_cause.eq(Fault.AXI_ERROR)]
            with m.Elif(head & unknown):
                m.d.sync += failed.eq(1)
            with m.Elif(count + 1 == total):
                m.d.sync += [complete.eq(1), count.eq(0)]
        if narrow:
            kind = Signal(OPCODE_BITS)
            m.d.comb += [
                self.granules.valid.eq(self.i.valid & ours),
                self.granules.data.eq(granule.data),
                self.granules.kind.eq(Mux(head, opcode, kind)),
                self.granules.last.eq(count + 1 == total),
            ]
            m.d.sync += kind.eq(self.granules.kind)
        missing = self.exhausted & ~self.i.valid & ~complete
        with m.If(alone & (failed | missing) & ~self.halt):
            m.d.comb += self.fault.eq(1)
        begins = (self.state == State.IDLE) & self.start
        # A REPEAT jumps: what follows it in memory is not wanted.
        with m.If(begins | (self.state == State.REPEAT)):
            m.d.sync += [count.eq(0), first.eq(begins), complete.eq(0), failed.eq(0)]
            m.d.sync += late_cause.eq(Fault.ILLEGAL_INSTRUCTION)

    def _dispatch(
        self, m: Module, opcode: Value, illegal: Value, foreign: Value, sections: Sections | None
    ) -> Value:
        """Offers what engines execute. Returns: the instruction is gone, and not the last one.

        sections: None where REPEAT is illegal.
        """
        to_engine, done = ~among(opcode, *FETCHED), Signal()
        with m.If(self.halt):
            pass
        with m.Elif(illegal | foreign):
            m.d.comb += [
                self.fault.eq(1),
                self.cause.eq(Mux(illegal, Fault.ILLEGAL_INSTRUCTION, Fault.DIGEST_MISMATCH)),
            ]
        with m.Elif(opcode == Opcode.END):
            m.d.sync += self.state.eq(State.END)
        if sections is not None:
            with m.Elif((opcode == Opcode.REPEAT) & ~sections.ends):
                m.d.comb += sections.again.eq(1)
                m.d.sync += self.state.eq(State.REPEAT)
        with m.Else():
            m.d.comb += [self.o.valid.eq(to_engine), done.eq(self.o.ready | ~to_engine)]
        return done

    def _broken(self, m: Module, opcode: Opcode, word: Signal) -> Value:
        """Whether a rule of `opcode` does not hold."""
        return Cat(broken_rules(m, self._config, opcode, word)).any()

    def _foreign(self, opcode: Value, word: Signal) -> Value:
        begin = instruction_layout(Opcode.BEGIN)(word[: FORMATS[Opcode.BEGIN].bits])
        ours = (begin.isa_digest == (ISA_DIGEST & _DIGEST_MASK)) & (
            begin.config_digest == self._config.digest()
        )
        return (opcode == Opcode.BEGIN) & ~ours

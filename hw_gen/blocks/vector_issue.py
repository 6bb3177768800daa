"""First part of the vector engine: reads the operands of each step."""

from amaranth.hdl import *
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from hw_gen.blocks.elements import log2_bytes
from hw_gen.blocks.operands import last_or
from hw_gen.blocks.vector_context import CONTEXT, SLOT, context_layout, tag_layout
from hw_gen.checks import check
from hw_gen.interfaces import spad_read
from hw_gen.layouts import LANES, engine_layout
from spec.config import NpuConfig
from spec.exhaustive import handles
from spec.isa import Opcode, Reduce, Scale, Space, reads_b

READS_AHEAD = 8
"""Words that may be read and not yet consumed, per operand; covers the read latency twice."""

BYTES_BITS = LANES.width + 3
"""Width of the bytes of a vector: lanes of 4 bytes, and one more bit."""
handles("hw_gen.blocks.vector_issue", Scale, Scale.OFF, Scale.TENSOR, Scale.CHANNEL, Scale.OPERAND)
handles("hw_gen.blocks.vector_issue", Space, Space.SPAD, Space.ACC, Space.PARAM, Space.TABLE)


def pending_layout(config: NpuConfig) -> data.StructLayout:
    """A step whose words are on their way: its tag, and how many words each operand has."""
    return data.StructLayout({"step": tag_layout(config), "beats_a": 3, "beats_b": 3})


class VectorIssue(wiring.Component):
    """Turns steps of a `Sequencer` into scratchpad and accumulator reads.

    Members
    -------
    step, instr : the sequencer's steps and their instruction.
    a, b : scratchpad ports; acc : accumulator reads.
    pending : ``Out(stream)`` of `pending_layout`, one per step; context : one per instruction.
    slot : where the next context goes.
    consumed : bits 0, 1: a word of A, of B has left its FIFO (gives a credit back).
    halt : read nothing more.
    reading : something of a step was read completely; refused : a memory was not free.
    bad : the step touches something that does not exist.

    Timing: a word of A and one of B per cycle; a step takes as many cycles as the wider has words.
    """

    def __init__(self, config: NpuConfig, step_layout: data.StructLayout):
        self._config = config
        super().__init__(
            {
                "step": In(stream.Signature(step_layout)),
                "instr": In(engine_layout(Opcode.VECTOR)),
                "a": Out(spad_read(config)),
                "b": Out(spad_read(config)),
                "acc": Out(stream.Signature(config.acc_addr_bits)),
                "pending": Out(stream.Signature(pending_layout(config))),
                "context": Out(stream.Signature(context_layout())),
                "slot": In(SLOT),
                "consumed": In(2),
                "halt": In(1),
                "reading": Out(1),
                "refused": Out(1),
                "bad": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        step, instr = self.step.payload, self.instr
        n, from_acc, inside, use_b = self._shape(m)
        totals = self._range_check(m, n, from_acc, inside, use_b)
        beat, beats = Signal(3), self._beats(m, from_acc, totals)
        go, complete, last_beat = Signal(), Signal(), Signal()
        m.d.comb += [
            go.eq(
                self.step.valid
                & ~self.bad
                & ~self.halt
                & self.pending.ready
                & (self.context.ready | ~step.first)
            ),
            last_beat.eq(~inside | ((beat + 1 >= beats[0]) & ((beat + 1 >= beats[1]) | ~use_b))),
            self.step.ready.eq(complete & last_beat),
            self.reading.eq(complete),
        ]
        needs = [inside & (beat < beats[0]), use_b & (beat < beats[1])]
        wants, served = self._requests(m, platform, go, needs, complete)
        self._ports(m, wants, from_acc, beat, totals)
        m.d.comb += [
            served[0].eq((self.a.valid & self.a.ready) | (self.acc.valid & self.acc.ready)),
            served[1].eq(self.b.valid & self.b.ready),
            self.refused.eq(Cat(w & ~s for w, s in zip(wants, served, strict=True)).any()),
        ]
        with m.If(complete):
            m.d.sync += beat.eq(Mux(last_beat, 0, beat + 1))
        self._describe(m, n, inside, use_b, beats)
        m.d.comb += [
            self.pending.valid.eq(complete & last_beat),
            self.context.valid.eq(complete & last_beat & step.first),
            self.context.payload.eq(Cat(getattr(instr, name) for name in CONTEXT)),
        ]
        return m

    def _shape(self, m: Module):
        """Lanes of the step, where A comes from, whether the step and B are there."""
        step, instr = self.step.payload, self.instr
        n, from_acc = Signal(BYTES_BITS, name="n"), Signal(name="from_acc")
        inside, use_b = Signal(name="inside"), Signal(name="use_b")
        y, x = step.dy.as_signed(), step.dx.as_signed()
        m.d.comb += [
            n.eq(last_or(step.at_last, instr.lane_loop, instr.lanes_last, instr.lanes)),
            from_acc.eq(instr.a_space == Space.ACC),
            inside.eq((y >= 0) & (y < instr.height) & (x >= 0) & (x < instr.width)),
            use_b.eq(inside & reads_b(instr)),
        ]
        return n, from_acc, inside, use_b

    def _range_check(self, m: Module, n: Value, from_acc: Value, inside: Value, use_b: Value):
        """Drives `bad`; returns the bytes of A and of B."""
        cfg, step, instr = self._config, self.step.payload, self.instr
        totals = [Signal(BYTES_BITS, name=f"{x}_bytes") for x in "abo"]
        for total, dtype, one in zip(
            totals,
            (instr.a_type, instr.b_type, instr.o_type),
            (instr.a_one, instr.b_one, instr.reduce_lanes),
            strict=True,
        ):
            m.d.comb += total.eq(Mux(one, 1, n) << log2_bytes(dtype))
        a_bytes, b_bytes, o_bytes = totals
        uses_param = (
            instr.bias | (instr.a_scale == Scale.CHANNEL) | (instr.o_scale == Scale.CHANNEL)
        )
        writes = (instr.reduce == Reduce.NONE) | self.pending.payload.step.red_last
        bad_a = Mux(from_acc, step.a >= cfg.acc_vectors, step.a + a_bytes > cfg.spad_bytes)
        bad_o = Mux(
            instr.o_space == Space.ACC,
            step.o >= cfg.acc_vectors,
            step.o + o_bytes > cfg.spad_bytes,
        )
        m.d.comb += self.bad.eq(
            (inside & bad_a)
            | (use_b & (step.b + b_bytes > cfg.spad_bytes))
            | (writes & bad_o)
            | (uses_param & (step.param >= cfg.param_entries))
        )
        return a_bytes, b_bytes

    def _beats(self, m: Module, from_acc: Value, totals) -> list[Signal]:
        """Words of A and of B."""
        word = self._config.word_bytes
        beats = [Signal(3, name=f"beats_{x}") for x in "ab"]
        up = [(total + word - 1) >> (word - 1).bit_length() for total in totals]
        m.d.comb += [beats[0].eq(Mux(from_acc, 1, up[0])), beats[1].eq(up[1])]
        return beats

    def _requests(self, m: Module, platform, go: Value, needs: list[Value], complete: Signal):
        """What to ask for this cycle. The operands of a beat may be served in different cycles."""
        wants, served = [], []
        done: Value = Const(1, 1)
        for i, need in enumerate(needs):
            credit = Signal(range(READS_AHEAD + 1), init=READS_AHEAD, name=f"credit_{i}")
            got, want, took = (Signal(name=f"{x}_{i}") for x in ("got", "want", "took"))
            m.d.comb += want.eq(go & need & ~got & (credit != 0))
            m.d.sync += [
                got.eq(~complete & (got | took)),
                credit.eq(credit + self.consumed[i] - took),
            ]
            covered = credit + self.consumed[i] - took <= READS_AHEAD
            check(m, platform, covered, f"vector issue: more words of operand {i} used than read")
            check(m, platform, ~took | (credit != 0), f"vector issue: operand {i} has no credit")
            done = done & (~need | got | took)
            wants.append(want)
            served.append(took)
        m.d.comb += complete.eq(go & done)
        return wants, served

    def _ports(self, m: Module, wants, from_acc: Value, beat: Value, totals) -> None:
        cfg, step = self._config, self.step.payload
        offset = Signal(BYTES_BITS, name="offset")
        m.d.comb += [
            offset.eq(beat << (cfg.word_bytes - 1).bit_length()),
            self.acc.valid.eq(wants[0] & from_acc),
            self.acc.payload.eq(step.a),
        ]
        for port, want, base, total in (
            (self.a, wants[0] & ~from_acc, step.a, totals[0]),
            (self.b, wants[1], step.b, totals[1]),
        ):
            left = (total - offset)[:BYTES_BITS]
            m.d.comb += [
                port.valid.eq(want),
                port.addr.eq(base + offset),
                port.size.eq(Mux(left > cfg.word_bytes, cfg.word_bytes, left)),
            ]

    def _describe(self, m: Module, n: Value, inside: Value, use_b: Value, beats) -> None:
        step, instr, pending = self.step.payload, self.instr, self.pending.payload
        slot = Signal(SLOT)
        with m.If(self.context.valid):
            m.d.sync += slot.eq(self.slot)
        loops = range(len(step.at_first))
        reduced = [instr.reduce_loops[i] & (instr.reduce != Reduce.NONE) for i in loops]
        m.d.comb += [
            pending.beats_a.eq(Mux(inside, beats[0], 0)),
            pending.beats_b.eq(Mux(use_b, beats[1], 0)),
            pending.step.slot.eq(Mux(step.first, self.slot, slot)),
            pending.step.last.eq(step.last),
            pending.step.inside.eq(inside),
            pending.step.red_first.eq(Cat(step.at_first[i] | ~reduced[i] for i in loops).all()),
            pending.step.red_last.eq(Cat(step.at_last[i] | ~reduced[i] for i in loops).all()),
            pending.step.param.eq(step.param),
            pending.step.lanes.eq(n),
            pending.step.o.eq(step.o),
            pending.step.fires.eq(step.fires[0]),
        ]

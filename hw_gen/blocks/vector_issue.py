"""First part of the vector engine: reads the operands of each step."""

from amaranth.hdl import *
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from hw_gen.blocks.elements import log2_bytes
from hw_gen.blocks.operands import last_or
from hw_gen.blocks.vector_context import context_layout, slot_shape, tag_layout
from hw_gen.checks import check
from hw_gen.interfaces import spad_read
from hw_gen.layouts import INDEX_BITS, LANES, engine_layout
from hw_gen.platform import asks_for
from spec.config import NpuConfig
from spec.exhaustive import handles
from spec.isa import CHIP_BITS, Opcode, Reduce, Scale, Space, reads_b
from spec.optional import absent_fields

READS_AHEAD = 8
"""Words that may be read and not yet consumed, per port; covers the read latency twice."""

PORTS = 3
"""Of the scratchpad a and b, and of the accumulator."""

BYTES_BITS = LANES.width + 3
"""Width of the bytes of a vector: lanes of 4 bytes, and one more bit."""
handles("hw_gen.blocks.vector_issue", Scale, Scale.OFF, Scale.TENSOR, Scale.CHANNEL, Scale.OPERAND)
handles("hw_gen.blocks.vector_issue", Space, Space.SPAD, Space.ACC, Space.PARAM, Space.TABLE)


def pending_layout(config: NpuConfig) -> data.StructLayout:
    """A step whose words are on their way: its tag, how many words each operand has, which operand
    (bit 0: A) comes through both ports, whether the words of A come from the accumulator, and
    whether it posts READ when all have come."""
    return data.StructLayout(
        {
            "step": tag_layout(config),
            "beats_a": 3,
            "beats_b": 3,
            "double": 2,
            "from_acc": 1,
            "read": 1,
        }
    )


def operand_layout() -> data.StructLayout:
    """What is left to read of an operand: words, bytes, and where the next word is."""
    return data.StructLayout({"beats": 3, **place_fields()})


def place_fields() -> dict:
    """Where the next word is, and how many bytes are left from there on."""
    return {"bytes": BYTES_BITS, "addr": CHIP_BITS}


class VectorIssue(wiring.Component):
    """Turns steps of a `Sequencer` into scratchpad and accumulator reads.

    Members
    -------
    step, instr, index : the sequencer's steps, their instruction and its index.
    a, b : scratchpad ports; acc : accumulator reads.
    pending : ``Out(stream)`` of `pending_layout`, one per step; context : one per instruction.
    slot : where the next context goes.
    consumed : bits 0, 1, 2: a word of port a, of port b, of the accumulator has left its FIFO
        (gives a credit back).
    halt : read nothing more.
    reading : something of a step was read completely; refused : a memory was not free.
    active, step_index : a step is held here, of that instruction. bad : it touches something that
        does not exist.

    Timing: a word of A and one of B per cycle; a step takes as many cycles as the wider has words.
    Where only one of them is in the scratchpad, both ports read it, two words a cycle. One element
    of B for all lanes is read again only where its address changes, or a step waits. Steps follow
    each other without a gap, each asks in the cycle after it was taken.
    """

    def __init__(self, config: NpuConfig, step_layout: data.StructLayout):
        self._config = config
        super().__init__(
            {
                "step": In(stream.Signature(step_layout)),
                "instr": In(engine_layout(Opcode.VECTOR, absent_fields(config, Opcode.VECTOR))),
                "index": In(INDEX_BITS),
                "a": Out(spad_read(config)),
                "b": Out(spad_read(config)),
                "acc": Out(stream.Signature(config.acc_addr_bits)),
                "pending": Out(stream.Signature(pending_layout(config))),
                "context": Out(stream.Signature(context_layout(config))),
                "slot": In(slot_shape(config)),
                "consumed": In(PORTS),
                "halt": In(1),
                "reading": Out(1),
                "refused": Out(1),
                "active": Out(1),
                "step_index": Out(INDEX_BITS),
                "bad": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        leaves = Signal()
        held, bad = self._hold(m, platform, leaves)
        a, b, double = held.a, held.b, held.pending.double
        from_acc = held.pending.from_acc
        go, complete, last_beat = Signal(), Signal(), Signal()
        m.d.comb += [
            self.bad.eq(self.active & bad),
            go.eq(self.active & ~bad & ~self.halt & self.pending.ready),
            last_beat.eq((a.beats <= 1 + double[0]) & (b.beats <= 1 + double[1])),
            leaves.eq(complete & last_beat),
            self.reading.eq(complete),
            self.pending.payload.eq(held.pending),
            self.pending.valid.eq(leaves),
        ]
        needs = [
            ((a.beats != 0) & ~from_acc) | (double[1] & (b.beats >= 2)),
            (b.beats != 0) | (double[0] & (a.beats >= 2)),
            (a.beats != 0) & from_acc,
        ]
        wants, served = self._requests(m, platform, go, needs, complete)
        self._ports(m, wants, held)
        ports = (self.a, self.b, self.acc)
        m.d.comb += [
            *(s.eq(port.valid & port.ready) for s, port in zip(served, ports, strict=True)),
            self.refused.eq(Cat(w & ~s for w, s in zip(wants, served, strict=True)).any()),
        ]
        return m

    def _hold(self, m: Module, platform, leaves: Value) -> tuple[Signal, Value]:
        """The register of a step, with what is known of it before anything is read, and whether it
        is bad."""
        step, instr = self.step.payload, self.instr
        layout = data.StructLayout(
            {
                "a": operand_layout(),
                "b": operand_layout(),
                "other": data.StructLayout(place_fields()),
                "pending": self.pending.payload.shape(),
            }
        )
        held, new = Signal(layout, name="held", reset_less=True), Signal(layout, name="new")
        n, from_acc, inside, use_b = self._shape(m)
        totals, over, counts = self._range_check(m, n, from_acc, inside, use_b, new)
        # On an FPGA they meet behind registers.
        checks = [over, counts] if asks_for(platform, "for_fpga") else [(over & counts).any()]
        checked = [Signal(len(x), name=f"check_{i}", reset_less=True) for i, x in enumerate(checks)]
        beats = self._beats(m, from_acc, totals)
        read_b = self._changes(m, use_b)
        m.d.comb += [
            self.step.ready.eq(
                (~self.active | leaves) & (self.context.ready | ~step.first) & ~self.halt
            ),
            self.context.valid.eq(self.step.valid & self.step.ready & step.first),
            self.context.payload.eq(Cat(instr[name] for name, _ in context_layout(self._config))),
        ]
        for operand, there, count, total, addr in (
            (new.a, inside, beats[0], totals[0], step.a),
            (new.b, read_b, beats[1], totals[1], step.b),
        ):
            m.d.comb += [
                operand.beats.eq(Mux(there, count, 0)),
                operand.bytes.eq(total),
                operand.addr.eq(addr),
            ]
        self._describe(m, new.pending, n, from_acc, inside)
        word = self._config.word_bytes
        m.d.comb += [
            new.pending.beats_a.eq(new.a.beats),
            new.pending.beats_b.eq(new.b.beats),
            # A is alone in the scratchpad, or B is; the port that has nothing to read takes every
            # second word.
            new.pending.double[0].eq(~from_acc & ~read_b & (new.a.beats >= 2)),
            new.pending.double[1].eq(from_acc & (new.b.beats >= 2)),
            new.other.addr.eq(Mux(from_acc, step.b, step.a) + word),
            new.other.bytes.eq(Mux(from_acc, totals[1], totals[0]) - word),
        ]
        with m.If(self.step.valid & self.step.ready):
            m.d.sync += [held.eq(new), self.active.eq(1), self.step_index.eq(self.index)]
            m.d.sync += [old.eq(x) for old, x in zip(checked, checks, strict=True)]
        with m.Elif(leaves):
            m.d.sync += self.active.eq(0)
        with m.Elif(self.reading):
            self._advance(m, held)
        return held, (checked[0] & checked[-1]).any()

    def _advance(self, m: Module, held) -> None:
        """To the words that come next, two further on of an operand that both ports read."""
        word, double = self._config.word_bytes, held.pending.double
        for operand, both in zip((held.a, held.b), double, strict=True):
            left = operand.beats - 1 - both
            m.d.sync += operand.beats.eq(Mux(operand.beats <= 1 + both, 0, left))
        read = Mux(double.any(), 2 * word, word)
        for place in (held.a, held.b, held.other):
            m.d.sync += [place.bytes.eq(place.bytes - read), place.addr.eq(place.addr + read)]

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

    def _changes(self, m: Module, use_b: Value) -> Value:
        """Whether B is read: one element for all lanes stays in them from step to step, but where a
        step waits, since others may have written then.
        """
        step, instr = self.step.payload, self.instr
        there = Signal(name="there_b")
        at, same = Signal.like(step.b, name="at_b", reset_less=True), Signal(name="same_b")
        again = step.first | step.waits
        m.d.comb += same.eq(instr.b_one & there & ~again & (step.b == at))
        with m.If(self.step.valid & self.step.ready & (use_b | step.first)):
            m.d.sync += [there.eq(use_b), at.eq(step.b)]
        return use_b & ~same

    def _range_check(self, m: Module, n: Value, from_acc: Value, inside: Value, use_b: Value, new):
        """Returns the bytes of A and of B, the ranges that the step leaves, and which of them
        count."""
        cfg, step, instr = self._config, self.step.payload, self.instr
        totals = [Signal(BYTES_BITS, name=f"{x}_bytes") for x in "abo"]
        across = instr.reduce_lanes if cfg.lane_reductions else Const(0, 1)
        for total, dtype, one in zip(
            totals,
            (instr.a_type, instr.b_type, instr.o_type),
            (instr.a_one, instr.b_one, across),
            strict=True,
        ):
            m.d.comb += total.eq(Mux(one, 1, n) << log2_bytes(dtype))
        a_bytes, b_bytes, o_bytes = totals
        uses_param = (
            instr.bias | (instr.a_scale == Scale.CHANNEL) | (instr.o_scale == Scale.CHANNEL)
        )
        writes = (instr.reduce == Reduce.NONE) | new.pending.step.red_last
        bad_a = Mux(from_acc, step.a >= cfg.acc_vectors, step.a + a_bytes > cfg.spad_bytes)
        bad_o = Mux(
            instr.o_space == Space.ACC,
            step.o >= cfg.acc_vectors,
            step.o + o_bytes > cfg.spad_bytes,
        )
        bad_b, bad_param = step.b + b_bytes > cfg.spad_bytes, step.param >= cfg.param_entries
        over = Cat(bad_a, bad_b, bad_o, bad_param)
        return (a_bytes, b_bytes), over, Cat(inside, use_b, writes, uses_param)

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
            check(m, platform, covered, f"vector issue: more words of port {i} used than read")
            check(m, platform, ~took | (credit != 0), f"vector issue: port {i} has no credit")
            done = done & (~need | got | took)
            wants.append(want)
            served.append(took)
        m.d.comb += complete.eq(go & done)
        return wants, served

    def _ports(self, m: Module, wants, held) -> None:
        word, from_acc = self._config.word_bytes, held.pending.from_acc
        m.d.comb += [
            self.acc.valid.eq(wants[2]),
            self.acc.payload.eq(held.a.addr),
        ]
        for port, want, helps, operand in (
            (self.a, wants[0], from_acc, held.a),
            (self.b, wants[1], held.pending.double[0], held.b),
        ):
            left = Mux(helps, held.other.bytes, operand.bytes)
            m.d.comb += [
                port.valid.eq(want),
                port.addr.eq(Mux(helps, held.other.addr, operand.addr)),
                port.size.eq(Mux(left > word, word, left)),
            ]

    def _describe(self, m: Module, pending, n: Value, from_acc: Value, inside: Value) -> None:
        step, instr = self.step.payload, self.instr
        slot = Signal.like(self.slot)
        with m.If(self.context.valid):
            m.d.sync += slot.eq(self.slot)
        loops = range(len(step.at_first))
        reduced = [instr.reduce_loops[i] & (instr.reduce != Reduce.NONE) for i in loops]
        m.d.comb += [
            pending.from_acc.eq(from_acc),
            pending.read.eq(step.fires[1]),
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

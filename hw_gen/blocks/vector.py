"""The vector engine: reads operands, feeds the lanes, writes results."""

from amaranth.hdl import *
from amaranth.lib import data, fifo, stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from hw_gen.blocks.matrix import POST_DEPTH, last_or
from hw_gen.blocks.post_queue import PostQueue
from hw_gen.blocks.semaphores import WaitPort
from hw_gen.blocks.sequencer import Sequencer
from hw_gen.blocks.vector_lanes import CONTEXT, VectorLanes, context_layout, tag_layout
from hw_gen.blocks.vector_write import VectorWriter
from hw_gen.interfaces import EngineStatus, spad_read, spad_write, table_write
from hw_gen.layouts import PostStream, queued_layout
from spec.config import NpuConfig
from spec.isa import Alu, DType, Opcode, Point, Reduce, Space
from spec.memmap import Fault, Stall

READS_AHEAD = 8
"""Words that may be read and not yet consumed, per operand; covers the read latency twice."""


def type_shift(dtype: Value) -> Value:
    """log2 of the bytes of an element."""
    return Mux(dtype == DType.I32, 2, Mux((dtype == DType.I16) | (dtype == DType.U16), 1, 0))


class VectorEngine(wiring.Component):
    """Epilogue of the matrix engine and stand-alone operators; one vector a cycle.

    Members
    -------
    i : ``In(stream)`` of queued VECTOR instructions.
    a, b, out : scratchpad ports.
    acc_r, acc_data_valid, acc_data, acc_w_* : accumulator ports (see `Accumulator`).
    param_write, table_write : from the load engine.
    wait, post_done, post_read, halt, status : as in the other engines.

    Timing: int8 operands and results, and accumulator vectors, take a cycle a step; wider ones in
    the scratchpad as many cycles as words. Latency from issue to write is about 16 cycles.
    """

    def __init__(self, config: NpuConfig):
        self._config = config
        word = 32 * config.cols
        super().__init__(
            {
                "i": In(stream.Signature(queued_layout(Opcode.VECTOR))),
                "a": Out(spad_read(config)),
                "b": Out(spad_read(config)),
                "out": Out(spad_write(config)),
                "acc_r": Out(stream.Signature(config.acc_addr_bits)),
                "acc_data_valid": In(1),
                "acc_data": In(word),
                "acc_w_valid": Out(1),
                "acc_w_ready": In(1),
                "acc_w_addr": Out(config.acc_addr_bits),
                "acc_w_data": Out(word),
                "param_write": In(table_write(config, 24)),
                "table_write": In(table_write(config, 24)),
                "wait": Out(WaitPort),
                "post_done": Out(PostStream),
                "post_read": Out(PostStream),
                "halt": In(1),
                "status": Out(EngineStatus),
            }
        )

    def elaborate(self, platform):
        m = Module()
        cfg = self._config
        m.submodules.seq = seq = Sequencer(
            Opcode.VECTOR,
            {
                "a": ("a_base", 24),
                "b": ("b_base", 24),
                "o": ("o_base", 24),
                "param": ("param_base", 16),
                "dy": ("y0", 16),
                "dx": ("x0", 16),
            },
            post_points=(Point.DONE, Point.READ),
        )
        m.submodules.lanes = lanes = VectorLanes(cfg)
        m.submodules.writer = writer = VectorWriter(cfg)
        connect(m, seq.i, flipped(self.i))
        connect(m, seq.wait, flipped(self.wait))
        connect(m, lanes.param_write, flipped(self.param_write))
        connect(m, lanes.table_write, flipped(self.table_write))
        for name in ("out", "acc_w_valid", "acc_w_addr", "acc_w_data"):
            if name == "out":
                connect(m, writer.out, flipped(self.out))
            else:
                m.d.comb += getattr(self, name).eq(getattr(writer, name))
        m.d.comb += [
            writer.acc_w_ready.eq(self.acc_w_ready),
            writer.valid.eq(lanes.o_valid),
            writer.tag.eq(lanes.o_tag),
            writer.context.eq(lanes.o_context),
            writer.value.eq(lanes.o),
        ]

        steps = self._issue(m, seq)
        busy = self._assemble(m, lanes, writer, *steps)
        queues = self._posts(m, seq, writer.done)
        self._status(m, seq, busy | writer.busy, queues)
        return m

    def _issue(self, m: Module, seq: Sequencer):
        """Read the words of each step; queue its tag, and the context once per instruction."""
        cfg = self._config
        step, instr = seq.o.payload, seq.instr
        word_bits = (cfg.word_bytes - 1).bit_length()
        n, a_bytes, b_bytes, o_bytes = (Signal(11, name=x) for x in ("n", "a_len", "b_len", "o_len"))
        beat = Signal(3)
        from_acc = Signal()
        inside, use_b, need_a, need_b = (Signal(name=x) for x in ("inside", "use_b", "need_a", "need_b"))
        y, x = step.dy.as_signed(), step.dx.as_signed()
        m.d.comb += [
            n.eq(last_or(step.at_last, instr.lane_loop, instr.lanes_last, instr.lanes)),
            a_bytes.eq(n << type_shift(instr.a_type)),
            b_bytes.eq(n << type_shift(instr.b_type)),
            o_bytes.eq(n << type_shift(instr.o_type)),
            from_acc.eq(instr.a_space == Space.ACC),
            inside.eq((y >= 0) & (y < instr.height) & (x >= 0) & (x < instr.width)),
            use_b.eq(inside & (instr.alu != Alu.PASS)),
        ]
        beats = [Signal(3, name=f"beats_{x}") for x in "ab"]
        m.d.comb += [
            beats[0].eq(Mux(from_acc, 1, (a_bytes + cfg.word_bytes - 1) >> word_bits)),
            beats[1].eq((b_bytes + cfg.word_bytes - 1) >> word_bits),
            need_a.eq(inside & (beat < beats[0])),
            need_b.eq(use_b & (beat < beats[1])),
        ]

        m.submodules.tags = tags = fifo.SyncFIFO(
            width=Shape.cast(self._queued_tag()).width, depth=2 * READS_AHEAD
        )
        m.submodules.contexts = contexts = fifo.SyncFIFO(
            width=Shape.cast(context_layout()).width, depth=4
        )
        credit = [Signal(range(READS_AHEAD + 1), init=READS_AHEAD, name=f"credit_{x}") for x in "ab"]
        got = [Signal(name=f"got_{x}") for x in "ab"]
        bad = self._range_check(m, seq, from_acc, inside, use_b, n, a_bytes, b_bytes, o_bytes)
        go = Signal()
        m.d.comb += go.eq(
            seq.o.valid & ~bad & ~self.halt & tags.w_rdy & (contexts.w_rdy | ~step.first)
        )
        offset = beat << word_bits

        def size(total: Value) -> Value:
            left = (total - offset)[:11]
            return Mux(left > cfg.word_bytes, cfg.word_bytes, left)

        want_a = go & need_a & ~got[0] & (credit[0] != 0)
        want_b = go & need_b & ~got[1] & (credit[1] != 0)
        m.d.comb += [
            self.a.valid.eq(want_a & ~from_acc),
            self.a.addr.eq(step.a + offset),
            self.a.size.eq(size(a_bytes)),
            self.acc_r.valid.eq(want_a & from_acc),
            self.acc_r.payload.eq(step.a),
            self.b.valid.eq(want_b),
            self.b.addr.eq(step.b + offset),
            self.b.size.eq(size(b_bytes)),
        ]
        took = [Signal(name=f"took_{x}") for x in "ab"]
        complete, last_beat = Signal(), Signal()
        m.d.comb += [
            took[0].eq((self.a.valid & self.a.ready) | (self.acc_r.valid & self.acc_r.ready)),
            took[1].eq(self.b.valid & self.b.ready),
            complete.eq(go & (~need_a | got[0] | took[0]) & (~need_b | got[1] | took[1])),
            last_beat.eq(
                ~inside
                | ((beat + 1 >= beats[0]) & ((beat + 1 >= beats[1]) | ~use_b))
            ),
            seq.o.ready.eq(complete & last_beat),
        ]
        for i in range(2):
            m.d.sync += got[i].eq(~complete & (got[i] | took[i]))
        with m.If(complete):
            m.d.sync += beat.eq(Mux(last_beat, 0, beat + 1))

        tag = Signal(self._queued_tag())
        reduced = [
            instr.reduce_loops[i] & (instr.reduce != Reduce.NONE) for i in range(len(step.at_first))
        ]
        m.d.comb += [
            tag.beats_a.eq(Mux(inside, beats[0], 0)),
            tag.beats_b.eq(Mux(use_b, beats[1], 0)),
            tag.step.first.eq(step.first),
            tag.step.inside.eq(inside),
            tag.step.red_first.eq(Cat(step.at_first[i] | ~r for i, r in enumerate(reduced)).all()),
            tag.step.red_last.eq(Cat(step.at_last[i] | ~r for i, r in enumerate(reduced)).all()),
            tag.step.param.eq(step.param),
            tag.step.lanes.eq(n),
            tag.step.o.eq(step.o),
            tag.step.fires.eq(step.fires[0]),
            tags.w_en.eq(complete & last_beat),
            tags.w_data.eq(tag),
            contexts.w_en.eq(complete & last_beat & step.first),
            contexts.w_data.eq(Cat(getattr(instr, name) for name in CONTEXT)),
        ]
        self._bad = seq.o.valid & bad
        self._reading = complete
        self._banked = (self.a.valid & ~self.a.ready) | (self.b.valid & ~self.b.ready)
        self._acc_busy = self.acc_r.valid & ~self.acc_r.ready
        return tags, contexts, credit, took

    def _queued_tag(self) -> data.StructLayout:
        return data.StructLayout({"step": tag_layout(self._config), "beats_a": 3, "beats_b": 3})

    def _range_check(
        self, m: Module, seq: Sequencer, from_acc, inside, use_b, n, a_bytes, b_bytes, o_bytes
    ) -> Signal:
        """The step touches something that does not exist."""
        cfg = self._config
        step, instr = seq.o.payload, seq.instr
        bad = Signal()
        bad_a = inside & Mux(
            from_acc, step.a >= cfg.acc_vectors, step.a + a_bytes > cfg.spad_bytes
        )
        bad_b = use_b & (step.b + b_bytes > cfg.spad_bytes)
        bad_o = Mux(
            instr.o_space == Space.ACC,
            step.o >= cfg.acc_vectors,
            step.o + o_bytes > cfg.spad_bytes,
        )
        m.d.comb += bad.eq(bad_a | bad_b | bad_o | (step.param >= cfg.param_entries))
        return bad

    def _assemble(self, m: Module, lanes: VectorLanes, writer, tags, contexts, credit, took):
        """Collect a step's words, widen the elements, hand the step to the lanes."""
        cfg = self._config
        width = 8 * cfg.word_bytes
        word = 32 * cfg.cols
        m.submodules.words_a = words_a = fifo.SyncFIFO(width=max(word, width), depth=READS_AHEAD)
        m.submodules.words_b = words_b = fifo.SyncFIFO(width=width, depth=READS_AHEAD)
        m.d.comb += [
            words_a.w_en.eq(self.a.data_valid | self.acc_data_valid),
            words_a.w_data.eq(Mux(self.acc_data_valid, self.acc_data, self.a.data)),
            words_b.w_en.eq(self.b.data_valid),
            words_b.w_data.eq(self.b.data),
        ]
        head, context = Signal(self._queued_tag()), Signal(context_layout())
        held = Signal(context_layout())
        go = Signal()
        m.d.comb += [
            head.eq(tags.r_data),
            context.eq(Mux(head.step.first, contexts.r_data, held)),
        ]
        collected = []
        for i, (queue, beats) in enumerate(((words_a, head.beats_a), (words_b, head.beats_b))):
            have = Signal(3, name=f"have_{i}")
            enough, pop = Signal(name=f"enough_{i}"), Signal(name=f"pop_{i}")
            m.d.comb += [
                enough.eq((beats == 0) | ((have + 1 == beats) & queue.r_rdy)),
                pop.eq(tags.r_rdy & queue.r_rdy & (beats != 0) & ((have + 1 != beats) | go)),
                queue.r_en.eq(pop),
            ]
            with m.If(go):
                m.d.sync += have.eq(0)
            with m.Elif(pop):
                m.d.sync += have.eq(have + 1)
            parts = []
            for k in range(4):
                part = Signal(width, name=f"part_{i}_{k}")
                if k < 3:
                    with m.If(pop & (have == k)):
                        m.d.sync += part.eq(queue.r_data[:width])
                parts.append(Mux(have == k, queue.r_data[:width], part))
            wide = Signal(4 * width, name=f"operand_{i}")
            m.d.comb += wide.eq(Cat(*parts))
            collected.append((enough, wide, queue.r_data))
            m.d.sync += credit[i].eq(credit[i] + pop - took[i])
        (enough_a, wide_a, direct), (enough_b, wide_b, _) = collected
        m.d.comb += [
            go.eq(tags.r_rdy & enough_a & enough_b & writer.room),
            tags.r_en.eq(go),
            contexts.r_en.eq(go & head.step.first),
            lanes.valid.eq(go),
            lanes.tag.eq(head.step),
            lanes.context.eq(context),
            writer.claim.eq(go),
        ]
        from_acc = context.a_space == Space.ACC
        a, b = Signal(word), Signal(word)
        m.d.comb += [
            a.eq(Mux(from_acc, direct[:word], self._widen(m, "a", wide_a, context.a_type))),
            b.eq(self._widen(m, "b", wide_b, context.b_type)),
            lanes.a.eq(a),
            lanes.b.eq(b),
        ]
        with m.If(go & head.step.first):
            m.d.sync += held.eq(contexts.r_data)
        return tags.r_rdy

    def _widen(self, m: Module, name: str, words: Value, dtype: Value) -> Signal:
        """Elements of `dtype` in up to four words, as int32 lanes."""
        cols = self._config.cols
        out = Signal(32 * cols, name=f"wide_{name}")
        with m.Switch(dtype):
            for kind in DType:
                with m.Case(kind):
                    lanes = []
                    for c in range(cols):
                        bits = 8 * kind.bytes
                        lane = words[bits * c : bits * c + bits]
                        is_signed = kind in (DType.I8, DType.I16, DType.I32)
                        sign = lane[-1].replicate(32 - bits) if is_signed else Const(0, 32 - bits)
                        lanes.append(Cat(lane, sign))
                    m.d.comb += out.eq(Cat(*lanes))
        return out

    def _posts(self, m: Module, seq: Sequencer, done: Value) -> list[PostQueue]:
        read = seq.o.valid & seq.o.ready & seq.o.payload.fires[1]
        queues = []
        for name, source, fire, out in (
            ("done", seq.post[0], done, self.post_done),
            ("read", seq.post[1], read, self.post_read),
        ):
            m.submodules[f"posts_{name}"] = queue = PostQueue(POST_DEPTH)
            connect(m, source, queue.i)
            connect(m, queue.o, flipped(out))
            m.d.comb += queue.fire.eq(fire)
            queues.append(queue)
        return queues

    def _status(self, m: Module, seq: Sequencer, busy: Value, queues: list[PostQueue]) -> None:
        st = self.status
        with m.If(self._reading):
            m.d.comb += st.stall.eq(Stall.BUSY)
        with m.Elif(seq.waiting):
            m.d.comb += st.stall.eq(Stall.SEMAPHORE)
        with m.Elif(self._banked | self._acc_busy | (self.out.valid & ~self.out.ready)):
            m.d.comb += st.stall.eq(Stall.BANK)
        with m.Elif(seq.active | self.i.valid | busy):
            m.d.comb += st.stall.eq(Stall.PIPELINE)
        with m.Else():
            m.d.comb += st.stall.eq(Stall.IDLE)
        quiet = Cat(q.empty for q in queues).all()
        m.d.comb += [
            st.index.eq(seq.index),
            st.idle.eq(~seq.active & ~self.i.valid & ~busy & quiet),
            st.fault.eq(self._bad & ~self.halt),
            st.cause.eq(Fault.CHIP_ADDRESS),
            st.fault_index.eq(seq.index),
        ]

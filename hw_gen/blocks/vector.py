"""The vector engine: reads operands, feeds the lanes, writes results."""

from amaranth.hdl import *
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from hw_gen.blocks.matrix import POST_DEPTH
from hw_gen.blocks.post_queue import PostQueue
from hw_gen.blocks.semaphores import WaitPort
from hw_gen.blocks.sequencer import Sequencer
from hw_gen.blocks.vector_gather import VectorGather
from hw_gen.blocks.vector_issue import VectorIssue
from hw_gen.blocks.vector_lanes import VectorLanes
from hw_gen.blocks.vector_write import VectorWriter
from hw_gen.interfaces import EngineStatus, spad_read, spad_write, table_write
from hw_gen.layouts import PostStream, queued_layout
from spec.config import NpuConfig
from spec.isa import Opcode, Point
from spec.memmap import Fault, Stall


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
        m.submodules.issue = issue = VectorIssue(cfg, seq.step_layout)
        m.submodules.gather = gather = VectorGather(cfg)
        m.submodules.lanes = lanes = VectorLanes(cfg)
        m.submodules.writer = writer = VectorWriter(cfg)
        for source, sink in (
            (flipped(self.i), seq.i),
            (seq.wait, flipped(self.wait)),
            (seq.o, issue.step),
            (issue.a, flipped(self.a)),
            (issue.b, flipped(self.b)),
            (issue.acc_r, flipped(self.acc_r)),
            (issue.pending, gather.pending),
            (issue.context, gather.context),
            (flipped(self.param_write), lanes.param_write),
            (flipped(self.table_write), lanes.table_write),
            (writer.out, flipped(self.out)),
        ):
            connect(m, source, sink)
        m.d.comb += [
            issue.instr.eq(seq.instr),
            issue.halt.eq(self.halt),
            *(a.eq(b) for a, b in zip(issue.consumed, gather.consumed, strict=True)),
            gather.a_valid.eq(self.a.data_valid),
            gather.a_data.eq(self.a.data),
            gather.b_valid.eq(self.b.data_valid),
            gather.b_data.eq(self.b.data),
            gather.acc_valid.eq(self.acc_data_valid),
            gather.acc_data.eq(self.acc_data),
            gather.room.eq(writer.room),
            writer.claim.eq(gather.o_valid),
            lanes.valid.eq(gather.o_valid),
            lanes.tag.eq(gather.o_tag),
            lanes.context.eq(gather.o_context),
            lanes.a.eq(gather.o_a),
            lanes.b.eq(gather.o_b),
            writer.valid.eq(lanes.o_valid),
            writer.tag.eq(lanes.o_tag),
            writer.context.eq(lanes.o_context),
            writer.value.eq(lanes.o),
            self.acc_w_valid.eq(writer.acc_w_valid),
            writer.acc_w_ready.eq(self.acc_w_ready),
            self.acc_w_addr.eq(writer.acc_w_addr),
            self.acc_w_data.eq(writer.acc_w_data),
        ]
        queues = self._posts(m, seq, writer.done)
        self._status(m, seq, issue, gather.busy | writer.busy, queues)
        return m

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

    def _status(self, m: Module, seq, issue, busy: Value, queues: list[PostQueue]) -> None:
        st = self.status
        with m.If(issue.reading):
            m.d.comb += st.stall.eq(Stall.BUSY)
        with m.Elif(seq.waiting):
            m.d.comb += st.stall.eq(Stall.SEMAPHORE)
        with m.Elif(issue.refused | (self.out.valid & ~self.out.ready)):
            m.d.comb += st.stall.eq(Stall.BANK)
        with m.Elif(seq.active | self.i.valid | busy):
            m.d.comb += st.stall.eq(Stall.PIPELINE)
        with m.Else():
            m.d.comb += st.stall.eq(Stall.IDLE)
        quiet = Cat(q.empty for q in queues).all()
        m.d.comb += [
            st.index.eq(seq.index),
            st.idle.eq(~seq.active & ~self.i.valid & ~busy & quiet),
            st.fault.eq(seq.o.valid & issue.bad & ~self.halt),
            st.cause.eq(Fault.CHIP_ADDRESS),
            st.fault_index.eq(seq.index),
        ]

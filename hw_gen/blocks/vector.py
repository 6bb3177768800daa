"""The vector engine: reads operands, feeds the lanes, writes results."""

from amaranth.hdl import *
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from hw_gen.blocks.activity import resting, sequencer
from hw_gen.blocks.matrix import POST_DEPTH
from hw_gen.blocks.post_queue import post_queues
from hw_gen.blocks.sequencer import Sequencer
from hw_gen.blocks.vector_context import VectorContexts
from hw_gen.blocks.vector_gather import VectorGather
from hw_gen.blocks.vector_issue import VectorIssue
from hw_gen.blocks.vector_lanes import VectorLanes
from hw_gen.blocks.vector_write import VectorWriter
from hw_gen.interfaces import EngineStatus, acc_access, spad_read, spad_write, table_write
from hw_gen.layouts import PostStream, WaitPort, instruction_stream
from spec.config import NpuConfig
from spec.isa import Opcode, Point
from spec.memmap import Fault, Stall
from spec.optional import absent_fields


class VectorEngine(wiring.Component):
    """Epilogue of the matrix engine and stand-alone operators; `lane_count` elements a cycle.

    Members
    -------
    i : ``In(instruction_stream)`` of VECTOR.
    a, b, out : scratchpad ports.
    acc : ``Out(acc_access(config))``, to the `Accumulator`.
    param_write, table_write : from the load engine.
    wait, post_done, post_read, halt, status : as in the other engines.

    Timing: int8 operands and results, and accumulator vectors, take a cycle a step; wider ones in
    the scratchpad as many cycles as words, or half of that where an operand is alone
    (`VectorIssue`); steps with more than one RESCALE a cycle for each (`VectorSchedule`), all that
    for each part of a vector (`VectorSlicer`). Latency from issue to write is about 18 cycles.
    """

    def __init__(self, config: NpuConfig):
        self._config = config
        absent = absent_fields(config, Opcode.VECTOR)
        super().__init__(
            {
                "i": In(instruction_stream(Opcode.VECTOR, absent)),
                "a": Out(spad_read(config)),
                "b": Out(spad_read(config)),
                "out": Out(spad_write(config)),
                "acc": Out(acc_access(config)),
                "param_write": In(table_write(config)),
                "table_write": In(table_write(config)),
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
        seq = Sequencer(
            Opcode.VECTOR,
            {
                "a": "a_base",
                "b": "b_base",
                "o": "o_base",
                "param": "param_base",
                "dy": "y0",
                "dx": "x0",
            },
            post_points=(Point.DONE, Point.READ),
            without=absent_fields(cfg, Opcode.VECTOR),
        )
        m.submodules.seq = sequencer(m, platform, seq, "vector_seq")
        m.submodules.issue = issue = VectorIssue(cfg, seq.step_layout)
        m.submodules.contexts = contexts = VectorContexts(cfg)
        m.submodules.gather = gather = VectorGather(cfg)
        lanes = VectorLanes(cfg)
        m.submodules.lanes = resting(m, platform, lanes, lanes.works, "vector_lanes", lanes.settled)
        m.submodules.writer = writer = VectorWriter(cfg)
        for source, sink in (
            (seq.wait, flipped(self.wait)),
            (seq.o, issue.step),
            (issue.a, flipped(self.a)),
            (issue.b, flipped(self.b)),
            (issue.acc, flipped(self.acc.request)),
            (flipped(self.acc.words), gather.acc),
            (issue.pending, gather.pending),
            (issue.context, contexts.i),
            (gather.o, lanes.i),
            (lanes.o, writer.i),
            (flipped(self.param_write), lanes.param_write),
            (flipped(self.table_write), lanes.table_write),
            (writer.out, flipped(self.out)),
            (writer.acc, flipped(self.acc.write)),
        ):
            connect(m, source, sink)
        self._begin(m, seq, lanes.release)
        for port, words in ((self.a, gather.a), (self.b, gather.b)):
            m.d.comb += [words.valid.eq(port.data_valid), words.data.eq(port.data)]
        m.d.comb += [
            issue.instr.eq(seq.instr),
            issue.index.eq(seq.index),
            issue.halt.eq(self.halt),
            issue.consumed.eq(gather.consumed),
            issue.slot.eq(contexts.slot),
            contexts.release.eq(lanes.release),
            gather.slots.eq(contexts.slots),
            lanes.slots.eq(contexts.slots),
            lanes.room.eq(writer.room),
            writer.slots.eq(contexts.slots),
            writer.claim.eq(gather.o.valid & gather.o.ready),
            writer.tag.eq(gather.o.payload.tag),
        ]
        no_posts = post_queues(
            m,
            POST_DEPTH,
            {
                "done": (seq.post[0], writer.done, self.post_done),
                "read": (seq.post[1], gather.read, self.post_read),
            },
        )
        self._status(m, seq, issue, issue.active | gather.busy | writer.busy, no_posts)
        return m

    def _begin(self, m: Module, seq, release: Value) -> None:
        """Instructions go to the sequencer. Where there is but one context, the instruction in the
        sequencer is that context, and the next one begins when it is not needed any more.
        """
        if self._config.vector_contexts > 1:
            connect(m, flipped(self.i), seq.i)
            return
        held = Signal()
        m.d.comb += [
            seq.i.valid.eq(self.i.valid & ~held),
            self.i.ready.eq(seq.i.ready & ~held),
            seq.i.start.eq(self.i.start),
            seq.i.rest.eq(self.i.rest),
            seq.i.entries.eq(self.i.entries),
        ]
        with m.If(seq.i.valid & seq.i.ready):
            m.d.sync += held.eq(1)
        with m.Elif(release):
            m.d.sync += held.eq(0)

    def _status(self, m: Module, seq, issue, busy: Value, no_posts: Value) -> None:
        st = self.status
        with m.If(issue.reading):
            m.d.comb += st.stall.eq(Stall.BUSY)
        with m.Elif(seq.waiting & ~issue.active):
            m.d.comb += st.stall.eq(Stall.SEMAPHORE)
        with m.Elif(issue.refused | (self.out.valid & ~self.out.ready)):
            m.d.comb += st.stall.eq(Stall.BANK)
        with m.Elif(seq.active | self.i.valid | busy):
            m.d.comb += st.stall.eq(Stall.PIPELINE)
        with m.Else():
            m.d.comb += st.stall.eq(Stall.IDLE)
        m.d.comb += [
            st.index.eq(Mux(issue.active, issue.step_index, seq.index)),
            st.idle.eq(~seq.active & ~self.i.valid & ~busy & no_posts),
            st.rests.eq(st.idle | (seq.waiting & ~busy & no_posts)),
            st.fault.eq(issue.bad & ~self.halt),
            st.cause.eq(Fault.CHIP_ADDRESS),
            st.fault_index.eq(issue.step_index),
        ]

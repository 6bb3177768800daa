"""The depthwise engine: each lane convolves its own channel, into the accumulator."""

from amaranth.hdl import *
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from hw_gen.blocks.activity import resting, sequencer
from hw_gen.blocks.depthwise_lanes import DepthwiseLanes, depthwise_tag
from hw_gen.blocks.depthwise_scan import DepthwiseScan
from hw_gen.blocks.depthwise_weights import DepthwiseWeights
from hw_gen.blocks.depthwise_write import DepthwiseWriter
from hw_gen.blocks.post_queue import post_queues
from hw_gen.blocks.semaphores import WaitPort
from hw_gen.blocks.sequencer import Sequencer
from hw_gen.checks import check
from hw_gen.interfaces import EngineStatus, acc_update, spad_read
from hw_gen.layouts import PostStream, instruction_stream
from spec.config import NpuConfig
from spec.isa import Opcode, Point
from spec.memmap import Fault, Stall

POST_DEPTH = 16
"""More rows of outputs than are ever on their way."""


class DepthwiseEngine(wiring.Component):
    """Rows of outputs back to back; `taps` products a lane and cycle.

    Members
    -------
    i : ``In(instruction_stream)`` of DEPTHWISE.
    spad : scratchpad read port, for activations and weights. acc : accumulator port.
    wait, post_done, post_read, halt, status : as in the other engines.

    Timing: a row of outputs takes a cycle per column of the input that it lies on, and per kernel
    row in the input where the column is in it too. A fold's weights take a cycle a vector, less
    the columns outside the input in the row before. The last output of a row is written
    READ_LATENCY + 5 cycles after the row's last read was issued, or later.
    """

    def __init__(self, config: NpuConfig):
        self._config = config
        super().__init__(
            {
                "i": In(instruction_stream(Opcode.DEPTHWISE)),
                "spad": Out(spad_read(config, depthwise_tag(config))),
                "acc": Out(acc_update(config)),
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
            Opcode.DEPTHWISE,
            {
                "act": "act_base",
                "wgt": "wgt_base",
                "acc": "acc_base",
                "dy": "y0",
                "dx": "x0",
            },
            post_points=(Point.DONE, Point.READ),
        )
        m.submodules.seq = sequencer(m, platform, seq, "depthwise_seq")
        m.submodules.scan = scan = DepthwiseScan(cfg, seq.step_layout)
        m.submodules.weights = weights = DepthwiseWeights(cfg, seq.step_layout)
        lanes = DepthwiseLanes(cfg)
        m.submodules.lanes = resting(
            m, platform, lanes, lanes.valid, "depthwise_lanes", lanes.SETTLED
        )
        m.submodules.writer = writer = DepthwiseWriter(cfg)
        for source, sink in (
            (flipped(self.i), seq.i),
            (seq.wait, flipped(self.wait)),
            (seq.o, scan.step),
            (lanes.o, writer.i),
            (writer.acc, flipped(self.acc)),
        ):
            connect(m, source, sink)
        step, fresh = seq.o.payload, Signal()
        first = [step.at_first[i] | (i < seq.instr.fold_loops) for i in range(len(step.at_first))]
        m.d.comb += [
            fresh.eq(Cat(first).all()),
            scan.instr.eq(seq.instr),
            scan.index.eq(seq.index),
            scan.fresh.eq(fresh),
            scan.weights_ready.eq(weights.ready),
            scan.weight_set.eq(weights.set),
            scan.room.eq(writer.room),
            scan.halt.eq(self.halt),
            weights.step.eq(step),
            weights.instr.eq(seq.instr),
            weights.valid.eq(seq.o.valid),
            weights.fresh.eq(fresh),
            weights.take.eq(seq.o.valid & seq.o.ready),
            weights.halt.eq(self.halt),
            writer.claim.eq(scan.o.valid & scan.o.emit),
        ]
        self._port(m, scan, weights, lanes)
        no_posts = post_queues(
            m,
            POST_DEPTH,
            {
                "done": (seq.post[0], writer.done, self.post_done),
                "read": (
                    seq.post[1],
                    self.spad.data_valid
                    & self.spad.data_tag.access.valid
                    & self.spad.data_tag.access.read,
                    self.post_read,
                ),
            },
        )
        self._status(m, seq, scan, weights, writer, no_posts)
        both = scan.o.valid & scan.o.inside & weights.o.valid
        check(m, platform, ~both, "depthwise: the scan and the weights read at once")
        return m

    def _port(self, m: Module, scan, weights, lanes) -> None:
        """One scratchpad port: the scan's reads go before those of the next fold's weights."""
        # Whose address it is depends on registers alone: whether a request is valid is known late.
        theirs, ours = Signal(), weights.request.valid
        port, read, first = self.spad, scan.request.payload, weights.request.payload
        m.d.comb += [
            theirs.eq(scan.active & scan.o.inside),
            port.valid.eq(scan.request.valid | (ours & ~theirs)),
            port.addr.eq(Mux(theirs, read.addr, first.addr)),
            port.size.eq(Mux(theirs, read.size, Mux(ours, first.size, 0))),
            port.tag.operand.eq(Mux(ours & ~theirs, weights.o.operand, scan.o.operand)),
            scan.request.ready.eq(port.ready),
            weights.request.ready.eq(port.ready & ~theirs),
            lanes.valid.eq(port.data_valid),
            lanes.data.eq(port.data),
            lanes.tag.eq(port.data_tag),
        ]
        for side, part in ((scan.o, port.tag.access), (weights.o, port.tag.weight)):
            m.d.comb += [part[name].eq(side[name]) for name, _ in part.shape()]

    def _status(self, m: Module, seq, scan, weights, writer, no_posts: Value) -> None:
        st = self.status
        working = seq.active | self.i.valid | scan.active
        with m.If(scan.o.valid):
            m.d.comb += st.stall.eq(Stall.BUSY)
        with m.Elif(seq.waiting & ~scan.active):
            m.d.comb += st.stall.eq(Stall.SEMAPHORE)
        with m.Elif(scan.refused | weights.refused | writer.refused):
            m.d.comb += st.stall.eq(Stall.BANK)
        with m.Elif(working | writer.busy):
            m.d.comb += st.stall.eq(Stall.PIPELINE)
        with m.Else():
            m.d.comb += st.stall.eq(Stall.IDLE)
        # The sequencer may be at the next instruction already: the row under way goes first.
        bad = scan.bad | (weights.bad & ~scan.active)
        index = Mux(scan.active, scan.row_index, seq.index)
        m.d.comb += [
            st.index.eq(index),
            st.idle.eq(~working & ~writer.busy & no_posts),
            st.fault.eq(bad & ~self.halt),
            st.cause.eq(Fault.CHIP_ADDRESS),
            st.fault_index.eq(index),
        ]

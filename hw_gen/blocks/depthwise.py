"""The depthwise engine: each lane convolves its own channel, into the accumulator."""

from amaranth.hdl import *
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from hw_gen.blocks.activity import resting, sequencer
from hw_gen.blocks.depthwise_lanes import DepthwiseLanes, depthwise_tag
from hw_gen.blocks.depthwise_scan import DepthwiseScan
from hw_gen.blocks.depthwise_weights import DepthwiseWeights
from hw_gen.blocks.depthwise_write import DepthwiseWriter
from hw_gen.blocks.fifo import Fifo
from hw_gen.blocks.post_queue import post_queues
from hw_gen.blocks.sequencer import Sequencer
from hw_gen.checks import check
from hw_gen.interfaces import EngineStatus, acc_update, spad_read
from hw_gen.layouts import PostStream, WaitPort, instruction_stream
from spec.config import NpuConfig
from spec.isa import Opcode, Point
from spec.memmap import Fault, Stall

ANSWERS = 12
"""Reads on their way, with answers that wait for those of the other port: twice as many as there
are where none waits."""

POST_DEPTH = 16
"""More rows of outputs than are ever on their way."""


class DepthwiseEngine(wiring.Component):
    """Rows of outputs back to back; `taps` products a lane and cycle.

    Members
    -------
    i : ``In(instruction_stream)`` of DEPTHWISE.
    spad : scratchpad read port, for activations and weights; beside : that of the second column of
        pairs, where the configuration has one. acc : accumulator port.
    wait, post_done, post_read, halt, status : as in the other engines.

    Timing: a row of outputs takes a cycle per column of the input that it lies on, or per pair of
    them, and per kernel row in the input where a column is in it too. A fold's weights take a cycle
    a vector, less the columns outside the input in the row before. The last output of a row is
    written READ_LATENCY + 5 cycles after the row's last read was issued, or later; a cycle later
    where answers of pairs wait for one another.
    """

    def __init__(self, config: NpuConfig):
        self._config = config
        self._paired = config.depthwise_pairs
        super().__init__(
            {
                **({"beside": Out(spad_read(config))} if self._paired else {}),
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
        self._port(m, platform, scan, weights, lanes)
        no_posts = post_queues(
            m,
            POST_DEPTH,
            {
                "done": (seq.post[0], writer.done, self.post_done),
                "read": (
                    seq.post[1],
                    lanes.valid & lanes.tag.access.valid & lanes.tag.access.read,
                    self.post_read,
                ),
            },
        )
        self._status(m, seq, scan, weights, writer, no_posts)
        both = scan.o.valid & scan.o.inside & weights.o.valid
        check(m, platform, ~both, "depthwise: the scan and the weights read at once")
        return m

    def _port(self, m: Module, platform, scan, weights, lanes) -> None:
        """One scratchpad port: the scan's reads go before those of the next fold's weights. Their
        answers, with those of the second columns, go to the lanes.
        """
        # Whose address it is depends on registers alone: whether a request is valid is known late.
        theirs, ours, room = Signal(), weights.request.valid, Signal()
        port, read, first = self.spad, scan.request.payload, weights.request.payload
        m.d.comb += [
            theirs.eq(
                scan.active & (scan.o.inside | scan.o.beside if self._paired else scan.o.inside)
            ),
            port.valid.eq((scan.request.valid | (ours & ~theirs)) & room),
            port.addr.eq(Mux(theirs, read.addr, first.addr)),
            port.size.eq(Mux(theirs, read.size, Mux(ours, first.size, 0))),
            port.tag.operand.eq(Mux(ours & ~theirs, weights.o.operand, scan.o.operand)),
            scan.request.ready.eq(port.ready & room),
            weights.request.ready.eq(port.ready & room & ~theirs),
        ]
        if self._paired:
            m.d.comb += [
                self.beside.valid.eq(scan.beside.valid),
                self.beside.addr.eq(scan.beside.payload.addr),
                self.beside.size.eq(scan.beside.payload.size),
                scan.beside.ready.eq(self.beside.ready),
            ]
            self._pairs(m, platform, lanes, room)
        else:
            m.d.comb += [
                room.eq(1),
                lanes.valid.eq(port.data_valid),
                lanes.data.eq(port.data),
                lanes.tag.eq(port.data_tag),
            ]
        for side, part in ((scan.o, port.tag.access), (weights.o, port.tag.weight)):
            m.d.comb += [part[name].eq(side[name]) for name, _ in part.shape()]

    def _pairs(self, m: Module, platform, lanes, room: Signal) -> None:
        """Answers wait for those of the other port: banks are taken at different times. `room`: for
        another answer, and for that of a second column, of which there are no more.
        """
        port, word = self.spad, 8 * self._config.word_bytes
        layout = data.StructLayout({"data": word, "tag": port.tag.shape()})
        m.submodules.answers = answers = Fifo(layout, depth=ANSWERS, latency=1)
        m.submodules.seconds = seconds = Fifo(word, depth=ANSWERS, latency=1)
        first = answers.o.payload
        needs = first.tag.access.valid & first.tag.access.beside
        m.d.comb += [
            answers.i.valid.eq(port.data_valid),
            answers.i.payload.data.eq(port.data),
            answers.i.payload.tag.eq(port.data_tag),
            seconds.i.valid.eq(self.beside.data_valid),
            seconds.i.payload.eq(self.beside.data),
            lanes.valid.eq(answers.o.valid & (seconds.o.valid | ~needs)),
            answers.o.ready.eq(lanes.valid),
            seconds.o.ready.eq(lanes.valid & needs),
            lanes.data.eq(first.data),
            lanes.beside.eq(seconds.o.payload),
            lanes.tag.eq(first.tag),
        ]
        under_way = Signal(range(ANSWERS + 1))
        m.d.sync += under_way.eq(under_way + (port.valid & port.ready) - lanes.valid)
        m.d.comb += room.eq(under_way != ANSWERS)
        for queue in (answers, seconds):
            lost = queue.i.valid & ~queue.i.ready
            check(m, platform, ~lost, "depthwise: an answer that finds no room")

    def _status(self, m: Module, seq, scan, weights, writer, no_posts: Value) -> None:
        st = self.status
        working = seq.active | self.i.valid | scan.active
        asks = self.spad.valid | (self.beside.valid if self._config.depthwise_pairs else 0)
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
            st.rests.eq(st.idle | (seq.waiting & ~asks & ~scan.active & ~writer.busy & no_posts)),
            st.fault.eq(bad & ~self.halt),
            st.cause.eq(Fault.CHIP_ADDRESS),
            st.fault_index.eq(index),
        ]

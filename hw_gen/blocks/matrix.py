"""The matrix engine: weight and activation sequencers in front of the systolic array."""

from itertools import pairwise

from amaranth.hdl import *
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from hw_gen.blocks.array import SystolicArray
from hw_gen.blocks.matrix_weights import WeightFeed
from hw_gen.blocks.operands import last_or, operands
from hw_gen.blocks.post_queue import post_queues
from hw_gen.blocks.semaphores import WaitPort
from hw_gen.blocks.sequencer import Sequencer
from hw_gen.interfaces import READ_LATENCY, EngineStatus, acc_sums, spad_read
from hw_gen.layouts import (
    LANES,
    STREAM_FIELDS,
    WEIGHT_FIELDS,
    PostStream,
    acc_tag_layout,
    field_shape,
    queued_layout,
)
from spec.config import NpuConfig
from spec.isa import Opcode, Point
from spec.memmap import Fault, Stall

POST_DEPTH = 32


class MatrixEngine(wiring.Component):
    """Folds back to back: weights of the next fold enter beside the current one's activations.

    Members
    -------
    i, i_weights : ``In(stream)`` of queued MATRIX instructions; both get every instruction.
    act, wgt : scratchpad read ports.
    acc : ``Out(acc_sums(config))``, to the `Accumulator`.
    wait, wait_weights : ports to the semaphores.
    post_done, post_read, post_weights : semaphore updates.
    vector : strobe, an activation vector was issued (for the counters).
    halt : issue nothing more. clear : soft reset of the array, which a `ResetInserter` around the
        engine does not reach.

    Timing: a fold of M vectors with R array rows and C columns takes max(M, R) cycles, with
    transposed weights max(M, C). A vector's sum is written READ_LATENCY + rows + cols + 2 cycles
    after its issue.
    """

    def __init__(self, config: NpuConfig):
        self._config = config
        super().__init__(
            {
                "i": In(stream.Signature(queued_layout(Opcode.MATRIX, WEIGHT_FIELDS))),
                "i_weights": In(stream.Signature(queued_layout(Opcode.MATRIX, STREAM_FIELDS))),
                "act": Out(spad_read(config)),
                "wgt": Out(spad_read(config)),
                "acc": Out(acc_sums(config)),
                "wait": Out(WaitPort),
                "wait_weights": Out(WaitPort),
                "post_done": Out(PostStream),
                "post_read": Out(PostStream),
                "post_weights": Out(PostStream),
                "vector": Out(1),
                "halt": In(1),
                "clear": In(1),
                "status": Out(EngineStatus),
            }
        )

    def elaborate(self, platform):
        m = Module()
        cfg = self._config
        m.submodules.main = main = Sequencer(
            Opcode.MATRIX,
            {"act": "act_base", "acc": "acc_base", "dy": "y0", "dx": "x0"},
            post_points=(Point.DONE, Point.READ),
            without=WEIGHT_FIELDS,
        )
        m.submodules.weights = weights = Sequencer(
            Opcode.MATRIX,
            {"wgt": "wgt_base"},
            wait_points=(Point.WEIGHTS,),
            post_points=(Point.WEIGHTS,),
            folds=True,
            without=STREAM_FIELDS,
        )
        m.submodules.array = array = SystolicArray(cfg)
        m.submodules.feed = feed = WeightFeed(cfg, weights.step_layout)
        for source, sink in (
            (flipped(self.i), main.i),
            (flipped(self.i_weights), weights.i),
            (main.wait, flipped(self.wait)),
            (weights.wait, flipped(self.wait_weights)),
            (weights.o, feed.step),
            (feed.wgt, flipped(self.wgt)),
            (feed.o, array.weights),
        ):
            connect(m, source, sink)
        m.d.comb += [
            self.acc.tag.eq(array.tag_o),
            self.acc.sums.eq(array.sums),
            array.clear.eq(self.clear),
            feed.instr.eq(weights.instr),
            feed.halt.eq(self.halt),
        ]
        bad = self._activations(m, main, array, feed)
        no_posts = self._posts(m, main, weights)
        self._status(m, main, weights, feed, no_posts)
        m.d.comb += [
            self.status.fault.eq((bad | feed.bad) & ~self.halt),
            self.status.cause.eq(Fault.CHIP_ADDRESS),
            self.status.fault_index.eq(Mux(bad, main.index, weights.index)),
        ]
        return m

    def _activations(
        self, m: Module, seq: Sequencer, array: SystolicArray, feed: WeightFeed
    ) -> Value:
        """Issue one activation vector a cycle; returns: the step has an illegal address."""
        cfg = self._config
        step, instr = seq.o.payload, seq.instr
        rows = Signal(LANES)
        inside, starts_fold, ready, bad = (
            Signal(name=n) for n in ("inside", "starts_fold", "weights_ready", "bad_step")
        )
        streaming = Cat(
            step.at_first[i] | (i < instr.fold_loops) for i in range(len(step.at_first))
        )
        first_k = Cat(step.at_first[i] | ~instr.k_loops[i] for i in range(len(step.at_first))).all()
        y, x = step.dy.as_signed(), step.dx.as_signed()
        m.d.comb += [
            rows.eq(last_or(step.at_last, instr.row_loop, instr.rows_last, instr.rows)),
            inside.eq((y >= 0) & (y < instr.height) & (x >= 0) & (x < instr.width)),
            starts_fold.eq(streaming.all()),
            ready.eq(~starts_fold | feed.ready),
            bad.eq((inside & (step.act + rows > cfg.spad_bytes)) | (step.acc >= cfg.acc_vectors)),
            self.act.valid.eq(seq.o.valid & inside & ready & ~bad & ~self.halt),
            self.act.addr.eq(step.act),
            self.act.size.eq(rows),
            seq.o.ready.eq(ready & ~bad & ~self.halt & (~inside | self.act.ready)),
            self.vector.eq(seq.o.valid & seq.o.ready),
            feed.swap.eq(self.vector & starts_fold),
        ]

        meta = data.StructLayout(
            {
                "tag": acc_tag_layout(cfg),
                "swap": 1,
                "rows": LANES,
                "zp": field_shape(Opcode.MATRIX, "act_zp"),
                "unsigned": 1,
            }
        )
        stages = [Signal(meta, name=f"act_meta_{i}") for i in range(READ_LATENCY)]
        m.d.sync += [
            stages[0].tag.valid.eq(self.vector),
            stages[0].tag.addr.eq(step.acc),
            stages[0].tag.overwrite.eq(first_k & ~instr.accumulate),
            stages[0].tag.fires.eq(step.fires[0] & self.vector),
            stages[0].swap.eq(feed.swap),
            stages[0].rows.eq(Mux(inside, rows, 0)),
            stages[0].zp.eq(instr.act_zp),
            stages[0]["unsigned"].eq(instr.act_unsigned),
            *(b.eq(a) for a, b in pairwise(stages)),
        ]
        late = stages[-1]
        keep = Signal(cfg.rows, name="keep_rows")
        m.d.comb += keep.eq((1 << late.rows) - 1)
        m.d.comb += feed.entering.eq(late.swap)
        m.d.sync += [
            array.swap.eq(late.swap),
            array.tag.eq(late.tag),
            array.act.eq(operands(self.act.data, late["unsigned"], late.zp, keep, cfg.rows)),
        ]
        return seq.o.valid & ready & bad

    def _posts(self, m: Module, main: Sequencer, weights: Sequencer) -> Value:
        """Post what has been done, read, and loaded into the array; returns: nothing is left."""
        read = main.o.valid & main.o.ready & main.o.payload.fires[1]
        loaded = weights.o.valid & weights.o.ready & weights.o.payload.fires[0]
        return post_queues(
            m,
            POST_DEPTH,
            {
                "done": (main.post[0], self.acc.done, self.post_done),
                "read": (main.post[1], read, self.post_read),
                "weights": (weights.post[0], loaded, self.post_weights),
            },
        )

    def _status(
        self,
        m: Module,
        main: Sequencer,
        weights: Sequencer,
        feed: WeightFeed,
        no_posts: Value,
    ) -> None:
        flying = Signal(range(4 * (self._config.rows + self._config.cols)))
        landed = Signal()
        m.d.sync += landed.eq(self.acc.tag.valid)
        m.d.sync += flying.eq(flying + self.vector - landed)
        working = main.active | self.i.valid | weights.active | self.i_weights.valid
        st = self.status
        with m.If(self.vector):
            m.d.comb += st.stall.eq(Stall.BUSY)
        with m.Elif(main.waiting | (main.active & ~feed.have & weights.waiting)):
            m.d.comb += st.stall.eq(Stall.SEMAPHORE)
        with m.Elif((self.act.valid & ~self.act.ready) | (self.wgt.valid & ~self.wgt.ready)):
            m.d.comb += st.stall.eq(Stall.BANK)
        with m.Elif(working | (flying != 0)):
            m.d.comb += st.stall.eq(Stall.PIPELINE)
        with m.Else():
            m.d.comb += st.stall.eq(Stall.IDLE)
        m.d.comb += [
            st.index.eq(main.index),
            st.idle.eq(~working & (flying == 0) & no_posts),
        ]

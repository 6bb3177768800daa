"""The matrix engine: weight and activation sequencers in front of the systolic array."""

from itertools import pairwise

from amaranth.hdl import *
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from hw_gen.blocks.accumulator import acc_tag_layout
from hw_gen.blocks.array import SystolicArray
from hw_gen.blocks.matrix_weights import WeightFeed
from hw_gen.blocks.operands import last_or, operands
from hw_gen.blocks.post_queue import PostQueue
from hw_gen.blocks.semaphores import WaitPort
from hw_gen.blocks.sequencer import Sequencer
from hw_gen.interfaces import READ_LATENCY, EngineStatus, spad_read
from hw_gen.layouts import PostStream, queued_layout
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
    tag, sums : to the `Accumulator`; done : from it.
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
        queued = stream.Signature(queued_layout(Opcode.MATRIX))
        super().__init__(
            {
                "i": In(queued),
                "i_weights": In(queued),
                "act": Out(spad_read(config)),
                "wgt": Out(spad_read(config)),
                "tag": Out(acc_tag_layout(config)),
                "sums": Out(32 * config.cols),
                "done": In(1),
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
            {"act": ("act_base", 24), "acc": ("acc_base", 16), "dy": ("y0", 16), "dx": ("x0", 16)},
            post_points=(Point.DONE, Point.READ),
        )
        m.submodules.weights = weights = Sequencer(
            Opcode.MATRIX,
            {"wgt": ("wgt_base", 24)},
            wait_points=(Point.WEIGHTS,),
            post_points=(Point.WEIGHTS,),
            folds=True,
        )
        m.submodules.array = array = SystolicArray(cfg)
        connect(m, main.i, flipped(self.i))
        connect(m, weights.i, flipped(self.i_weights))
        connect(m, main.wait, flipped(self.wait))
        connect(m, weights.wait, flipped(self.wait_weights))
        m.d.comb += [
            self.tag.eq(array.tag_o),
            self.sums.eq(array.sums),
            array.clear.eq(self.clear),
        ]

        m.submodules.feed = feed = WeightFeed(cfg, weights.step_layout)
        connect(m, weights.o, feed.step)
        connect(m, feed.wgt, flipped(self.wgt))
        m.d.comb += [
            feed.instr.eq(weights.instr),
            feed.halt.eq(self.halt),
            array.wgt_valid.eq(feed.valid),
            array.wgt_across.eq(feed.across),
            array.wgt.eq(feed.weights),
        ]
        bad = self._activations(m, main, array, feed)
        queues = self._posts(m, main, weights)
        self._status(m, main, weights, feed, queues)
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
        rows = Signal(8)
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
                "rows": 8,
                "zp": signed(10),
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

    def _posts(self, m: Module, main: Sequencer, weights: Sequencer) -> list[PostQueue]:
        accepted = main.o.valid & main.o.ready
        queues = []
        for name, source, fire, out in (
            ("done", main.post[0], self.done, self.post_done),
            ("read", main.post[1], accepted & main.o.payload.fires[1], self.post_read),
            (
                "weights",
                weights.post[0],
                weights.o.valid & weights.o.ready & weights.o.payload.fires[0],
                self.post_weights,
            ),
        ):
            queue = PostQueue(POST_DEPTH)
            m.submodules[f"posts_{name}"] = queue
            connect(m, source, queue.i)
            connect(m, queue.o, flipped(out))
            m.d.comb += queue.fire.eq(fire)
            queues.append(queue)
        return queues

    def _status(
        self,
        m: Module,
        main: Sequencer,
        weights: Sequencer,
        feed: WeightFeed,
        queues: list[PostQueue],
    ) -> None:
        flying = Signal(range(4 * (self._config.rows + self._config.cols)))
        landed = Signal()
        m.d.sync += landed.eq(self.tag.valid)
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
        quiet = Cat(q.empty for q in queues).all()
        m.d.comb += [
            st.index.eq(main.index),
            st.idle.eq(~working & (flying == 0) & quiet),
        ]

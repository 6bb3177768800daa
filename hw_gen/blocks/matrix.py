"""The matrix engine: weight and activation sequencers in front of the systolic array."""

from amaranth.hdl import *
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from hw_gen.blocks.activity import sequencer, with_idle_clock
from hw_gen.blocks.adders import passes_end
from hw_gen.blocks.array import SystolicArray
from hw_gen.blocks.choose import any_of
from hw_gen.blocks.fifo import Fifo
from hw_gen.blocks.matrix_weights import WeightFeed, vector_ports
from hw_gen.blocks.operands import first_lanes, last_or, operands
from hw_gen.blocks.post_queue import post_queues
from hw_gen.blocks.sequencer import Sequencer
from hw_gen.checks import check
from hw_gen.interfaces import READ_LATENCY, EngineStatus, acc_sums, spad_read
from hw_gen.layouts import (
    LANES,
    STREAM_FIELDS,
    WEIGHT_FIELDS,
    PostStream,
    WaitPort,
    acc_tag_layout,
    field_shape,
    instruction_stream,
)
from hw_gen.platform import asks_for
from spec.config import NpuConfig
from spec.isa import Opcode, Point
from spec.memmap import Fault, Stall
from spec.optional import absent_fields

POST_DEPTH = 32

ACTS_AHEAD = READ_LATENCY + 3
"""Activation vectors that may be issued and not yet be in the array: enough for one a cycle."""


def activation_tag(config: NpuConfig) -> data.StructLayout:
    """What goes with an activation vector; `rows` of it were read. `swap`: it is the first of its
    fold. `read`: when it has come, the instruction posts READ."""
    return data.StructLayout(
        {
            "acc": acc_tag_layout(config),
            "swap": 1,
            "rows": LANES,
            "zp": field_shape(Opcode.MATRIX, "act_zp"),
            "unsigned": 1,
            "read": 1,
        }
    )


class MatrixEngine(wiring.Component):
    """Folds back to back: weights of the next fold enter beside the current one's activations.

    Members
    -------
    i, i_weights : ``In(instruction_stream)`` of MATRIX; both get every instruction.
    act, wgt, wgt_1, … : scratchpad read ports, `weight_rows` of them for weights (all: `wgts`).
    acc : ``Out(acc_sums(config))``, to the `Accumulator`.
    wait, wait_weights : ports to the semaphores.
    post_done, post_read, post_weights : semaphore updates.
    vector_taken : strobe, an activation vector was issued (for the counters).
    halt : issue nothing more. clear : soft reset of the array, which a `ResetInserter` around the
        engine does not reach.

    Timing: a fold of M vectors with R array rows and C columns takes max(M, R / weight_rows)
    cycles, with transposed weights max(M, C / weight_rows), rounded up. A vector's sum is written
    READ_LATENCY + cycles_through_array + 2 cycles after its issue, or as much later as the vector
    waited for a bank or for its fold's weights.
    """

    def __init__(self, config: NpuConfig):
        self._config = config
        absent = absent_fields(config, Opcode.MATRIX)
        super().__init__(
            {
                "i": In(instruction_stream(Opcode.MATRIX, absent | WEIGHT_FIELDS)),
                "i_weights": In(instruction_stream(Opcode.MATRIX, absent | STREAM_FIELDS)),
                "act": Out(spad_read(config, activation_tag(config))),
                **vector_ports(config),
                "acc": Out(acc_sums(config)),
                "wait": Out(WaitPort),
                "wait_weights": Out(WaitPort),
                "post_done": Out(PostStream),
                "post_read": Out(PostStream),
                "post_weights": Out(PostStream),
                "vector_taken": Out(1),
                "halt": In(1),
                "clear": In(1),
                "status": Out(EngineStatus),
            }
        )
        self.wgts = [getattr(self, name) for name in vector_ports(config)]

    def elaborate(self, platform):
        m = Module()
        cfg = self._config
        absent = absent_fields(cfg, Opcode.MATRIX)
        main = Sequencer(
            Opcode.MATRIX,
            {"act": "act_base", "acc": "acc_base", "dy": "y0", "dx": "x0"},
            post_points=(Point.DONE, Point.READ),
            without=absent | WEIGHT_FIELDS,
        )
        m.submodules.main = sequencer(m, platform, main, "main_seq")
        weights = Sequencer(
            Opcode.MATRIX,
            {"wgt": "wgt_base"},
            post_points=(Point.WEIGHTS,),
            folds=True,
            without=absent | STREAM_FIELDS,
        )
        m.submodules.weights = sequencer(m, platform, weights, "weights_seq")
        array = SystolicArray(cfg)
        enters = array.weights.valid | array.swap | array.tag.valid | array.clear
        m.submodules.array = with_idle_clock(
            m, platform, array, enters, "array", cfg.rows + cfg.cols + 4
        )
        m.submodules.feed = feed = WeightFeed(cfg, weights.step_layout)
        for source, sink in (
            (flipped(self.i), main.i),
            (flipped(self.i_weights), weights.i),
            (main.wait, flipped(self.wait)),
            (weights.wait, flipped(self.wait_weights)),
            (weights.o, feed.step),
            *((port, flipped(mine)) for port, mine in zip(feed.wgts, self.wgts, strict=True)),
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
        bad = self._activations(m, platform, main, array, feed)
        no_posts = self._posts(m, main, weights, feed)
        self._status(m, main, weights, feed, no_posts)
        m.d.comb += [
            self.status.fault.eq((bad | feed.bad) & ~self.halt),
            self.status.cause.eq(Fault.CHIP_ADDRESS),
            self.status.fault_index.eq(Mux(bad, main.index, weights.index)),
        ]
        return m

    def _activations(
        self, m: Module, platform, seq: Sequencer, array: SystolicArray, feed: WeightFeed
    ) -> Value:
        """Issue one activation vector a cycle; returns: the step has an illegal address."""
        cfg = self._config
        step, instr = seq.o.payload, seq.instr
        rows = Signal(LANES)
        inside, starts_fold, room, may = (
            Signal(name=n) for n in ("inside", "starts_fold", "room", "may")
        )
        streaming = Cat(
            step.at_first[i] | (i < instr.fold_loops) for i in range(len(step.at_first))
        )
        first_k = Cat(step.at_first[i] | ~instr.k_loops[i] for i in range(len(step.at_first))).all()
        y, x = step.dy.as_signed(), step.dx.as_signed()
        beyond = passes_end(m, platform, "activations", step.act, rows, cfg.spad_bytes)
        ahead, enters = Signal(range(ACTS_AHEAD + 1)), Signal()
        layout = {"addr": step.act.shape(), "tag": self.act.tag.shape(), "bad": 1}
        made = stream.Signature(data.StructLayout(layout)).create(path=("made",))
        tag, checked = made.payload.tag, self._checked(m, platform, seq, made)
        m.d.comb += [
            rows.eq(last_or(step.at_last, instr.row_loop, instr.rows_last, instr.rows)),
            inside.eq((y >= 0) & (y < instr.height) & (x >= 0) & (x < instr.width)),
            starts_fold.eq(streaming.all()),
            made.payload.addr.eq(step.act),
            made.payload.bad.eq((inside & beyond) | (step.acc >= cfg.acc_vectors)),
            tag.acc.valid.eq(1),
            tag.acc.addr.eq(step.acc),
            tag.acc.overwrite.eq(first_k & ~instr.accumulate),
            tag.acc.fires.eq(step.fires[0]),
            tag.swap.eq(starts_fold),
            tag.rows.eq(Mux(inside, rows, 0)),
            tag.zp.eq(instr.act_zp),
            tag["unsigned"].eq(instr.act_unsigned),
            tag.read.eq(step.fires[1]),
            # What the weights wait for, the activations of their fold wait for too.
            room.eq((ahead != ACTS_AHEAD) & (~checked.payload.tag.swap | feed.have)),
            may.eq(room & ~checked.payload.bad & ~self.halt),
            feed.begin.eq(self.vector_taken & checked.payload.tag.swap),
            # Nothing is read for a vector in the padding, but it keeps its place.
            self.act.valid.eq(checked.valid & may),
            self.act.addr.eq(checked.payload.addr),
            self.act.tag.eq(checked.payload.tag),
            self.act.size.eq(checked.payload.tag.rows),
            checked.ready.eq(may & self.act.ready),
            self.vector_taken.eq(checked.valid & checked.ready),
        ]
        m.d.sync += ahead.eq(ahead + self.vector_taken - enters)
        self._enter(m, platform, array, feed, enters)
        return checked.valid & checked.payload.bad

    def _checked(self, m: Module, platform, seq: Sequencer, made):
        """The steps of which `made` has the payload; on an FPGA behind a register, for their
        addresses are checked in this cycle.
        """
        m.d.comb += [made.valid.eq(seq.o.valid), seq.o.ready.eq(made.ready)]
        if not asks_for(platform, "for_fpga"):
            return made
        checked = stream.Signature(made.payload.shape()).create(path=("checked",))
        m.d.comb += [made.ready.eq(~checked.valid | checked.ready), seq.holds.eq(checked.valid)]
        with m.If(made.ready):
            m.d.sync += [checked.valid.eq(made.valid), checked.payload.eq(made.payload)]
        return checked

    def _enter(
        self, m: Module, platform, array: SystolicArray, feed: WeightFeed, enters: Signal
    ) -> None:
        """Vectors go to the array in order, past the FIFO where it is empty. The first of a fold
        waits until all weights of the fold are there."""
        cfg = self._config
        layout = data.StructLayout({"data": 8 * cfg.rows, "tag": activation_tag(cfg)})
        came, head, keep = Signal(layout), Signal(layout), Signal(cfg.rows, name="keep_rows")
        m.submodules.acts = line = Fifo(layout, depth=ACTS_AHEAD, latency=1)
        here = line.o.valid | self.act.data_valid
        m.d.comb += [
            came.data.eq(self.act.data[: 8 * cfg.rows]),
            came.tag.eq(self.act.data_tag),
            head.eq(Mux(line.o.valid, line.o.payload, came)),
            enters.eq(here & (~head.tag.swap | feed.loaded)),
            line.o.ready.eq(enters),
            line.i.valid.eq(self.act.data_valid & (line.o.valid | ~enters)),
            line.i.payload.eq(came),
            keep.eq(first_lanes(head.tag.rows, cfg.rows)),
            feed.entering.eq(enters & head.tag.swap),
        ]
        m.d.sync += [
            array.swap.eq(feed.entering),
            array.tag.eq(Mux(enters, head.tag.acc, 0)),
            array.act.eq(operands(head.data, head.tag["unsigned"], head.tag.zp, keep, cfg.rows)),
        ]
        check(m, platform, ~line.i.valid | line.i.ready, "matrix: activations without room")

    def _posts(self, m: Module, main: Sequencer, weights: Sequencer, feed: WeightFeed) -> Value:
        """Post what has been done, and read; returns: nothing is left."""
        read = self.act.data_valid & self.act.data_tag.read
        return post_queues(
            m,
            POST_DEPTH,
            {
                "done": (main.post[0], self.acc.done, self.post_done),
                "read": (main.post[1], read, self.post_read),
                "weights": (weights.post[0], feed.fire, self.post_weights),
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
        landed = Signal(2)  # sums are written two cycles after their tag
        m.d.sync += landed.eq(Cat(self.acc.tag.valid, landed))
        m.d.sync += flying.eq(flying + self.vector_taken - landed[-1])
        working = main.active | self.i.valid | weights.active | self.i_weights.valid
        rests = [
            seq.waiting | ~(seq.active | queue.valid)
            for seq, queue in ((main, self.i), (weights, self.i_weights))
        ]
        asks = any_of([port.valid for port in (self.act, *self.wgts)])
        # What does not take another request waits for a bank.
        full = [~port.ready for port in self.wgts[1:]]
        refused = any_of([self.wgt.valid & ~self.wgt.ready, *full])
        st = self.status
        with m.If(self.vector_taken):
            m.d.comb += st.stall.eq(Stall.BUSY)
        with m.Elif(main.waiting | (main.active & ~feed.have & weights.waiting)):
            m.d.comb += st.stall.eq(Stall.SEMAPHORE)
        with m.Elif((self.act.valid & ~self.act.ready) | refused):
            m.d.comb += st.stall.eq(Stall.BANK)
        with m.Elif(working | (flying != 0)):
            m.d.comb += st.stall.eq(Stall.PIPELINE)
        with m.Else():
            m.d.comb += st.stall.eq(Stall.IDLE)
        m.d.comb += [
            st.index.eq(main.index),
            st.idle.eq(~working & (flying == 0) & no_posts),
            st.rests.eq(Cat(rests).all() & ~asks & (flying == 0) & no_posts),
        ]

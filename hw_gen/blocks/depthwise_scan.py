"""First part of the depthwise engine: walks the input under a row of outputs, a read a cycle."""

from amaranth.hdl import *
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from hw_gen.blocks.adders import fast_sum, passes_end, two_of
from hw_gen.blocks.operands import last_or
from hw_gen.interfaces import size_bits
from hw_gen.layouts import INDEX_BITS, LANES, engine_layout, field_shape
from spec.config import NpuConfig
from spec.isa import CHIP_BITS, KERNEL_ROWS, POSITION_BITS, VECTOR_BITS, Opcode

_KEPT = (
    "act_row",
    "act_col",
    "acc_col",
    "col_step",
    "width",
    "act_zp",
    "act_unsigned",
    "kernel_cols",
    "stride",
    "accumulate",
)
"""Instruction fields that a row takes along: the sequencer is one row ahead."""


def request_layout(config: NpuConfig) -> data.StructLayout:
    """A scratchpad read of the depthwise engine."""
    return data.StructLayout({"addr": config.spad_addr_bits, "size": size_bits(config)})


operand_layout = data.StructLayout(
    {"lanes": LANES, "zp": field_shape(Opcode.DEPTHWISE, "act_zp"), "unsigned": 1}
)
"""How bytes read become operands."""


def access_layout(config: NpuConfig) -> data.StructLayout:
    """A kernel row of a column, on its way with what is read for it.

    `inside`: it lies in the input, so something was read. `k`, `set`: which weights multiply it.
    `read`: it is its row's last, and the row posts READ when it has come.
    `shift`: last kernel row of its column. `emit`: sum number `tap` of the chain then is an
    output, and goes to `addr`; `fires`: it is its row's last, and the row posts DONE.
    """
    return data.StructLayout(
        {
            "valid": 1,
            "operand": operand_layout,
            "inside": 1,
            "k": range(KERNEL_ROWS),
            "set": 1,
            "tap": range(max(2, config.taps)),
            "shift": 1,
            "emit": 1,
            "addr": config.acc_addr_bits,
            "accumulate": 1,
            "fires": 1,
            "read": 1,
        }
    )


class DepthwiseScan(wiring.Component):
    """Columns of the input from left to right, in each the kernel rows that lie in the input.

    Members
    -------
    step, instr, index : the sequencer's steps, one per row of outputs, and their instruction.
    fresh : the step is the first of a fold. weights_ready : its weights are there, in set
        ``weight_set``.
    room : a result has somewhere to go. halt : read nothing more.
    request : ``Out(stream)`` of `request_layout`, of no bytes where a column is outside the input;
        o : what goes with it.
    active, row_index : a row is under way, of that instruction. refused : no bank was free.
    bad : it touches something that does not exist.

    Timing: a cycle per kernel row in the input and column; rows of two cycles or more follow each
    other without a gap.
    """

    def __init__(self, config: NpuConfig, step_layout: data.StructLayout):
        self._config = config
        super().__init__(
            {
                "step": In(stream.Signature(step_layout)),
                "instr": In(engine_layout(Opcode.DEPTHWISE)),
                "index": In(INDEX_BITS),
                "fresh": In(1),
                "weights_ready": In(1),
                "weight_set": In(1),
                "room": In(1),
                "halt": In(1),
                "request": Out(stream.Signature(request_layout(config))),
                "o": Out(access_layout(config)),
                "active": Out(1),
                "row_index": Out(INDEX_BITS),
                "refused": Out(1),
                "bad": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        cfg = self._config
        kept = {f: s for f, s in engine_layout(Opcode.DEPTHWISE) if f in _KEPT}
        row = Signal(
            data.StructLayout(
                {
                    **{name: field.shape for name, field in kept.items()},
                    "lanes": LANES,
                    "first_k": range(KERNEL_ROWS),
                    "last_k": range(KERNEL_ROWS),
                    "any_k": 1,
                    "set": 1,
                    "fires": 2,
                }
            )
        )
        # Where the scan is: kernel row, columns to the next output, outputs to come, and the
        # addresses of this read, of this column's first one, and of the next output.
        k, x = Signal(range(KERNEL_ROWS)), Signal(signed(POSITION_BITS))
        phase = Signal(field_shape(Opcode.DEPTHWISE, "stride"))
        left = Signal(field_shape(Opcode.DEPTHWISE, "outputs"))
        addr, column, acc = Signal(CHIP_BITS), Signal(CHIP_BITS), Signal(VECTOR_BITS)
        inside, last_k, emit, may, go, finish = (
            Signal(name=n) for n in ("inside", "last_k", "emit", "may", "go", "finish")
        )
        # Whether a column lies in the input is known a cycle before it.
        within, next_x = Signal(), Signal(signed(POSITION_BITS))
        m.d.comb += [
            next_x.eq(x + row.col_step),
            inside.eq(row.any_k & within),
            last_k.eq(~inside | (k == row.last_k)),
            emit.eq(last_k & (phase == 0)),
            self.bad.eq(
                self.active
                & (
                    (inside & passes_end(m, platform, "read", addr, row.lanes, cfg.spad_bytes))
                    | (emit & (acc >= cfg.acc_vectors))
                )
            ),
            may.eq(self.active & ~self.bad & ~self.halt & (~emit | self.room)),
            self.request.valid.eq(may),
            self.request.payload.addr.eq(addr),
            self.request.payload.size.eq(Mux(inside, row.lanes, 0)),
            self.refused.eq(self.request.valid & ~self.request.ready),
            go.eq(may & ~self.refused),
            finish.eq(go & emit & (left == 1)),
        ]
        with m.If(go & ~last_k):
            m.d.sync += [k.eq(k + 1), addr.eq(addr + row.act_row)]
        with m.If(go & last_k):
            m.d.sync += [
                k.eq(row.first_k),
                addr.eq(column + row.act_col),
                column.eq(column + row.act_col),
                x.eq(next_x),
                within.eq((next_x >= 0) & (next_x < row.width)),
                phase.eq(Mux(emit, row.stride, phase) - 1),
            ]
        with m.If(go & emit):
            m.d.sync += [acc.eq(acc + row.acc_col), left.eq(left - 1)]
        self._describe(m, row, k, acc, go, inside, last_k, emit, left)

        take, first_k = self._take(m, row, kept, finish)
        step, instr = self.step.payload, self.instr
        # Three numbers become two before they are added: what is added comes from a memory.
        rows = [Mux(bit, instr.act_row[:CHIP_BITS] << i, 0) for i, bit in enumerate(first_k)]
        start = fast_sum(m, platform, "start", *two_of([step.act, *rows], CHIP_BITS))
        with m.If(take):
            m.d.sync += [
                k.eq(first_k),
                phase.eq(instr.kernel_cols - 1),
                left.eq(instr.outputs),
                addr.eq(start),
                column.eq(start),
                acc.eq(step.acc),
                x.eq(step.dx),
                within.eq((step.dx.as_signed() >= 0) & (step.dx.as_signed() < instr.width)),
            ]
        return m

    def _take(self, m: Module, row: Signal, kept: dict, finish: Value) -> tuple[Signal, Signal]:
        """The next row begins; returns: it does, and at which kernel row.

        Which kernel rows lie in the input is found a cycle before.
        """
        step, instr = self.step.payload, self.instr
        take, rows, known = Signal(name="take"), Signal(KERNEL_ROWS, name="rows"), Signal()
        any_k, first_k, last_k = Signal(), Signal(range(KERNEL_ROWS)), Signal(range(KERNEL_ROWS))
        m.d.comb += [
            self.step.ready.eq((~self.active | finish) & self.weights_ready & known & ~self.halt),
            take.eq(self.step.valid & self.step.ready),
        ]
        m.d.sync += [known.eq(self.step.valid & ~take), any_k.eq(rows.any())]
        # Rows of the input are consecutive on a circle of 2^16, and so are the kernel's rows on
        # far less than half of it: those in both are consecutive too.
        for k in range(KERNEL_ROWS):
            y = Signal(signed(POSITION_BITS), name=f"y_{k}")
            m.d.comb += [
                y.eq(step.dy + instr.row_step * k),
                rows[k].eq((k < instr.kernel_rows) & (y >= 0) & (y < instr.height)),
            ]
            with m.If(rows[k]):
                m.d.sync += last_k.eq(k)
        for k in reversed(range(KERNEL_ROWS)):
            with m.If(rows[k]):
                m.d.sync += first_k.eq(k)
        with m.If(take):
            m.d.sync += [
                *(row[name].eq(instr[name]) for name in kept),
                row.lanes.eq(last_or(step.at_last, instr.lane_loop, instr.lanes_last, instr.lanes)),
                row.first_k.eq(first_k),
                row.last_k.eq(last_k),
                row.any_k.eq(any_k),
                row.fires.eq(step.fires),
                self.row_index.eq(self.index),
                self.active.eq(1),
            ]
            with m.If(self.fresh):
                m.d.sync += row.set.eq(self.weight_set)
        with m.Elif(finish):
            m.d.sync += self.active.eq(0)
        return take, first_k

    def _describe(self, m: Module, row, k, acc, go, inside, last_k, emit, left) -> None:
        o = self.o
        m.d.comb += [
            o.valid.eq(go),
            o.k.eq(k),
            o.set.eq(row.set),
            o.tap.eq(row.kernel_cols - 1),
            o.operand.lanes.eq(row.lanes),
            o.operand.zp.eq(row.act_zp),
            o.operand["unsigned"].eq(row.act_unsigned),
            o.inside.eq(inside),
            o.shift.eq(last_k),
            o.emit.eq(emit),
            o.addr.eq(acc),
            o.accumulate.eq(row.accumulate),
            o.fires.eq((left == 1) & row.fires[0]),
            o.read.eq(emit & (left == 1) & row.fires[1]),
        ]

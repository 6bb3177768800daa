"""First part of the depthwise engine: walks the input under a row of outputs, a read a cycle."""

from amaranth.hdl import *
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from hw_gen.blocks.adders import fast_sum, passes_end, two_of
from hw_gen.blocks.operands import last_or
from hw_gen.interfaces import size_bits
from hw_gen.layouts import INDEX_BITS, LANES, engine_layout, field_shape
from spec.config import PAIR_STRIDE, PAIR_TAPS, NpuConfig
from spec.isa import CHIP_BITS, KERNEL_ROWS, POSITION_BITS, VECTOR_BITS, Opcode

_KEPT = (
    "act_row",
    "acc_col",
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
    output, and goes to `addr`; `fires`: it is its row's last, and the row posts DONE. `pair`: of
    two columns; `beside`: the second one lies in the input, and comes by the second port; `ends`:
    of its row's last output.
    """
    pair = {"pair": 1, "beside": 1, "ends": 1} if config.depthwise_pairs else {}
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
            **pair,
        }
    )


class DepthwiseScan(wiring.Component):
    """Columns of the input from left to right, in each the kernel rows that lie in the input.

    With two columns a cycle, rows of kernels of PAIR_TAPS columns and stride PAIR_STRIDE take the
    columns in pairs: the first of each is an output's first and its predecessor's last one.

    Members
    -------
    step, instr, index : the sequencer's steps, one per row of outputs, and their instruction.
    fresh : the step is the first of a fold. weights_ready : its weights are there, in set
        ``weight_set``.
    room : a result has somewhere to go. halt : read nothing more.
    request : ``Out(stream)`` of `request_layout`, of no bytes where a column is outside the input;
        o : what goes with it. beside : the same for the second column of a pair, in the same
        cycle.
    active, row_index : a row is under way, of that instruction. refused : no bank was free.
    bad : it touches something that does not exist.

    Timing: a cycle per kernel row in the input and column or pair; rows of two cycles or more
    follow each other without a gap.
    """

    def __init__(self, config: NpuConfig, step_layout: data.StructLayout):
        self._config = config
        self._paired = config.depthwise_pairs
        request = stream.Signature(request_layout(config))
        super().__init__(
            {
                **({"beside": Out(request)} if self._paired else {}),
                "step": In(stream.Signature(step_layout)),
                "instr": In(engine_layout(Opcode.DEPTHWISE)),
                "index": In(INDEX_BITS),
                "fresh": In(1),
                "weights_ready": In(1),
                "weight_set": In(1),
                "room": In(1),
                "halt": In(1),
                "request": Out(request),
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
                    # From a column, or a pair, to the next one: bytes, and columns of the input.
                    "hop": CHIP_BITS,
                    "hop_x": signed(POSITION_BITS),
                    "pair": 1,
                }
            )
        )
        # Where the scan is: kernel row, columns to the next output, outputs to come, and the
        # address of the next output.
        k, acc = Signal(range(KERNEL_ROWS)), Signal(VECTOR_BITS)
        phase = Signal(field_shape(Opcode.DEPTHWISE, "stride"))
        left = Signal(field_shape(Opcode.DEPTHWISE, "outputs"))
        inside, beside, last_k, emit, ends, may, go, finish = (
            Signal(name=n)
            for n in ("inside", "beside", "last_k", "emit", "ends", "may", "go", "finish")
        )
        columns = [_Column(m, "")] + [_Column(m, "_1")] * self._paired
        first, second = columns[0], columns[-1]
        over = [
            passes_end(m, platform, f"read{c.suffix}", c.addr, row.lanes, cfg.spad_bytes)
            for c in columns
        ]
        ready = self.request.ready
        if self._paired:
            ready = ready & (self.beside.ready | ~beside)
            m.d.comb += [
                # The last output needs the first column only.
                beside.eq(row.any_k & second.within & row.pair & ~ends),
                self.beside.valid.eq(may & beside & self.request.ready),
                self.beside.payload.addr.eq(second.addr),
                self.beside.payload.size.eq(row.lanes),
            ]
        m.d.comb += [
            inside.eq(row.any_k & first.within),
            last_k.eq(~(inside | beside) | (k == row.last_k)),
            emit.eq(last_k & (phase == 0)),
            ends.eq((phase == 0) & (left == 1)),
            self.bad.eq(
                self.active
                & ((inside & over[0]) | (beside & over[-1]) | (emit & (acc >= cfg.acc_vectors)))
            ),
            may.eq(self.active & ~self.bad & ~self.halt & (~emit | self.room)),
            self.request.valid.eq(may & (self.beside.ready | ~beside) if self._paired else may),
            self.request.payload.addr.eq(first.addr),
            self.request.payload.size.eq(Mux(inside, row.lanes, 0)),
            self.refused.eq(may & ~ready),
            go.eq(may & ready),
            finish.eq(go & last_k & ends),
        ]
        with m.If(go & ~last_k):
            m.d.sync += k.eq(k + 1)
            m.d.sync += [c.addr.eq(c.addr + row.act_row) for c in columns]
        with m.If(go & last_k):
            m.d.sync += [
                k.eq(row.first_k),
                phase.eq(Mux(emit, row.stride, phase) - Mux(row.pair, 2, 1)),
            ]
            for c in columns:
                c.hop(m, row)
        with m.If(go & emit):
            m.d.sync += [acc.eq(acc + row.acc_col), left.eq(left - 1)]
        self._describe(m, row, k, acc, go, inside, last_k, emit, left)
        if self._paired:
            m.d.comb += [self.o.pair.eq(row.pair), self.o.beside.eq(beside), self.o.ends.eq(ends)]

        take, first_k = self._take(m, row, kept, finish)
        step, instr = self.step.payload, self.instr
        # Several numbers become two before they are added: what is added comes from a memory.
        rows = [Mux(bit, instr.act_row[:CHIP_BITS] << i, 0) for i, bit in enumerate(first_k)]
        with m.If(take):
            m.d.sync += [
                k.eq(first_k),
                phase.eq(instr.kernel_cols - 1),
                left.eq(instr.outputs),
                acc.eq(step.acc),
            ]
        for c in columns:
            more = [instr.act_col[:CHIP_BITS]] if c is not first else []
            numbers = two_of([step.act, *rows, *more], CHIP_BITS)
            start = fast_sum(m, platform, f"start{c.suffix}", *numbers)
            x = step.dx.as_signed() + (instr.col_step if more else 0)
            c.begin(m, take, start, x, instr.width)
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
        pair = Const(0, 1)
        if self._paired:
            pair = (instr.stride == PAIR_STRIDE) & (instr.kernel_cols == PAIR_TAPS)
        with m.If(take):
            m.d.sync += [
                *(row[name].eq(instr[name]) for name in kept),
                row.pair.eq(pair),
                row.hop.eq(Mux(pair, instr.act_col << 1, instr.act_col)),
                row.hop_x.eq(Mux(pair, instr.col_step << 1, instr.col_step)),
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


class _Column:
    """Where a column is that is read: the address of this read and of the column's first one, and
    its place in the input.
    """

    def __init__(self, m: Module, suffix: str):
        self.suffix = suffix
        self.addr = Signal(CHIP_BITS, name=f"addr{suffix}")
        self._top = Signal(CHIP_BITS, name=f"column{suffix}")
        self._x = Signal(signed(POSITION_BITS), name=f"x{suffix}")
        # Whether it lies in the input is known a cycle before it.
        self.within = Signal(name=f"within{suffix}")

    def hop(self, m: Module, row) -> None:
        """To the next column, or the same one of the next pair."""
        following = Signal(signed(POSITION_BITS), name=f"next_x{self.suffix}")
        m.d.comb += following.eq(self._x + row.hop_x)
        m.d.sync += [
            self.addr.eq(self._top + row.hop),
            self._top.eq(self._top + row.hop),
            self._x.eq(following),
            self.within.eq((following >= 0) & (following < row.width)),
        ]

    def begin(self, m: Module, take: Value, start: Value, x: Value, width: Value) -> None:
        """The first column of a row, which begins in the cycle of `take`.

        Whether it lies in the input is found a cycle before.
        """
        at = Signal(signed(POSITION_BITS), name=f"first_x{self.suffix}")
        lies = Signal(name=f"first_within{self.suffix}")
        m.d.comb += at.eq(x)
        m.d.sync += lies.eq((at >= 0) & (at < width))
        with m.If(take):
            m.d.sync += [
                self.addr.eq(start),
                self._top.eq(start),
                self._x.eq(at),
                self.within.eq(lies),
            ]

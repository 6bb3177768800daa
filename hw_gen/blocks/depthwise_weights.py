"""Second part of the depthwise engine: reads the weights of the next fold."""

from amaranth.hdl import *
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from hw_gen.blocks.adders import passes_end
from hw_gen.blocks.depthwise_scan import operand_layout, request_layout
from hw_gen.blocks.operands import last_or
from hw_gen.layouts import LANES, engine_layout
from spec.config import NpuConfig
from spec.isa import CHIP_BITS, KERNEL_ROWS, Opcode


def weight_layout(config: NpuConfig) -> data.StructLayout:
    """A weight vector on its way: of kernel row `k` and column `tap`, for a set."""
    return data.StructLayout(
        {
            "valid": 1,
            "operand": operand_layout,
            "k": range(KERNEL_ROWS),
            "set": 1,
            "tap": range(max(2, config.taps)),
        }
    )


class DepthwiseWeights(wiring.Component):
    """Kernel rows × kernel columns of weights, into the set that the row under way does not use.

    Members
    -------
    step, instr : the step that the sequencer offers; valid : it does. fresh : the step is the
        first of a fold and takes new weights. take : the scan takes the step.
    halt : read nothing more.
    request : ``Out(stream)`` of `request_layout`, granted when the scan has none. o : what goes
        with it.
    ready : the step's weights have been read, or it needs none. set : where they are.
    refused : no bank was free. bad : they lie outside the memory.

    Timing: a weight vector a cycle; `ready` rises in the cycle after the last one. The scan's reads
    go first, so a fold's weights come in its predecessor's last row where that has columns outside
    the input.
    """

    def __init__(self, config: NpuConfig, step_layout: data.StructLayout):
        self._config = config
        super().__init__(
            {
                "step": In(step_layout),
                "instr": In(engine_layout(Opcode.DEPTHWISE)),
                "valid": In(1),
                "fresh": In(1),
                "take": In(1),
                "halt": In(1),
                "request": Out(stream.Signature(request_layout(config))),
                "o": Out(weight_layout(config)),
                "ready": Out(1),
                "set": Out(1),
                "refused": Out(1),
                "bad": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        cfg, step, instr = self._config, self.step, self.instr
        k, tap = Signal(range(KERNEL_ROWS)), Signal(range(max(2, cfg.taps)))
        # The first vector of a fold lies where the step says, each other one beside one before it:
        # the address is a register or the step's, and never a sum.
        # Two registers say which, so that neither has to choose too many bits.
        begun, starts = Signal(), Signal(init=1)
        row, at = Signal(CHIP_BITS), Signal(CHIP_BITS)
        row_addr, addr, lanes = Signal(CHIP_BITS), Signal(CHIP_BITS), Signal(LANES)
        full, wanted, last_tap, last, issue = (
            Signal(name=n) for n in ("full", "wanted", "last_tap", "last", "issue")
        )
        m.d.comb += [
            lanes.eq(last_or(step.at_last, instr.lane_loop, instr.lanes_last, instr.lanes)),
            addr.eq(Mux(begun, at, step.wgt)),
            row_addr.eq(Mux(starts, step.wgt, row)),
            wanted.eq(self.valid & self.fresh & ~full),
            self.bad.eq(wanted & passes_end(m, platform, "read", addr, lanes, cfg.spad_bytes)),
            self.request.valid.eq(wanted & ~self.bad & ~self.halt),
            self.request.payload.addr.eq(addr),
            self.request.payload.size.eq(lanes),
            self.refused.eq(self.request.valid & ~self.request.ready),
            issue.eq(self.request.valid & self.request.ready),
            last_tap.eq(tap + 1 == instr.kernel_cols),
            last.eq(last_tap & (k + 1 == instr.kernel_rows)),
            # Not in the cycle of the last request: that is accepted late in it.
            self.ready.eq(~self.fresh | full),
            self.o.valid.eq(issue),
            self.o.k.eq(k),
            self.o.set.eq(self.set),
            self.o.tap.eq(tap),
            self.o.operand.lanes.eq(lanes),
            self.o.operand.zp.eq(instr.wgt_zp),
            self.o.operand["unsigned"].eq(instr.wgt_unsigned),
        ]
        with m.If(issue):
            m.d.sync += [
                tap.eq(tap + 1),
                begun.eq(~last),
                starts.eq(last),
                row.eq(row_addr),
                at.eq(addr + instr.wgt_col),
            ]
            with m.If(last_tap):
                m.d.sync += [
                    tap.eq(0),
                    k.eq(k + 1),
                    row.eq(row_addr + instr.wgt_row),
                    at.eq(row_addr + instr.wgt_row),
                ]
            with m.If(last):
                m.d.sync += [k.eq(0), full.eq(1)]
        with m.If(self.take & self.fresh):
            m.d.sync += [full.eq(0), self.set.eq(~self.set)]
        return m

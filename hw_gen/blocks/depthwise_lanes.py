"""Third part of the depthwise engine: `taps` multipliers a lane, and the sums under way."""

from amaranth.hdl import *
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from hw_gen.blocks.adders import fast_sum, two_of
from hw_gen.blocks.depthwise_scan import access_layout, operand_layout
from hw_gen.blocks.depthwise_weights import weight_layout
from hw_gen.blocks.operands import OPERAND, first_lanes, operands
from hw_gen.blocks.sram import Sram
from spec.config import PAIR_TAPS, NpuConfig
from spec.isa import KERNEL_ROWS

SETS = 2
"""Weights of the fold under way, and of the next one."""


def sum_bits(config: NpuConfig) -> int:
    """Bits of a signed sum of as many products as an output has at most."""
    return (KERNEL_ROWS * config.taps << 2 * (OPERAND.width - 1)).bit_length() + 1


def depthwise_output(config: NpuConfig) -> wiring.Signature:
    """A vector of outputs, each of `sum_bits`, for accumulator vector `addr`; `fires`: its row then
    posts DONE."""
    return wiring.Signature(
        {
            "valid": Out(1),
            "value": Out(sum_bits(config) * config.cols),
            "addr": Out(config.acc_addr_bits),
            "accumulate": Out(1),
            "fires": Out(1),
        }
    )


def depthwise_tag(config: NpuConfig) -> data.StructLayout:
    """What goes with a request: the scan's access, the weights that are read, or both if the scan
    reads nothing. `operand`: how to take the bytes."""
    access, weight = access_layout(config), weight_layout(config)
    return data.StructLayout(
        {
            "operand": operand_layout,
            "access": data.StructLayout({n: f.shape for n, f in access if n != "operand"}),
            "weight": data.StructLayout({n: f.shape for n, f in weight if n != "operand"}),
        }
    )


class DepthwiseLanes(wiring.Component):
    """A chain of sums per lane: every input vector adds to `taps` outputs at once.

    Sum t of the chain belongs to the output whose kernel column t lies on the current column of
    the input. After a column's last kernel row each sum moves to t + 1, and the one of the
    kernel's last column leaves.

    Of a pair of columns, sums 0 and 1 belong to the same output: after the last kernel row their
    sum moves to 2.

    Members
    -------
    valid, data, tag : what the scratchpad answers. beside : the data of a pair's second column.
    o : ``Out(depthwise_output(config))``.

    Timing: an answer a cycle; outputs two cycles after the answer that completes them: products
    take a cycle, their sums the next one.
    """

    SETTLED = 3
    """Cycles after an answer in which registers change."""

    def __init__(self, config: NpuConfig):
        self._config = config
        self._paired = config.depthwise_pairs
        beside = {"beside": In(8 * config.word_bytes)} if self._paired else {}
        super().__init__(
            {
                **beside,
                "valid": In(1),
                "data": In(8 * config.word_bytes),
                "tag": In(depthwise_tag(config)),
                "o": Out(depthwise_output(config)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        cfg = self._config
        access, weight, operand = self.tag.access, self.tag.weight, self.tag.operand
        accessed = self.valid & access.valid
        keep, vector = Signal(cfg.cols), Signal(OPERAND.width * cfg.cols)
        m.d.comb += [
            keep.eq(first_lanes(operand.lanes, cfg.cols)),
            vector.eq(operands(self.data, operand["unsigned"], operand.zp, keep, cfg.cols)),
        ]
        m.submodules.weights = weights = Sram(
            depth=SETS * KERNEL_ROWS,
            width=OPERAND.width * cfg.cols * cfg.taps,
            granularity=OPERAND.width * cfg.cols,
        )
        m.d.comb += [
            weights.w_en.eq(Mux(self.valid & weight.valid, 1 << weight.tap, 0)),
            weights.w_addr.eq(Cat(weight.k, weight.set)),
            weights.w_data.eq(vector.replicate(cfg.taps)),
            weights.r_en.eq(accessed),
            weights.r_addr.eq(Cat(access.k, access.set)),
        ]
        now, value = Signal(access.shape()), Signal(OPERAND.width * cfg.cols)
        second = Signal(OPERAND.width * cfg.cols)
        m.d.sync += now.valid.eq(accessed)
        with m.If(accessed):
            m.d.sync += [now.eq(access), value.eq(Mux(access.inside, vector, 0))]
        values = [value] * cfg.taps
        if self._paired:
            beside = operands(self.beside, operand["unsigned"], operand.zp, keep, cfg.cols)
            with m.If(accessed & access.pair):
                m.d.sync += second.eq(Mux(access.beside, beside, 0))
            values[1] = Mux(now.pair, second, value)
        adds = Signal.like(now)
        m.d.sync += adds.eq(now)
        m.d.comb += [
            self.o.valid.eq(adds.valid & adds.emit),
            self.o.addr.eq(adds.addr),
            self.o.accumulate.eq(adds.accumulate),
            self.o.fires.eq(adds.fires),
        ]
        self._chain(m, platform, adds, values, weights.r_data)
        return m

    def _chain(
        self, m: Module, platform, adds: Signal, vectors: list[Value], weights: Value
    ) -> None:
        """Products of this cycle's vectors, one a tap, and weights, and the sums of those before:
        of `adds`.
        """
        cols, taps, bits = self._config.cols, self._config.taps, OPERAND.width
        wide = sum_bits(self._config)
        sums = [
            [Signal(signed(wide), name=f"sum_{t}_{c}") for c in range(cols)] for t in range(taps)
        ]
        for c in range(cols):
            held: list[Signal] = []
            numbers: list[Value] = []
            for t in range(taps):
                value = vectors[t].word_select(c, bits).as_signed()
                weight = weights.word_select(cols * t + c, bits).as_signed()
                partial = Signal(signed(wide), name=f"partial_{t}_{c}")
                held.append(partial)
                product = Signal(signed(2 * bits), name=f"product_{t}_{c}", reset_less=True)
                m.d.sync += product.eq(value * weight)
                added = Cat(product, product[-1].replicate(wide))[:wide]
                total = fast_sum(m, platform, f"total_{t}_{c}", partial, added)
                m.d.comb += sums[t][c].eq(total)
                numbers += [partial, added]
            self._advance(m, platform, adds, c, held, [s[c] for s in sums], numbers)
        self._leave(m, adds, sums)

    def _advance(
        self, m: Module, platform, adds: Signal, c: int, held: list, sums: list, numbers: list
    ) -> None:
        """What a lane holds behind a vector. numbers: of each sum, what it is the sum of."""
        shift = adds.valid & adds.shift
        if self._paired:
            width = sum_bits(self._config)
            both = fast_sum(m, platform, f"both_{c}", *two_of(numbers[:4], width))
            with m.If(shift & (adds.pair | adds.ends)):
                # Nothing of a row is left behind it, as pairs want it.
                m.d.sync += [a.eq(0) for a in held]
                with m.If(~adds.ends):
                    m.d.sync += held[PAIR_TAPS - 1].eq(both)
        with m.If(shift & (~(adds.pair | adds.ends) if self._paired else 1)):
            m.d.sync += [a.eq(s) for a, s in zip(held[1:], sums, strict=False)]
            m.d.sync += held[0].eq(0)
        with m.Elif(adds.valid & ~adds.shift):
            m.d.sync += [a.eq(s) for a, s in zip(held, sums, strict=True)]

    def _leave(self, m: Module, adds: Signal, sums: list) -> None:
        """The sum of the kernel's last column."""
        taps = self._config.taps
        with m.Switch(adds.tap):
            for t in range(taps):
                with m.Case(t):
                    m.d.comb += self.o.value.eq(Cat(sums[t]))

"""The vector engine's arithmetic: a pipeline of `cols` lanes without stalls."""

from amaranth.hdl import *
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from hw_gen.blocks.params import ParamMemory
from hw_gen.blocks.vector_alu import IDENTITY, across, alu, combine
from hw_gen.blocks.vector_table import VectorTable
from hw_gen.interfaces import table_write
from hw_gen.layouts import LANES, field_shape
from spec.config import PARAM_PARTS, NpuConfig
from spec.exhaustive import handles
from spec.isa import CHIP_BITS, Opcode, Reduce, Scale

SHIFT = field_shape(Opcode.VECTOR, "a_shift")
handles("hw_gen.blocks.vector_lanes", Scale, Scale.OFF, Scale.TENSOR, Scale.CHANNEL, Scale.OPERAND)

CONTEXT = [
    "a_one",
    "a_zp",
    "bias",
    "a_scale",
    "a_mult",
    "a_shift",
    "a_clamp",
    "a_min",
    "a_max",
    "a_shl",
    "alu",
    "b_one",
    "b_none",
    "b_zp",
    "b_scale",
    "b_mult",
    "b_shift",
    "reduce",
    "reduce_lanes",
    "o_scale",
    "o_mult",
    "o_shift",
    "o_zp",
    "o_min",
    "o_max",
    "table",
    "o_space",
    "o_type",
    "a_space",
    "a_type",
    "b_type",
]
"""Fields of VECTOR that the lanes and the writer need; they travel with the first step."""


def context_layout() -> data.StructLayout:
    return data.StructLayout({name: field_shape(Opcode.VECTOR, name) for name in CONTEXT})


def tag_layout(config: NpuConfig) -> data.StructLayout:
    """What accompanies a step through the lanes."""
    return data.StructLayout(
        {
            "first": 1,  # of its instruction: the context changes here
            "inside": 1,
            "red_first": 1,
            "red_last": 1,
            "param": config.param_addr_bits,
            "lanes": LANES,
            "o": CHIP_BITS,
            "fires": 1,
        }
    )


def lane_step(config: NpuConfig) -> wiring.Signature:
    """A step on its way into the lanes; `context` is used where ``tag.first``. a, b: raw operands,
    sign- or zero-extended to 32 bits, `cols` lanes.
    """
    return wiring.Signature(
        {
            "valid": Out(1),
            "tag": Out(tag_layout(config)),
            "context": Out(context_layout()),
            "a": Out(32 * config.cols),
            "b": Out(32 * config.cols),
        }
    )


def lane_result(config: NpuConfig) -> wiring.Signature:
    """A step that has passed the lanes. With a reduction only its last step carries a result
    (``tag.red_last``).
    """
    return wiring.Signature(
        {
            "valid": Out(1),
            "tag": Out(tag_layout(config)),
            "context": Out(context_layout()),
            "value": Out(32 * config.cols),
        }
    )


def round_shift(product: Value, shift: Value) -> Value:
    """(product + 2^(shift-1)) >> shift, low 32 bits, as ((product >> shift-1) + 1) >> 1."""
    halves = product >> (shift - 1)[: SHIFT.width]
    return ((halves + 1) >> 1)[:32].as_signed()


def _clamp(value: Value, low: Value, high: Value) -> Value:
    low, high = low.as_signed(), high.as_signed()
    return Mux(value < low, low, Mux(value > high, high, value))


class VectorLanes(wiring.Component):
    """A -> zero point, bias, RESCALE, clamp, shift -> ALU with B -> reduce -> across lanes ->
    RESCALE -> clamp -> TABLE.

    Members
    -------
    i : ``In(lane_step(config))``. o : ``Out(lane_result(config))``, `LATENCY` cycles later.
    param_write, table_write : from the load engine.
    """

    LATENCY = 10

    def __init__(self, config: NpuConfig):
        self._config = config
        super().__init__(
            {
                "i": In(lane_step(config)),
                "o": Out(lane_result(config)),
                "param_write": In(table_write(config)),
                "table_write": In(table_write(config)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.params = params = ParamMemory(self._config)
        connect(m, flipped(self.param_write), params.write)
        valid, tag, ctx = self._stages(m)
        m.d.comb += [
            params.en[0].eq(valid[0]),
            params.addr[0].eq(tag[0].param),
            params.en[1].eq(valid[6]),
            params.addr[1].eq(tag[6].param),
        ]
        lanes = range(self._config.cols)
        values = [self._operate(m, c, valid, tag, ctx, params) for c in lanes]
        values = self._across(m, values, valid[6], ctx[6])
        results = [
            self._finish(m, c, v, valid, ctx, params) for c, v in zip(lanes, values, strict=True)
        ]
        m.submodules.table = table = VectorTable(self._config)
        connect(m, flipped(self.table_write), table.write)
        m.d.comb += [
            table.valid.eq(valid[9]),
            table.kind.eq(ctx[9].table),
            table.value.eq(Cat(*results)),
            self.o.value.eq(table.o),
            self.o.valid.eq(valid[self.LATENCY]),
            self.o.tag.eq(tag[self.LATENCY]),
            self.o.context.eq(ctx[self.LATENCY]),
        ]
        return m

    def _stages(self, m: Module):
        """valid, tag and context in front of (0) and behind (LATENCY) every stage."""
        n = self.LATENCY + 1
        first, layout = self.i.tag.first, self.i.context.shape()
        valid = [self.i.valid, *(Signal(name=f"valid_{s}") for s in range(1, n))]
        tag = [self.i.tag, *(Signal(self.i.tag.shape(), name=f"tag_{s}") for s in range(1, n))]
        held, now = Signal(layout, name="context_0"), Signal(layout, name="context_now")
        m.d.comb += now.eq(Mux(first, self.i.context, held))
        with m.If(self.i.valid & first):
            m.d.sync += held.eq(self.i.context)
        ctx = [now, *(Signal(layout, name=f"context_{s}") for s in range(1, n))]
        for s in range(1, n):
            m.d.sync += valid[s].eq(valid[s - 1])
            with m.If(valid[s - 1]):
                m.d.sync += tag[s].eq(tag[s - 1])
            with m.If(valid[s - 1] & tag[s - 1].first):
                m.d.sync += ctx[s].eq(ctx[s - 1])
        return valid, tag, ctx

    def _param(self, memory: Value, c: int) -> tuple[Value, Value, Value]:
        """Bias, multiplier, shift of lane `c` in a parameter entry."""

        def part(name: str) -> Value:
            bits = 8 * PARAM_PARTS[name]
            return memory[8 * self._config.param_offset(name) :].word_select(c, bits)

        bias, mult = part("bias").as_signed(), part("multiplier").as_signed()
        return bias, mult, part("shift")[: SHIFT.width]

    def _operate(self, m: Module, c: int, valid, tag, ctx, params: ParamMemory) -> Signal:
        """One lane up to the reduction over loops (stages 1…6)."""

        def reg(name: str, width: int = 32) -> Signal:
            return Signal(signed(width), name=f"{name}_{c}")

        def at(stage: int, *statements) -> None:
            with m.If(valid[stage]):
                m.d.sync += list(statements)

        a1, b1, a2, b2, a3, b3 = (reg(n) for n in ("a1", "b1", "a2", "b2", "a3", "b3"))
        a4, b4, a5, b5 = (reg(n) for n in ("a4", "b4", "a5", "b5"))
        pa, pb, m2 = reg("pa", 64), reg("pb", 64), reg("m2")
        s2, s3 = Signal(SHIFT, name=f"s2_{c}"), Signal(SHIFT, name=f"s3_{c}")
        raw_a = Mux(ctx[0].a_one, self.i.a[:32], self.i.a[32 * c : 32 * c + 32]).as_signed()
        raw_b = Mux(ctx[0].b_one, self.i.b[:32], self.i.b[32 * c : 32 * c + 32]).as_signed()
        raw_b = Mux(ctx[0].b_none, 0, raw_b)
        at(
            0,
            a1.eq(Mux(tag[0].inside, raw_a - ctx[0].a_zp, 0)),
            b1.eq(Mux(tag[0].inside, raw_b - ctx[0].b_zp, 0)),
        )
        bias, mult, shift = self._param(params.data[0], c)
        channel = ctx[1].a_scale == Scale.CHANNEL
        tensor = Mux(ctx[1].a_scale == Scale.OPERAND, b1, ctx[1].a_mult.as_signed())
        at(
            1,
            a2.eq(Mux(ctx[1].bias, a1 + bias, a1)),
            b2.eq(b1),
            m2.eq(Mux(channel, mult, tensor)),
            s2.eq(Mux(channel, shift, ctx[1].a_shift)),
        )
        at(2, pa.eq(a2 * m2), pb.eq(b2 * ctx[2].b_mult), a3.eq(a2), b3.eq(b2), s3.eq(s2))
        scaled = Signal(signed(32), name=f"scaled_{c}")
        with m.If(ctx[3].a_scale == Scale.OFF):
            m.d.comb += scaled.eq(a3)
        with m.Elif((ctx[3].a_scale == Scale.OPERAND) & (s3 == 0)):
            m.d.comb += scaled.eq(pa)
        with m.Else():
            m.d.comb += scaled.eq(round_shift(pa, s3))
        at(
            3,
            a4.eq(scaled),
            b4.eq(Mux(ctx[3].b_scale == Scale.OFF, b3, round_shift(pb, ctx[3].b_shift))),
        )
        clamped = Mux(ctx[4].a_clamp, _clamp(a4, ctx[4].a_min, ctx[4].a_max), a4)
        at(4, a5.eq((clamped << ctx[4].a_shl)[:32]), b5.eq(b4))
        v = alu(m, str(c), ctx[5].alu, a5, b5)
        return self._reduce(m, c, valid[5], tag[5], ctx[5], v)

    def _reduce(self, m: Module, c: int, valid, tag, ctx, v: Signal) -> Signal:
        """Stage 6: the running value of the reduction, which the result holds."""
        out = Signal(signed(32), name=f"v6_{c}")
        running = Signal(signed(32), name=f"running_{c}")
        start, takes = Signal.like(running, name=f"start_{c}"), Signal(name=f"takes_{c}")
        with m.Switch(ctx.reduce):
            for kind, identity in IDENTITY.items():
                with m.Case(kind):
                    m.d.comb += start.eq(identity)
        m.d.comb += [
            running.eq(Mux(tag.red_first, start, out)),
            # Across lanes, those not in use must not count.
            takes.eq(tag.inside & (~ctx.reduce_lanes | (c < tag.lanes))),
        ]
        with m.If(valid):
            with m.If(ctx.reduce == Reduce.NONE):
                m.d.sync += out.eq(v)
            with m.Elif(takes):
                m.d.sync += out.eq(combine(ctx.reduce, v, running))
            with m.Else():
                m.d.sync += out.eq(running)
        return out

    def _across(self, m: Module, values: list[Signal], valid, ctx) -> list[Signal]:
        """Stage 7: lane 0 takes what all lanes together are."""
        out = [Signal(signed(32), name=f"v7_{c}") for c in range(len(values))]
        with m.If(valid):
            m.d.sync += [new.eq(old) for new, old in zip(out, values, strict=True)]
            with m.If(ctx.reduce_lanes):
                m.d.sync += out[0].eq(across(m, ctx.reduce, values))
        return out

    def _finish(self, m: Module, c: int, value, valid, ctx, params: ParamMemory) -> Signal:
        """One lane from the result's RESCALE to the clamp (stages 8 and 9)."""
        po, v8 = Signal(signed(64), name=f"po_{c}"), Signal(signed(32), name=f"v8_{c}")
        moved, v9 = Signal(signed(32), name=f"moved_{c}"), Signal(signed(32), name=f"v9_{c}")
        m7, s7 = Signal(signed(32), name=f"m7_{c}"), Signal(SHIFT, name=f"s7_{c}")
        s8 = Signal(SHIFT, name=f"s8_{c}")
        _, mult, shift = self._param(params.data[1], c)
        channel = ctx[7].o_scale == Scale.CHANNEL
        m.d.comb += [
            m7.eq(Mux(channel, mult, ctx[7].o_mult)),
            s7.eq(Mux(channel, shift, ctx[7].o_shift)),
        ]
        with m.If(valid[7]):
            m.d.sync += [po.eq(value * m7), v8.eq(value), s8.eq(s7)]
        scaled = Mux(ctx[8].o_scale == Scale.OFF, v8, round_shift(po, s8))
        m.d.comb += moved.eq(scaled + ctx[8].o_zp)
        with m.If(valid[8]):
            m.d.sync += v9.eq(_clamp(moved, ctx[8].o_min, ctx[8].o_max))
        return v9

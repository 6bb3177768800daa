"""The vector engine's arithmetic: a pipeline of `cols` lanes without stalls."""

from amaranth.hdl import *
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from hw_gen.blocks.params import ParamMemory
from hw_gen.blocks.sram import Sram
from hw_gen.interfaces import table_write
from spec.config import NpuConfig
from spec.isa import FORMATS, Alu, Field, Opcode, Reduce, Scale

CONTEXT = [
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
    "b_zp",
    "b_scale",
    "b_mult",
    "b_shift",
    "reduce",
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
    fields = {f.name: f for f in FORMATS[Opcode.VECTOR].items if isinstance(f, Field)}
    return data.StructLayout(
        {n: (signed if fields[n].signed else unsigned)(fields[n].bits) for n in CONTEXT}
    )


def tag_layout(config: NpuConfig) -> data.StructLayout:
    """What accompanies a step through the lanes."""
    return data.StructLayout(
        {
            "first": 1,  # of its instruction: the context changes here
            "inside": 1,
            "red_first": 1,
            "red_last": 1,
            "param": config.param_addr_bits,
            "lanes": 8,
            "o": 24,
            "fires": 1,
        }
    )


def round_shift(product: Value, shift: Value) -> Value:
    """(product + 2^(shift-1)) >> shift, low 32 bits, as ((product >> shift-1) + 1) >> 1."""
    halves = product >> (shift - 1)[:6]
    return ((halves + 1) >> 1)[:32].as_signed()


def _clamp(value: Value, low: Value, high: Value) -> Value:
    low, high = low.as_signed(), high.as_signed()
    return Mux(value < low, low, Mux(value > high, high, value))


class VectorLanes(wiring.Component):
    """A -> zero point, bias, RESCALE, clamp, shift -> ALU with B -> reduce -> RESCALE -> clamp ->
    TABLE.

    Members
    -------
    valid, tag, context, a, b : a step; `context` is used where ``tag.first``. a, b: raw operands,
        sign- or zero-extended to 32 bits, `cols` lanes.
    o_valid, o_tag, o_context, o : the step `LATENCY` cycles later; with a reduction only its last
        step carries a result (``o_tag.red_last``).
    param_write, table_write : from the load engine.
    """

    LATENCY = 9

    def __init__(self, config: NpuConfig):
        self._config = config
        word = 32 * config.cols
        tag, context = tag_layout(config), context_layout()
        super().__init__(
            {
                "valid": In(1),
                "tag": In(tag),
                "context": In(context),
                "a": In(word),
                "b": In(word),
                "o_valid": Out(1),
                "o_tag": Out(tag),
                "o_context": Out(context),
                "o": Out(word),
                "param_write": In(table_write(config, 24)),
                "table_write": In(table_write(config, 24)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.params = params = ParamMemory(self._config)
        m.d.comb += [
            params.write.valid.eq(self.param_write.valid),
            params.write.addr.eq(self.param_write.addr),
            params.write.data.eq(self.param_write.data),
            params.write.strobe.eq(self.param_write.strobe),
        ]
        valid, tag, ctx = self._stages(m)
        m.d.comb += [
            params.en[0].eq(valid[0]),
            params.addr[0].eq(tag[0].param),
            params.en[1].eq(valid[5]),
            params.addr[1].eq(tag[5].param),
        ]
        results = [self._lane(m, c, valid, tag, ctx, params) for c in range(self._config.cols)]
        m.d.comb += [
            self.o.eq(Cat(*self._table(m, results, valid, ctx))),
            self.o_valid.eq(valid[self.LATENCY]),
            self.o_tag.eq(tag[self.LATENCY]),
            self.o_context.eq(ctx[self.LATENCY]),
        ]
        return m

    def _stages(self, m: Module):
        """valid, tag and context in front of (0) and behind (LATENCY) every stage."""
        n = self.LATENCY + 1
        valid = [self.valid, *(Signal(name=f"valid_{s}") for s in range(1, n))]
        tag = [self.tag, *(Signal(self.tag.shape(), name=f"tag_{s}") for s in range(1, n))]
        held = Signal(self.context.shape(), name="context_0")
        now = Signal(self.context.shape(), name="context_now")
        m.d.comb += now.eq(Mux(self.tag.first, self.context, held))
        with m.If(self.valid & self.tag.first):
            m.d.sync += held.eq(self.context)
        ctx = [now, *(Signal(self.context.shape(), name=f"context_{s}") for s in range(1, n))]
        for s in range(1, n):
            m.d.sync += valid[s].eq(valid[s - 1])
            with m.If(valid[s - 1]):
                m.d.sync += tag[s].eq(tag[s - 1])
            with m.If(valid[s - 1] & tag[s - 1].first):
                m.d.sync += ctx[s].eq(ctx[s - 1])
        return valid, tag, ctx

    def _param(self, memory: Value, c: int) -> tuple[Value, Value, Value]:
        """Bias, multiplier, shift of lane `c` in a parameter entry."""
        cols = self._config.cols
        bias = memory[32 * c : 32 * c + 32].as_signed()
        mult = memory[32 * (cols + c) : 32 * (cols + c) + 32].as_signed()
        shift = memory[64 * cols + 8 * c : 64 * cols + 8 * c + 6]
        return bias, mult, shift

    def _lane(self, m: Module, c: int, valid, tag, ctx, params: ParamMemory) -> Signal:
        """One lane up to the clamp (stages 1…8)."""

        def reg(name: str, width: int = 32) -> Signal:
            return Signal(signed(width), name=f"{name}_{c}")

        def at(stage: int, *statements) -> None:
            with m.If(valid[stage]):
                m.d.sync += list(statements)

        a1, b1, a2, b2, a4, b4, a5, b5, v6, v7, v8 = (
            reg(n) for n in ("a1", "b1", "a2", "b2", "a4", "b4", "a5", "b5", "v6", "v7", "v8")
        )
        pa, pb, po = reg("pa", 64), reg("pb", 64), reg("po", 64)
        m2, s2, s3 = reg("m2"), Signal(6, name=f"s2_{c}"), Signal(6, name=f"s3_{c}")
        m6, s6 = reg("m6"), Signal(6, name=f"s6_{c}")
        raw_a = self.a[32 * c : 32 * c + 32].as_signed()
        raw_b = self.b[32 * c : 32 * c + 32].as_signed()
        at(
            0,
            a1.eq(Mux(tag[0].inside, raw_a - ctx[0].a_zp, 0)),
            b1.eq(Mux(tag[0].inside, raw_b - ctx[0].b_zp, 0)),
        )
        bias, mult, shift = self._param(params.data[0], c)
        channel = ctx[1].a_scale == Scale.CHANNEL
        at(
            1,
            a2.eq(Mux(ctx[1].bias, a1 + bias, a1)),
            b2.eq(b1),
            m2.eq(Mux(channel, mult, ctx[1].a_mult)),
            s2.eq(Mux(channel, shift, ctx[1].a_shift)),
        )
        a3, b3 = reg("a3"), reg("b3")
        at(2, pa.eq(a2 * m2), pb.eq(b2 * ctx[2].b_mult), a3.eq(a2), b3.eq(b2), s3.eq(s2))
        at(
            3,
            a4.eq(Mux(ctx[3].a_scale == Scale.OFF, a3, round_shift(pa, s3))),
            b4.eq(Mux(ctx[3].b_scale == Scale.OFF, b3, round_shift(pb, ctx[3].b_shift))),
        )
        clamped = Mux(ctx[4].a_clamp, _clamp(a4, ctx[4].a_min, ctx[4].a_max), a4)
        at(4, a5.eq((clamped << ctx[4].a_shl)[:32]), b5.eq(b4))
        self._reduce(m, c, valid[5], tag[5], ctx[5], a5, b5, v6)
        _, mult, shift = self._param(params.data[1], c)
        channel = ctx[6].o_scale == Scale.CHANNEL
        m.d.comb += [
            m6.eq(Mux(channel, mult, ctx[6].o_mult)),
            s6.eq(Mux(channel, shift, ctx[6].o_shift)),
        ]
        s7 = Signal(6, name=f"s7_{c}")
        at(6, po.eq(v6 * m6), v7.eq(v6), s7.eq(s6))
        scaled = Mux(ctx[7].o_scale == Scale.OFF, v7, round_shift(po, s7))
        moved = reg("moved")
        m.d.comb += moved.eq(scaled + ctx[7].o_zp)
        at(7, v8.eq(_clamp(moved, ctx[7].o_min, ctx[7].o_max)))
        return v8

    def _reduce(self, m: Module, c: int, valid, tag, ctx, a, b, out: Signal) -> None:
        """ALU, then combine with the running value of the reduction, which `out` holds."""
        v = Signal(signed(32), name=f"alu_{c}")
        with m.Switch(ctx.alu):
            with m.Case(Alu.ADD):
                m.d.comb += v.eq(a + b)
            with m.Case(Alu.SUB):
                m.d.comb += v.eq(a - b)
            with m.Case(Alu.MIN):
                m.d.comb += v.eq(Mux(a < b, a, b))
            with m.Case(Alu.MAX):
                m.d.comb += v.eq(Mux(a > b, a, b))
            with m.Default():
                m.d.comb += v.eq(a)
        running = Signal(signed(32), name=f"running_{c}")
        start, merged = Signal.like(running, name=f"start_{c}"), Signal.like(v, name=f"merged_{c}")
        with m.Switch(ctx.reduce):
            with m.Case(Reduce.SUM):
                m.d.comb += [start.eq(0), merged.eq(running + v)]
            with m.Case(Reduce.MAX):
                m.d.comb += [start.eq(-(1 << 31)), merged.eq(Mux(v > running, v, running))]
            with m.Case(Reduce.MIN):
                m.d.comb += [start.eq((1 << 31) - 1), merged.eq(Mux(v < running, v, running))]
            with m.Default():
                m.d.comb += merged.eq(v)
        m.d.comb += running.eq(Mux(tag.red_first, start, out))
        with m.If(valid):
            with m.If(tag.inside | (ctx.reduce == Reduce.NONE)):
                m.d.sync += out.eq(merged)
            with m.Else():
                m.d.sync += out.eq(running)

    def _table(self, m: Module, values: list[Signal], valid, ctx) -> list[Value]:
        """Stage 9: each lane reads a row of TABLE and picks its byte, or passes."""
        cfg = self._config
        bus = cfg.bus_bytes
        row_bits = (bus - 1).bit_length()
        out: list[Value] = []
        picks = [Signal(8, name=f"pick_{c}") for c in range(cfg.cols)]
        for c, value in enumerate(values):
            m.submodules[f"table_{c}"] = ram = Sram(
                depth=-(-cfg.table_bytes // bus), width=8 * bus, granularity=8
            )
            m.d.comb += [
                picks[c].eq(value[:8] ^ 0x80),
                ram.r_en.eq(valid[8] & ctx[8].table),
                ram.r_addr.eq(picks[c] >> row_bits),
                ram.w_addr.eq(self.table_write.addr >> row_bits),
                ram.w_data.eq(self.table_write.data),
                ram.w_en.eq(Mux(self.table_write.valid, self.table_write.strobe, 0)),
            ]
            late = Signal(row_bits, name=f"byte_{c}")
            passed = Signal(signed(32), name=f"v9_{c}")
            with m.If(valid[8]):
                m.d.sync += [late.eq(picks[c]), passed.eq(value)]
            looked = ram.r_data.word_select(late, 8).as_signed()
            wide = Signal(signed(32), name=f"out_{c}")
            m.d.comb += wide.eq(Mux(ctx[9].table, looked, passed))
            out.append(wide)
        return out

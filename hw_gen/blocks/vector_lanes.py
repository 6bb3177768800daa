"""The vector engine's arithmetic: a pipeline of lanes without stalls."""

from amaranth.hdl import *
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from hw_gen.blocks.adders import fast_difference, fast_sum
from hw_gen.blocks.copies import Copies
from hw_gen.blocks.params import ParamMemory
from hw_gen.blocks.vector_alu import (
    COMBINING,
    IDENTITY,
    LaneTree,
    alu,
    combine,
    combining,
    early_flags,
)
from hw_gen.blocks.vector_context import SlotFields, part_shape, slots_layout
from hw_gen.blocks.vector_parts import VectorCollector, VectorSlicer, step_layout
from hw_gen.blocks.vector_rescale import SHIFT, LaneRescale
from hw_gen.blocks.vector_schedule import (
    ALU,
    REDUCE,
    RESCALED,
    SCALE_A,
    SCALE_O,
    WRITTEN,
    Source,
    Use,
    VectorSchedule,
    across_levels,
)
from hw_gen.blocks.vector_table import VectorTable
from hw_gen.interfaces import table_write
from hw_gen.layouts import field_shape
from spec.config import NpuConfig
from spec.exhaustive import handles
from spec.isa import Alu, DType, Opcode, Reduce, Scale, Table, rescales_b, scales_a_late

handles("hw_gen.blocks.vector_lanes", Scale, Scale.OFF, Scale.TENSOR, Scale.CHANNEL, Scale.OPERAND)

_CLAMP = SCALE_A + RESCALED
"""Cycles from the entry of a step to the clamp of A."""
_NARROW = 8 * DType.I16.bytes + 1
"""Bits that tell narrow elements apart, signed or not (`merges_b`)."""


def lane_result(config: NpuConfig) -> wiring.Signature:
    """The result of a step: of each one or, with a reduction, of those with ``tag.red_last``."""
    return wiring.Signature({"valid": Out(1), "value": Out(32 * config.cols)})


def _clamp(value: Value, low: Value, high: Value) -> Value:
    low, high = low.as_signed(), high.as_signed()
    return Mux(value < low, low, Mux(value > high, high, value))


def _clamp_narrow(value: Value, low: Value, high: Value, when: Value) -> Value:
    """The same for bounds of fewer bits, which alone are compared where the value fits in them."""
    width = len(low)
    top, small = value[width - 1 :], value[:width].as_signed()
    over, under = ~value[-1] & top.any(), value[-1] & ~top.all()
    below = when & (under | (~over & (small < low.as_signed())))
    above = when & (over | (~under & (small > high.as_signed())))
    return Mux(below, low.as_signed(), Mux(above, high.as_signed(), value))


class VectorLanes(wiring.Component):
    """A -> zero point, bias, RESCALE, clamp, shift -> ALU with B -> reduce -> across lanes ->
    RESCALE -> clamp -> TABLE.

    Members
    -------
    i : ``In(stream)`` of `step_layout`; ready tells when the step fits (`VectorSchedule`).
    slots : contexts of the instructions. release : the oldest is not needed any more.
    room : the writer has room for a result.
    o : ``Out(lane_result(config))``, in order, `LATENCY` cycles later or more (`VectorSchedule`).
    param_write, table_write : from the load engine.
    works : something enters, waits to enter, or is written.
    """

    LATENCY = 10

    @property
    def settled(self) -> int:
        """Cycles after the last one in which `works` is 1 that registers may change in."""
        longest = SCALE_O + across_levels(self._config) + RESCALED + WRITTEN + VectorTable.LATENCY
        return longest + 4

    def __init__(self, config: NpuConfig):
        self._config = config
        super().__init__(
            {
                "i": In(stream.Signature(step_layout(config))),
                "slots": In(slots_layout(config)),
                "release": Out(1),
                "room": In(1),
                "o": Out(lane_result(config)),
                "param_write": In(table_write(config)),
                "table_write": In(table_write(config)),
                "works": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        cfg = self._config
        self._platform = platform
        self._slots = SlotFields(m, platform, self.slots)
        steps = self._slices(m)
        self._step = step = steps.payload
        m.submodules.schedule = schedule = VectorSchedule(cfg)
        m.submodules.params = params = ParamMemory(cfg)
        m.submodules.table = table = VectorTable(cfg)
        connect(m, flipped(self.param_write), params.write)
        connect(m, flipped(self.table_write), table.write)
        m.d.comb += [
            schedule.valid.eq(steps.valid),
            schedule.tag.eq(step.tag),
            schedule.merges.eq(step.merges),
            schedule.slots.eq(self.slots),
            schedule.room.eq(self.room),
            steps.ready.eq(schedule.go),
            params.bias_en.eq(schedule.go),
            params.bias_addr.eq(step.tag.param),
            params.scale_en.eq(schedule.use_valid),
            params.scale_addr.eq(schedule.use.param),
        ]
        self._go, self._fixed_stages = schedule.go, self._stages(m, schedule.go)
        if cfg.vector_parts > 1:
            m.d.comb += [
                schedule.part.eq(step.part),
                schedule.ends.eq(step.ends),
                params.bias_part.eq(step.part),
                params.scale_part.eq(schedule.use.part),
            ]
        rescale = _Multiplicand(m, self._platform, self._slots, schedule, cfg.lane_count)
        self._operands(m)
        lanes = [self._operate(m, c, rescale, params) for c in range(cfg.lane_count)]
        self._across(m, lanes)
        self._finish(m, lanes, schedule, table)
        m.d.comb += [
            self.works.eq(
                self.i.valid | steps.valid | self.param_write.valid | self.table_write.valid
            ),
        ]
        return m

    def _slices(self, m: Module):
        """Steps, or the parts of each."""
        if self._config.vector_parts == 1:
            return self.i
        m.submodules.slicer = slicer = VectorSlicer(self._config)
        connect(m, flipped(self.i), slicer.i)
        m.d.comb += slicer.slots.eq(self.slots)
        return slicer.o

    # Settings of the stages ---------------------------------------------------------------------

    def _stages(self, m: Module, go: Value) -> list:
        """Valid, slot and flags of the step in each stage up to the reduction."""
        tag = self._step.tag
        flags = ("slot", "inside", "red_first", "lanes")
        first = {name: tag[name] for name in flags} | {"merges": self._step.merges}
        if self._config.vector_parts > 1:
            first["part"] = self._step.part
        stages: list = [(go, first)]
        for s in range(1, REDUCE + 1):
            valid = Signal(name=f"valid_{s}")
            held = {
                name: Signal.like(value, name=f"{name}_{s}", reset_less=True)
                for name, value in stages[-1][1].items()
            }
            m.d.sync += valid.eq(stages[-1][0])
            m.d.sync += [held[name].eq(value) for name, value in stages[-1][1].items()]
            stages.append((valid, held))
        return stages

    def _field(self, m: Module, stage: int, name: str) -> Signal:
        """Field `name` of the step in `stage`, from a register."""
        return _fetched(m, self._slots, self._fixed_stages[stage - 1][1]["slot"], name, f"_{stage}")

    # Lanes --------------------------------------------------------------------------------------

    def _operands(self, m: Module) -> None:
        """Settings that all lanes share, up to the reduction."""
        self._bias = self._field(m, SCALE_A, "bias")
        self._sums_b = Copies(m, self._platform, "sums", self._step.sums, self._config.lane_count)
        self._clamps = [self._field(m, _CLAMP, n) for n in ("a_clamp", "a_min", "a_max", "a_shl")]
        many, before = self._config.lane_count, _CLAMP
        fields = self._slots.fields(self._fixed_stages[before - 1][1]["slot"])
        backwards = early_flags(fields["alu"])[-1] if self._config.shifts else Const(0, 1)
        self._backwards = Copies(m, self._platform, "backwards", backwards, many)
        fields = self._slots.fields(self._fixed_stages[before][1]["slot"])
        self._alu = Signal(field_shape(Opcode.VECTOR, "alu"), reset_less=True)
        self._immediate = Signal(signed(32), reset_less=True)
        early = early_flags(fields["alu"])
        self._early = Copies(m, self._platform, "early", early, many)
        inside, merged = (self._fixed_stages[before][1][name] for name in ("inside", "merges"))
        zero = Mux(inside, -fields["b_zp"], 0)
        self._b_passed = Copies(m, self._platform, "b_passed", rescales_b(fields, merged), many)
        m.d.sync += [
            self._alu.eq(fields["alu"]),
            # Of what A has already: no value is smaller, and no sum is changed by 0.
            self._immediate.eq(Mux(merged, Mux(fields["alu"] == Alu.MAX, DType.I32.low, 0), zero)),
        ]
        # Which lanes count in a reduction: across lanes, those not in use must not.
        held, across = (
            self._fixed_stages[ALU][1],
            self._slots.field(self._fixed_stages[ALU][1]["slot"], "reduce_lanes"),
        )
        self._takes = Signal(many, reset_less=True)
        before = held["part"] * many if self._config.vector_parts > 1 else 0
        used = Cat(before + c < held["lanes"] for c in range(many))
        m.d.sync += self._takes.eq(Mux(held["inside"], Mux(across, used, ~0), 0))
        self._reduction = self._field(m, REDUCE, "reduce")
        fields = self._slots.fields(self._fixed_stages[REDUCE - 1][1]["slot"])
        self._how = Copies(m, self._platform, "how", combining(fields["reduce"]), many)

    def _operate(self, m: Module, c: int, unit: "_Multiplicand", params: ParamMemory) -> "_Lane":
        """One lane up to the reduction over loops."""

        def reg(name: str) -> Signal:
            return Signal(signed(32), name=f"{name}_{c}", reset_less=True)

        step, lane = self._step, slice(32 * c, 32 * c + 32)
        a, b, clamped, v, kept = (reg(n) for n in ("a", "b", "a_6", "v", "v_9"))
        m.submodules[f"rescale_{c}"] = rescale = LaneRescale()
        platform, raw_b = self._platform, Mux(step.b_none, 0, step.b[lane])
        moved_a = fast_difference(m, platform, f"moved_a_{c}", step.a[lane].as_signed(), step.a_zp)
        moved_b = fast_difference(m, platform, f"moved_b_{c}", raw_b.as_signed(), step.b_zp)
        # Of maxima of narrow elements, which come extended, the larger goes on as A.
        less = Signal(name=f"less_{c}")
        m.d.comb += less.eq(step.a[lane][:_NARROW].as_signed() < step.b[lane][:_NARROW].as_signed())
        takes_larger = step.merges & ~step.sums.any()
        larger = Mux(takes_larger & less, moved_b, moved_a)
        m.d.sync += a.eq(Mux(step.tag.inside, larger, 0))
        with m.If(self._go):
            # It stays a cycle longer where B follows A through RESCALE.
            m.d.sync += b.eq(Mux(step.tag.inside, moved_b, 0))
        bias, mult, shift = params.lane(c)
        # The bias comes late, from a memory: it is added last.
        takes_a, takes_b = unit.takes[c]
        with_bias = self._bias & takes_a
        # Of a sum, B takes the place of the bias, which there is none of.
        plus, minus = (flag & takes_a for flag in self._sums_b[c])
        added = Mux(plus, b, 0) | Mux(minus, ~b, 0) | Mux(with_bias, bias, 0)
        value = Signal(signed(32), name=f"value_{c}")
        m.d.comb += value.eq(Mux(takes_a, a, Mux(takes_b, b, kept)))
        biased = fast_sum(m, platform, f"biased_{c}", value, added[:32].as_signed(), minus)
        m.d.comb += [
            rescale.x.eq(biased),
            rescale.by.eq(Mux(unit.operand, b, Mux(unit.channel, mult, unit.mult))),
            rescale.shift.eq(Mux(unit.channel, shift, unit.shift)),
        ]
        clamps, low, high, left = self._clamps
        within = Signal(signed(32), name=f"within_{c}")
        m.d.comb += within.eq(_clamp_narrow(rescale.o, low, high, clamps))
        moved = (within << left)[:32]
        m.d.sync += clamped.eq(Mux(self._backwards[c], moved[::-1], moved))
        b_scaled = Signal(signed(32), name=f"b_scaled_{c}")
        m.d.comb += b_scaled.eq(Mux(self._b_passed[c], rescale.o, self._immediate))
        kind = self._alu
        early = self._early[c]
        v_next = alu(self._config, m, self._platform, str(c), kind, early, clamped, b_scaled)
        m.d.sync += v.eq(v_next)
        return _Lane(rescale.o, self._reduce(m, c, v), kept)

    def _reduce(self, m: Module, c: int, v: Signal) -> Signal:
        """The running value of the reduction, which the result holds."""
        valid, held = self._fixed_stages[REDUCE]
        kind = self._reduction
        out = Signal(signed(32), name=f"v_8_{c}", reset_less=True)
        start = Signal.like(out, name=f"start_{c}")
        with m.Switch(kind):
            for member, identity in IDENTITY.items():
                with m.Case(member):
                    m.d.comb += start.eq(identity)
        before = self._sums(m, c, held, out) if self._config.vector_parts > 1 else out
        first, takes = held["red_first"], self._takes[c]
        combined = combine(m, self._platform, str(c), self._how[c], v, before)
        with m.If(valid):
            # The first value is not combined: what a reduction begins with would come too late.
            with m.If((kind == Reduce.NONE) | (first & takes)):
                m.d.sync += out.eq(v)
            with m.Elif(takes):
                m.d.sync += out.eq(combined)
            with m.Else():
                m.d.sync += out.eq(Mux(first, start, before))
        return out

    def _sums(self, m: Module, c: int, held, out: Signal) -> Value:
        """What the reduction of this part of a vector has come to. `out` has a new part."""
        last = Signal(part_shape(self._config), name=f"part_8_{c}", reset_less=True)
        sums: Array = Array()
        for p in range(self._config.vector_parts):
            # What was reduced last is in `out`.
            kept = Signal.like(out, name=f"sum_{c}_{p}", reset_less=True)
            with m.If(last == p):
                m.d.sync += kept.eq(out)
            sums.append(Mux(last == p, out, kept))
        with m.If(self._fixed_stages[REDUCE][0]):
            m.d.sync += last.eq(held["part"])
        return sums[held["part"]]

    def _across(self, m: Module, lanes: list["_Lane"]) -> None:
        if not self._config.lane_reductions:
            return
        in_parts = self._config.vector_parts > 1
        m.submodules.tree = self._tree = tree = LaneTree(len(lanes), in_parts=in_parts)
        if in_parts:
            valid, held = self._fixed_stages[REDUCE]
            m.d.sync += [tree.valid.eq(valid), tree.first.eq(held["part"] == 0)]
        how = Signal(COMBINING, name="how_8", reset_less=True)
        m.d.sync += how.eq(self._how[0])
        m.d.comb += [tree.how.eq(how), tree.value.eq(Cat(lane.reduced for lane in lanes))]

    def _finish(self, m: Module, lanes: list["_Lane"], schedule, table: VectorTable) -> None:
        """From the zero point of the result to what leaves."""
        across = Signal(reset_less=True)
        scaled = Copies(
            m, self._platform, "scaled", schedule.finish.source == Source.SCALED, len(lanes)
        )
        finish = schedule.finish.slot
        slot = Signal.like(finish, name="slot", reset_less=True)
        late_slot = Signal.like(finish, name="late_slot", reset_less=True)
        valid = Signal(3)
        m.d.sync += [
            across.eq(schedule.finish.source == Source.LANES),
            slot.eq(finish),
            late_slot.eq(slot),
            valid.eq(Cat(schedule.finish_valid, valid)),
        ]
        zero = _fetched(m, self._slots, finish, "o_zp", "")
        low, high = (_fetched(m, self._slots, slot, name, "") for name in ("o_min", "o_max"))
        kind = _fetched(m, self._slots, late_slot, "table", "")
        results = []
        for c, lane in enumerate(lanes):
            moved = Signal(signed(32), name=f"moved_{c}", reset_less=True)
            out = Signal(signed(32), name=f"clamped_{c}", reset_less=True)
            direct: Value = lane.reduced
            kept: Value = lane.reduced
            if c == 0 and self._config.lane_reductions:
                # The way across the lanes ends here.
                direct = Mux(across, self._tree.o, direct)
                kept = Mux(schedule.result_across, self._tree.o, kept)
            value = Mux(scaled[c], lane.scaled, direct).as_signed()
            shifted = fast_sum(m, self._platform, f"shifted_{c}", value, zero)
            m.d.sync += [
                lane.kept.eq(kept),
                moved.eq(shifted),
                out.eq(_clamp(moved, low, high)),
            ]
            results.append(out)
        m.d.comb += [
            table.valid.eq(valid[2] & (kind != Table.OFF)),
            table.wide.eq((kind == Table.I16) | (kind == Table.I16_I8)),
            table.short.eq(kind == Table.I16_I8),
            table.value.eq(Cat(*results)),
        ]
        self._leave(m, schedule, Mux(schedule.exit.table, table.o, Cat(*results)))

    def _leave(self, m: Module, schedule, value: Value) -> None:
        last = schedule.exit_valid & schedule.exit.last
        if self._config.vector_parts == 1:
            m.d.comb += [
                self.o.valid.eq(schedule.exit_valid),
                self.o.value.eq(value),
                self.release.eq(last),
            ]
            return
        whole = Signal()
        m.d.sync += [whole.eq(schedule.exit_valid & schedule.exit.ends), self.release.eq(last)]
        m.submodules.collector = collector = VectorCollector(self._config)
        m.d.comb += [
            collector.valid.eq(schedule.exit_valid),
            collector.ends.eq(schedule.exit.ends),
            collector.value.eq(value),
            self.o.valid.eq(whole),
            self.o.value.eq(collector.whole),
        ]


class _Lane:
    """Signals of a lane: what RESCALE gives, the loops' reduction, and that a cycle later."""

    def __init__(self, scaled: Value, reduced: Signal, kept: Signal):
        self.scaled, self.reduced, self.kept = scaled, reduced, kept


_NUMBER = 16
"""Bits of a field, at least, that is a number and chooses nothing."""


def _fetched(m: Module, slots: SlotFields, slot: Value, name: str, suffix: str) -> Signal:
    """A register with field `name` of the context that was in `slot` a cycle ago. A single context
    does not change while there are steps in the lanes, so that numbers need no register.
    """
    field = Signal(field_shape(Opcode.VECTOR, name), name=f"ctx_{name}{suffix}", reset_less=True)
    held = slots.many > 1 or len(field) < _NUMBER
    domain = m.d.sync if held else m.d.comb
    domain += field.eq(slots.field(slot, name))
    return field


_SCALE = ("scale", "mult", "shift")
"""Of A, B and result."""


class _Multiplicand:
    """What all lanes' RESCALE takes in this cycle, from registers.

    takes : of each lane, whether A's value and whether B's; else the result's. operand : B is the
    multiplier; channel : the parameter entry has multiplier and shift; mult, shift : otherwise.
    """

    def __init__(
        self, m: Module, platform, slots: SlotFields, schedule: VectorSchedule, lanes: int
    ):
        kind = schedule.use.kind
        self.takes = Copies(m, platform, "takes", Cat(kind == Use.A, kind == Use.B), lanes)
        self.operand = Signal(name="use_operand", reset_less=True)
        self.channel = Signal(name="use_channel", reset_less=True)
        self.mult = Signal(signed(32), name="use_mult", reset_less=True)
        self.shift = Signal(SHIFT, name="use_shift", reset_less=True)
        # What enters and what is booked are looked up beside each other: it is known late whether a
        # step enters.
        fields, booked = slots.fields(schedule.tag.slot), schedule.booked
        late = scales_a_late(fields)
        enters = [Mux(late, fields[f"o_{x}"], fields[f"a_{x}"]) for x in _SCALE]
        fields = slots.fields(booked.slot)
        of_b = booked.kind == Use.B
        later = [Mux(of_b, fields[f"b_{x}"], fields[f"o_{x}"]) for x in _SCALE]
        targets = (self.operand, self.channel, self.mult, self.shift)
        for target, *pair in zip(targets, _times(*enters), _times(*later), strict=True):
            m.d.sync += target.eq(Mux(schedule.go, *pair))


def _times(scale: Value, mult: Value, shift: Value) -> tuple[Value, ...]:
    """Whether B is the multiplier, whether the parameter entry has it, else multiplier and shift.
    What is not scaled passes: times 1.
    """
    off = scale == Scale.OFF
    return scale == Scale.OPERAND, scale == Scale.CHANNEL, Mux(off, 1, mult), Mux(off, 0, shift)

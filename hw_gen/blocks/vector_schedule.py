"""When a step may enter the vector lanes, and when it is where in them."""

from itertools import product

from amaranth.hdl import *
from amaranth.lib import data, enum, wiring
from amaranth.lib.wiring import In, Out

from hw_gen.blocks.vector_context import (
    SlotFields,
    part_shape,
    slot_shape,
    slots_layout,
    tag_layout,
)
from hw_gen.blocks.vector_table import VectorTable, interval
from spec.config import NpuConfig
from spec.isa import Reduce, Table, rescales_b, rescales_result

SCALE_A, SCALE_B = 1, 2
"""Cycles from the entry of a step to the use of the lanes' RESCALE for A and for B."""
RESCALED = 4
"""Cycles from that use to the result."""
ALU = SCALE_B + RESCALED
"""Cycles to the ALU, where B arrives a cycle behind A."""
REDUCE = ALU + 1
REDUCED = REDUCE + 1
"""Cycles until the result of the loops' reduction is there."""
SCALE_O = REDUCED + 1
"""Cycles to the use of RESCALE for the result. A, B and result of steps that follow each other
every third cycle never meet: the three are different modulo 3."""
WRITTEN = 2
"""Cycles from the zero point of the result to what leaves the lanes without TABLE."""


class Use(enum.Enum, shape=2):
    """What the lanes' RESCALE takes."""

    A = 0
    B = 1
    RESULT = 2


class Source(enum.Enum, shape=2):
    """Where the zero point finds the result: reduced over loops, across lanes, or scaled."""

    LOOPS = 0
    LANES = 1
    SCALED = 2


def across_levels(config: NpuConfig) -> int:
    """Cycles of the reduction across lanes: a level of its tree each, and one for the sum of a
    vector's parts; 0: there is none.
    """
    if not config.lane_reductions:
        return 0
    return (config.lane_count - 1).bit_length() + (config.vector_parts > 1)


def use_layout(config: NpuConfig) -> data.StructLayout:
    part = {"part": part_shape(config)} if config.vector_parts > 1 else {}
    return data.StructLayout(
        {
            "kind": Use,
            "slot": slot_shape(config),
            "across": 1,
            "param": config.param_addr_bits,
            **part,
        }
    )


def finish_layout(config: NpuConfig) -> data.StructLayout:
    return data.StructLayout({"slot": slot_shape(config), "source": Source})


def exit_layout(config: NpuConfig) -> data.StructLayout:
    ends = {"ends": 1} if config.vector_parts > 1 else {}
    return data.StructLayout({"table": 1, "last": 1, **ends})


class VectorSchedule(wiring.Component):
    """Books what a step will use in the cycles to come, and lets it enter if all of it is free.

    The lanes have one RESCALE for A, B and result. A always passes through it, B where the ALU
    needs both, the result where it is scaled: so a step takes it for one, two or three cycles.
    Steps leave the lanes in their order, by ways of different lengths: a step waits that would pass
    one before it. Where vectors pass in parts, each part is a step here; across lanes only the last
    part of a vector has a result.

    Members
    -------
    valid, tag : a step that would enter. slots : the contexts. room : its result has room.
    merges : its B is one with A before RESCALE (`merges_b`).
    part, ends : which part it is, and whether the last one, where there are several.
    go : it enters.
    use, use_valid : what RESCALE takes in the next cycle; booked : that, unless a step enters.
    result_across : the result that RESCALE takes in the next cycle comes from all lanes.
    finish, finish_valid : whose zero point is added in the next cycle.
    exit, exit_valid : the step that leaves the lanes in this cycle.
    """

    def __init__(self, config: NpuConfig):
        self._config = config
        parts = {"part": In(part_shape(config)), "ends": In(1)}
        super().__init__(
            {
                **(parts if config.vector_parts > 1 else {}),
                "valid": In(1),
                "tag": In(tag_layout(config)),
                "merges": In(1),
                "slots": In(slots_layout(config)),
                "room": In(1),
                "go": Out(1),
                "use": Out(use_layout(config)),
                "booked": Out(use_layout(config)),
                "use_valid": Out(1),
                "result_across": Out(1),
                "finish": Out(finish_layout(config)),
                "finish_valid": Out(1),
                "exit": Out(exit_layout(config)),
                "exit_valid": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        levels, in_parts = across_levels(self._config), self._config.vector_parts > 1
        field = SlotFields(m, platform, self.slots).fields(self.tag.slot)
        result, second, scaled = Signal(), Signal(), Signal()
        across, looked = Signal(), Signal()
        has_result = (field["reduce"] == Reduce.NONE) | self.tag.red_last
        m.d.comb += [
            result.eq(has_result & (self.ends | ~across) if in_parts else has_result),
            second.eq(rescales_b(field, self.merges)),
            scaled.eq(result & rescales_result(field)),
            across.eq(field["reduce_lanes"]),
            looked.eq(field["table"] != Table.OFF),
        ]
        # Ways behind the reduction: (condition, cycles to the zero point, to the exit).
        ways = []
        for far, wide, look in product((0, 1), (0, 1) if levels else (0,), (0, 1)):
            start = SCALE_O + RESCALED if far else REDUCED
            finish = start + levels * wide
            chosen = (scaled == far) & (across == wide) & (looked == look)
            ways.append((chosen, finish, finish + WRITTEN + VectorTable.LATENCY * look))
        last_use = SCALE_O + levels
        uses = _Line(m, "use", use_layout(self._config), last_use)
        finishes = _Line(m, "finish", finish_layout(self._config), max(w[1] for w in ways))
        exits = _Line(m, "exit", exit_layout(self._config), max(w[2] for w in ways))
        use_result = {SCALE_O: scaled & ~across}
        if levels:
            use_result[last_use] = scaled & across
        thrice = second & scaled
        since = Signal(2)
        m.d.sync += since.eq(Cat(self.go & thrice, since[0]))
        late = Cat(
            chosen
            & (
                finishes.valid[finish:].any()
                | exits.valid[exit:].any()
                | (looked & exits.valid[exit - 1] & exits.items[exit - 1].table)
                # Two lanes have one TABLE.
                if interval(self._config) > 1
                else finishes.valid[finish:].any() | exits.valid[exit:].any()
            )
            for chosen, finish, exit in ways
        ).any()
        taken = Cat(wanted & uses.valid[at] for at, wanted in use_result.items()).any()
        free = Signal()
        m.d.comb += [
            free.eq(
                ~uses.valid[SCALE_A]
                & ~(second & uses.valid[SCALE_B])
                & ~taken
                & ~(thrice & since[1])
                & ~(result & late)
            ),
            self.go.eq(self.valid & self.room & free),
            # A's use comes in the next cycle.
            self.use_valid.eq(self.go | uses.valid[1]),
            self.result_across.eq(uses.items[1].across),
            self.finish_valid.eq(finishes.valid[1]),
            self.finish.eq(finishes.items[1]),
            self.exit_valid.eq(exits.valid[0]),
            self.exit.eq(exits.items[0]),
        ]
        part = {"part": self.part} if in_parts else {}
        ends = {"ends": self.ends} if in_parts else {}
        with m.If(self.go):
            m.d.comb += [self.use.kind.eq(Use.A), self.use.slot.eq(self.tag.slot)]
            m.d.comb += self.use.param.eq(self.tag.param)
            m.d.comb += [self.use[name].eq(value) for name, value in part.items()]
        with m.Else():
            m.d.comb += self.use.eq(uses.items[1])
        m.d.comb += self.booked.eq(uses.items[1])
        b_use = {"kind": Use.B, "slot": self.tag.slot, "across": 0, "param": self.tag.param}
        b_use |= part
        o_use = {**b_use, "kind": Use.RESULT, "across": across}
        if in_parts:
            # What all lanes come to is the vector's first element.
            o_use["part"] = Mux(across, 0, self.part)
        uses.insert(SCALE_B, self.go & second, b_use)
        for at, wanted in use_result.items():
            uses.insert(at, self.go & wanted, o_use)
        source = Mux(scaled, Source.SCALED, Mux(across, Source.LANES, Source.LOOPS))
        for chosen, finish, exit in ways:
            enters = self.go & result & chosen
            finishes.insert(finish, enters, {"slot": self.tag.slot, "source": source})
            exits.insert(exit, enters, {"table": looked, "last": self.tag.last, **ends})
        return m


class _Line:
    """What is booked for each cycle to come. Entry 0: for this cycle, entry n: n cycles later."""

    def __init__(self, m: Module, name: str, layout: data.StructLayout, last: int):
        self._m = m
        self._layout = layout
        self.valid = Signal(last + 1, name=f"{name}_valid")
        self.items = [Signal(layout, name=f"{name}_{i}", reset_less=True) for i in range(last + 1)]
        m.d.sync += self.valid.eq(self.valid >> 1)
        for i in range(last):
            m.d.sync += self.items[i].eq(self.items[i + 1])

    def insert(self, at: int, when: Value, values: dict) -> None:
        """Book the cycle that is `at` cycles later."""
        with self._m.If(when):
            self._m.d.sync += self.valid[at - 1].eq(1)
            for name, value in values.items():
                self._m.d.sync += self.items[at - 1][name].eq(value)

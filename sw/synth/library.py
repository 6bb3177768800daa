"""Cells of a Liberty library as synthesis and timing need them: area, pins, delay tables."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from sw.synth.boolean import truth_table
from sw.synth.errors import SynthError
from sw.synth.liberty import Group, parse, read_text
from sw.synth.lookup import Table, TableReader
from sw.synth.wires import NO_WIRES, WireLoad, wire_load

RISE, FALL = 0, 1
"""Edges of a net; the index of every pair of rise and fall below."""
EDGES = ("rise", "fall")


@dataclass(frozen=True, slots=True, kw_only=True)
class Arc:
    """A way through a cell from `source` to `target`, or the constraint of `target` by `source`.

    delay, transition: by edge of the target; of a constraint only `delay`, by the data's edge.
    """

    source: str
    target: str
    sense: str
    kind: str
    delay: tuple[Table | None, Table | None]
    transition: tuple[Table | None, Table | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class GatePins:
    """Pins of a clock gate: `output` follows `clock` through a cycle that began with `enable`."""

    enable: str
    clock: str
    output: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """A cell. capacitance: of each input, by edge. functions: of each output that has one.

    Of a flip-flop, `state` names its state and the inverse, which its functions are of, and
    `next_state` is the function that the clock's edge takes. clock: also of a clock gate, whose
    pins are `clock_gate`.
    """

    name: str
    area: float
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    capacitance: dict[str, tuple[float, float]]
    functions: dict[str, str]
    arcs: tuple[Arc, ...]
    sequential: bool
    flip_flop: bool
    clock: str
    state: tuple[str, ...]
    next_state: str
    clock_gate: GatePins | None
    usable: bool

    def table(self) -> tuple[bool, ...] | None:
        """The truth table of a cell of one output and no state; None for others."""
        if self.sequential or len(self.outputs) != 1 or not 0 < len(self.inputs) <= 4:
            return None
        function = self.functions.get(self.outputs[0])
        return truth_table(function, self.inputs) if function else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Library:
    """Cells by name. Times are in nanoseconds, capacitances in picofarads, areas as in the file.

    wires : what the wires of a net weigh; None: nothing.
    """

    name: str
    cells: dict[str, Cell]
    nand2: Cell
    inverter: Cell
    clock_gate: Cell | None
    wires: WireLoad | None = None
    unusable: tuple[str, ...] = field(default=())

    @property
    def fo4_ns(self) -> float:
        """Delay of the smallest inverter that drives four of itself, mean of both edges."""
        return fan_out_of_four(self.inverter)[0]

    @property
    def fo4_slew_ns(self) -> float:
        """Transition at the output of that inverter."""
        return fan_out_of_four(self.inverter)[1]


def read_library(path: Path, nand2: str = "") -> Library:
    """The library of a file. nand2: the cell whose area is one gate equivalent (found if empty)."""
    return make_library(parse(read_text(path), str(path)), str(path), nand2)


def make_library(tree: Group, where: str, nand2: str = "", wires: str = NO_WIRES) -> Library:
    """The library of a parsed file; `SynthError` if it lacks what a synthesis needs.

    wires : its wire-load model, "" for its default one.
    """
    try:
        loads = wire_load(tree, wires)
        reader = _Reader(tree)
        cells = {group.name: reader.cell(group) for group in tree.all("cell")}
    except SynthError as error:
        raise SynthError(f"Liberty file {where}: {error}") from None
    if not cells:
        raise SynthError(f"Liberty file {where}: library {tree.name} has no cell")
    if not any(cell.flip_flop and cell.usable for cell in cells.values()):
        raise SynthError(
            f"Liberty file {where}: none of its {len(cells)} cells is a flip-flop with a rising "
            "clock edge (a group ff with clocked_on); is it a library of standard cells?"
        )
    return Library(
        name=tree.name,
        cells=cells,
        nand2=_named(cells, nand2, where) if nand2 else _smallest(cells, _NAND2, "NAND2", where),
        inverter=_smallest(cells, _NOT, "inverter", where),
        clock_gate=min(
            (cell for cell in cells.values() if cell.clock_gate),
            key=lambda cell: (cell.area, cell.name),
            default=None,
        ),
        wires=loads,
        unusable=tuple(sorted(name for name, cell in cells.items() if not cell.usable)),
    )


_NAND2 = (True, True, True, False)
_NOT = (True, False)


def _smallest(cells: dict[str, Cell], table: tuple[bool, ...], what: str, where: str) -> Cell:
    found = [c for c in cells.values() if c.usable and c.area > 0 and c.table() == table]
    if not found:
        hint = "; name the cell to count in: --nand2 CELL" if what == "NAND2" else ""
        raise SynthError(
            f"Liberty file {where}: none of its {len(cells)} cells is a {what} by its function "
            f"and has an area{hint}"
        )
    return min(found, key=lambda cell: (cell.area, cell.name))


def _named(cells: dict[str, Cell], name: str, where: str) -> Cell:
    from spec.names import did_you_mean

    if name not in cells:
        near = did_you_mean(name, cells)
        raise SynthError(f"--nand2 {name}: no such cell in {where}{near}")
    if cells[name].area <= 0:
        raise SynthError(f"--nand2 {name}: its area in {where} is {cells[name].area:g}")
    return cells[name]


class _Reader:
    """Makes cells of groups, with the units and templates of their library."""

    def __init__(self, tree: Group) -> None:
        self._tree = tree
        self._tables = TableReader(tree)

    def cell(self, group: Group) -> Cell:
        pins = list(_pins(group))
        inputs = [p for p in pins if p.text("direction") == "input"]
        outputs = [p for p in pins if p.text("direction") == "output"]
        ff = next(group.all("ff"), None)
        clock = ff.text("clocked_on").strip("() ") if ff else ""
        gate = _gate_pins(group, pins)
        sequential = any(g.kind in ("ff", "latch", "statetable", "ff_bank") for g in group.groups)
        return Cell(
            name=group.name,
            area=group.number("area", 0.0),
            inputs=tuple(p.name for p in inputs),
            outputs=tuple(p.name for p in outputs),
            capacitance={p.name: self._capacitance(p) for p in inputs},
            functions={p.name: p.text("function") for p in outputs if p.text("function")},
            arcs=tuple(arc for pin in pins for arc in self._arcs(pin)),
            sequential=sequential,
            flip_flop=ff is not None and clock in [p.name for p in inputs],
            clock=gate.clock if gate else clock,
            state=tuple(ff.arguments) if ff else (),
            next_state=ff.text("next_state") if ff else "",
            clock_gate=gate,
            usable=_usable(group, pins, sequential, ff is not None),
        )

    def _capacitance(self, pin: Group) -> tuple[float, float]:
        both = pin.number("capacitance", self._tree.number("default_input_pin_cap", 0.0))
        rise = pin.number("rise_capacitance", both)
        fall = pin.number("fall_capacitance", both)
        return (rise * self._tables.load, fall * self._tables.load)

    def _arcs(self, pin: Group) -> Iterator[Arc]:
        for timing in pin.all("timing"):
            kind = timing.text("timing_type") or "combinational"
            tables = {g.kind: g for g in timing.groups}
            constraint = kind.startswith(("setup", "hold", "recovery", "removal"))
            names = ("{}_constraint", "") if constraint else ("cell_{}", "{}_transition")
            delay, transition = (
                tuple(self._tables.delay(tables.get(name.format(e)), not constraint) for e in EDGES)
                for name in names
            )
            for related in timing.text("related_pin").split():
                yield Arc(
                    source=related,
                    target=pin.name,
                    sense=timing.text("timing_sense") or "non_unate",
                    kind=kind,
                    delay=(delay[0], delay[1]),
                    transition=(transition[0], transition[1]),
                )


def _pins(cell: Group) -> Iterator[Group]:
    for group in cell.groups:
        if group.kind == "pin":
            for name in group.arguments:
                yield Group("pin", [name], group.attributes, group.groups)
        elif group.kind in ("bus", "bundle"):
            yield from group.all("pin")


def _gate_pins(cell: Group, pins: Sequence[Group]) -> GatePins | None:
    """The pins of a gate for rising edges that has no other ones, as for a test; else None."""
    if cell.text("clock_gating_integrated_cell") != "latch_posedge":
        return None
    outer = [pin for pin in pins if pin.text("direction") in ("input", "output")]
    kinds = ("clock_gate_enable_pin", "clock_gate_clock_pin", "clock_gate_out_pin")
    found = [pin.name for kind in kinds for pin in outer if pin.text(kind).lower() == "true"]
    if len(found) != len(kinds) or len(outer) != len(kinds):
        return None
    return GatePins(enable=found[0], clock=found[1], output=found[2])


def _usable(group: Group, pins: Sequence[Group], sequential: bool, flip_flop: bool) -> bool:
    """Whether synthesis may use the cell: no latch, tri-state, clock gate, delay or filler cell."""
    if any(group.text(name).lower() == "true" for name in ("dont_use", "is_macro_cell")):
        return False
    if group.text("clock_gating_integrated_cell") or next(group.all("test_cell"), None):
        return False
    if any(pin.text("three_state") for pin in pins) or (sequential and not flip_flop):
        return False
    if any(pin.text("direction") not in ("input", "output", "internal") for pin in pins):
        return False
    # A clock that is an expression is an inverted one; a buffer made slow on purpose is no buffer.
    if "dly" in group.name.lower() or "delay" in group.name.lower():
        return False
    return any(pin.text("direction") == "output" and pin.text("function") for pin in pins)


def interpolate(table: Table, slew: float, load: float) -> float:
    """A table's value; linear, also outside of its range."""
    values, axes = table.values, (table.slews, table.loads)
    for axis, at in zip(axes, (slew, load), strict=True):
        if len(axis) < 2:
            values = values[0]
            continue
        i = int(np.clip(np.searchsorted(axis, at, "right") - 1, 0, len(axis) - 2))
        share = (at - axis[i]) / (axis[i + 1] - axis[i])
        values = values[i] * (1 - share) + values[i + 1] * share
    return float(values)


def fan_out_of_four(inverter: Cell) -> tuple[float, float]:
    """Delay and transition in a chain of inverters that each drive four: a library's yardstick."""
    load = 4 * sum(inverter.capacitance[inverter.inputs[0]]) / 2
    slew, delay = 0.0, 0.0
    arcs = [arc for arc in inverter.arcs if arc.delay[RISE] and arc.delay[FALL]]
    if not arcs:
        raise SynthError(f"cell {inverter.name}: the inverter has no delay tables")
    for _ in range(20):
        results = [
            [interpolate(t, slew, load) for t in tables if t is not None]
            for tables in (arcs[0].delay, arcs[0].transition)
        ]
        delay, slew = (float(np.mean(values or [0.0])) for values in results)
    return delay, slew

"""Look-up tables of a Liberty library, in nanoseconds, picofarads and picojoules."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sw.synth.errors import SynthError
from sw.synth.liberty import Group

Numbers = npt.NDArray[np.float64]

_TRANSITIONS = ("input_net_transition", "constrained_pin_transition", "input_transition_time")
_LOADS = ("total_output_net_capacitance", "related_pin_transition", "output_net_length")
_TEMPLATES = ("lu_table_template", "power_lut_template")


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """Delay, transition, constraint or energy over (transition of the input, load).

    Of a constraint the second axis is the transition of the clock.
    """

    slews: Numbers
    loads: Numbers
    values: Numbers
    """Shape (slews, loads)."""


class TableReader:
    """Makes tables of groups, with the units and templates of their library.

    time, load, volt: the library's units in nanoseconds, picofarads and volts.
    """

    def __init__(self, tree: Group) -> None:
        self.time = _time_unit_ns(tree)
        self.load = _load_unit_pf(tree)
        self.volt = unit_of(tree, "voltage_unit", "1V", "V") * 1e-9
        self._templates = {g.name: g for kind in _TEMPLATES for g in tree.all(kind)}

    def delay(self, group: Group | None, second_is_load: bool = True) -> Table | None:
        """A table of times."""
        return self._table(group, self.load if second_is_load else self.time, self.time)

    def energy(self, group: Group | None) -> Table | None:
        """A table of energies; their unit is that of capacitance times voltage squared."""
        return self._table(group, self.load, self.load * self.volt**2)

    def _table(self, group: Group | None, second: float, unit: float) -> Table | None:
        if group is None:
            return None
        template = self._templates.get(group.name, group)
        names = [template.text(f"variable_{i}") for i in (1, 2)]
        axes = [
            _numbers(group.attributes.get(f"index_{i}") or template.attributes.get(f"index_{i}"))
            for i in (1, 2)
        ]
        values = _numbers(group.attributes.get("values")) * unit
        shape = tuple(max(1, len(axis)) for axis in axes)
        if len(values) != shape[0] * shape[1]:
            raise SynthError(
                f"table {group.kind} ({group.name}): {len(values)} values for an index of "
                f"{shape[0]} × {shape[1]}"
            )
        grid = values.reshape(shape)
        if names[0] in _LOADS or (names[0] not in _TRANSITIONS and names[1] in _TRANSITIONS):
            axes, grid = axes[::-1], grid.T
        return Table(axes[0] * self.time, axes[1] * second, np.ascontiguousarray(grid))


def _numbers(items: Sequence[str] | None) -> Numbers:
    """The numbers of `index_1 ("1, 2")` or `values ("1, 2", "3, 4")`."""
    text = " ".join(items or ()).replace(",", " ")
    try:
        return np.array(text.split(), np.float64)
    except ValueError:
        raise SynthError(f"table of a Liberty file: {text[:40]!r} is no list of numbers") from None


_PREFIX = {"": 1e9, "m": 1e6, "u": 1e3, "n": 1.0, "p": 1e-3, "f": 1e-6}
"""Times a unit, in thousand millionths of it."""


def unit_of(tree: Group, name: str, default: str, unit: str) -> float:
    """What `1nW` or `10ps` is, in thousand millionths of the unit."""
    text = tree.text(name, default).strip()
    what = name.split("_")[0]
    digits = text.rstrip("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
    found = text[len(digits) :]
    if found[-len(unit) :].lower() != unit.lower() or found[: -len(unit)] not in _PREFIX:
        raise SynthError(f"library {tree.name}: {name} {text!r} is no {what} such as {default}")
    try:
        return float(digits) * _PREFIX[found[: -len(unit)]]
    except ValueError:
        message = f"library {tree.name}: {name} {text!r} is no {what} such as {default}"
        raise SynthError(message) from None


def _time_unit_ns(tree: Group) -> float:
    return unit_of(tree, "time_unit", "1ns", "s")


def _load_unit_pf(tree: Group) -> float:
    values = tree.attributes.get("capacitive_load_unit", ["1", "pf"])
    scale = {"pf": 1.0, "ff": 1e-3}.get(values[-1].lower())
    if scale is None:
        text = ", ".join(values)
        raise SynthError(f"library {tree.name}: capacitive_load_unit ({text}) is neither pf nor ff")
    return float(values[0]) * scale

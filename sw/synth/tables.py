"""All delay tables of a library in one array, so that a million look-ups are one operation."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from sw.synth.lookup import Table

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int32]


class TableStack:
    """Tables by number; axes are filled up to the longest with infinity."""

    def __init__(self, tables: Sequence[Table]) -> None:
        grids = [_at_least_two(table) for table in tables]
        rows = max(len(slews) for slews, _, _ in grids)
        columns = max(len(loads) for _, loads, _ in grids)
        count = len(grids)
        self._slews = np.full((count, rows), np.inf)
        self._loads = np.full((count, columns), np.inf)
        self._values = np.zeros((count, rows, columns))
        self._last = np.zeros((count, 2), np.int32)
        for i, (slews, loads, values) in enumerate(grids):
            self._slews[i, : len(slews)] = slews
            self._loads[i, : len(loads)] = loads
            self._values[i, : len(slews), : len(loads)] = values
            self._last[i] = len(slews) - 2, len(loads) - 2

    def look_up(self, tables: Ints, slews: Floats, loads: Floats) -> Floats:
        """Bilinear, and linear beyond the ends of a table, as other timing tools do."""
        row, row_share = _position(self._slews[tables], self._last[tables, 0], slews)
        column, column_share = _position(self._loads[tables], self._last[tables, 1], loads)
        low = self._values[tables, row, column] * (1 - column_share)
        low += self._values[tables, row, column + 1] * column_share
        high = self._values[tables, row + 1, column] * (1 - column_share)
        high += self._values[tables, row + 1, column + 1] * column_share
        result: Floats = low * (1 - row_share) + high * row_share
        return result


def _position(axes: Floats, last: Ints, at: Floats) -> tuple[Ints, Floats]:
    """The interval of each axis that `at` is in, or the nearest, and how far it is along it."""
    index = np.clip((axes <= at[:, None]).sum(1) - 1, 0, last).astype(np.int32)
    every = np.arange(len(at))
    low, high = axes[every, index], axes[every, index + 1]
    return index, (at - low) / (high - low)


def _at_least_two(table: Table) -> tuple[Floats, Floats, Floats]:
    """The table with two points on each axis at least: what is constant stays so."""
    slews, loads, values = table.slews, table.loads, table.values
    if len(slews) < 2:
        slews, values = np.array([0.0, 1.0]), np.repeat(values, 2, axis=0)
    if len(loads) < 2:
        loads, values = np.array([0.0, 1.0]), np.repeat(values, 2, axis=1)
    return slews, loads, values


def constant(value: float) -> Table:
    """A table that has one value everywhere."""
    return Table(np.zeros(0), np.zeros(0), np.array([[value]]))

"""Strided runs of activations, some of them outside the input."""

from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np

from golden_model.boxes import Walk, view
from golden_model.loops import Ints, wrapped_position
from golden_model.regions import Region, region, region_at
from golden_model.state import GUARD, State
from golden_model.values import Floats, bounds


@dataclass(frozen=True, slots=True)
class Outside:
    """The runs outside the input, by number; extreme offsets of the bytes of the others."""

    runs: Ints
    low: int
    high: int


class Windows:
    """Runs of activations at the addresses of `walk`, whose last dimension is the run.

    y, x: [shape of `walk` without the run] where they are in the input, all relative to a place.
    """

    def __init__(self, v: dict[str, Any], walk: Walk, y: Walk, x: Walk, used: Ints | int) -> None:
        """used: [dimensions of `walk` that it broadcasts to] bytes of each run that are needed."""
        self._v, self.walk, self._used = v, walk, used
        self._regions: dict[tuple[int, int], Region] = {}
        self._y, self._x = y.compact(), x.compact()
        self._outside: dict[tuple[int, int], Outside | None] = {}

    def outside(self, y: int, x: int) -> Outside | None:
        """What is outside the input for a place at row y, column x; None: nothing."""
        if (y, x) not in self._outside:
            v = self._v
            rows, columns = wrapped_position(self._y + y), wrapped_position(self._x + x)
            inside = (rows >= 0) & (rows < v["height"]) & (columns >= 0) & (columns < v["width"])
            self._outside[y, x] = None
            if not inside.all():
                inside = np.broadcast_to(inside, self.walk.shape[:-1])
                used = self.walk.grid()[inside]
                low, high = (int(used.min()), int(used.max())) if used.size else (0, 0)
                self._outside[y, x] = Outside(np.flatnonzero(~inside), low, high)
        return self._outside[y, x]

    def hull(self, act: int) -> tuple[int, int]:
        """First byte, and the one after the last, of everything near byte `act`."""
        return act + self.walk.low, act + self.walk.high + 1

    def fits(self, state: State, act: int, y: int, x: int) -> bool:
        """Nothing that is read faults, and the rest is near enough for a view."""
        start, end = self.hull(act)
        outside = self.outside(y, x)
        used = (start, end)
        if outside is not None:
            used = (act + outside.low, act + outside.high + 1)
        return min(used[0], start + GUARD) >= 0 and max(used[1], end - GUARD) <= state.spad.size

    def region(self, y: int, x: int) -> Region:
        """The bytes that are read, relative to the place's."""
        if (y, x) not in self._regions:
            self._regions[y, x] = self._find_region(self.outside(y, x))
        return self._regions[y, x]

    def _find_region(self, outside: Outside | None) -> Region:
        runs = self.walk.first()
        if outside is None and np.ndim(self._used) == 0:
            return region(runs, int(self._used))
        address = runs.grid()
        used = np.broadcast_to(self._used, address.shape).copy()
        if outside is not None:
            used.reshape(-1)[outside.runs] = 0
        lengths = np.unique(used[used > 0]).tolist()
        return reduce(Region.__or__, (region_at(address[used == n], n) for n in lengths), Region())

    def gather(self, state: State, act: int, y: int, x: int, out: Floats) -> None:
        """out: [shape of `walk`], activations as they are, the zero point outside the input."""
        walk, outside = self.walk, self.outside(y, x)
        dtype = np.uint8 if self._v["act_unsigned"] else np.int8
        start = GUARD + act + walk.offset
        np.copyto(out, view(state.guarded, start, walk.shape, walk.strides, dtype))
        if outside is not None:
            out.reshape(-1, walk.shape[-1])[outside.runs] = self._v["act_zp"]

    def largest(self, y: int, x: int) -> int:
        """The largest magnitude that `gather` can give."""
        most = max(map(abs, bounds(self._v, "act")))
        return most if self.outside(y, x) is None else max(most, abs(self._v["act_zp"]))

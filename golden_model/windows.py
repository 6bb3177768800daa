"""Strided runs of activations, some of them outside the input."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from golden_model.boxes import Walk, view
from golden_model.loops import Ints, signed16
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

    def __init__(self, v: dict[str, Any], walk: Walk, y: Walk, x: Walk) -> None:
        self._v, self.walk = v, walk
        self._y, self._x = y.grid(), x.grid()
        self._outside: dict[tuple[int, int], Outside | None] = {}

    def outside(self, y: int, x: int) -> Outside | None:
        """What is outside the input for a place at row y, column x; None: nothing."""
        if (y, x) not in self._outside:
            v = self._v
            rows, columns = signed16(self._y + y), signed16(self._x + x)
            inside = (rows >= 0) & (rows < v["height"]) & (columns >= 0) & (columns < v["width"])
            self._outside[y, x] = None
            if not inside.all():
                used = self.walk.grid()[inside]
                low, high = (int(used.min()), int(used.max())) if used.size else (0, 0)
                self._outside[y, x] = Outside(np.flatnonzero(~inside), low, high)
        return self._outside[y, x]

    def span(self, state: State, act: int, y: int, x: int) -> tuple[int, int] | None:
        """The bytes that a gathering from byte `act` on depends on; None if it may fault."""
        start, end = act + self.walk.low, act + self.walk.high + 1
        outside = self.outside(y, x)
        used = (start, end)
        if outside is not None:
            used = (act + outside.low, act + outside.high + 1)
        if min(used[0], start + GUARD) < 0 or max(used[1], end - GUARD) > state.spad.size:
            return None
        return start, end

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

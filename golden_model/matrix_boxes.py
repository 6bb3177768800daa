"""MATRIX by strided views: all folds and column blocks of a chunk in one exact product."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from golden_model.boxes import Box, apart, boxes, strided, view
from golden_model.folds import Folds
from golden_model.lefts import LARGEST
from golden_model.loops import signed24
from golden_model.state import State
from golden_model.values import Floats, largest
from golden_model.windows import Windows

_EXACT = 1 << 24
"""float32 holds every integer up to here."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a chunk begins: addresses, and position in the input."""

    act: int
    acc: int
    y: int
    x: int


def product_of(folds: Folds, chunk: int, cols: int) -> "Product | None":
    """How to compute a chunk; None if it is not regular."""
    form, v = folds.form, folds.form.v
    last = [
        bool(form.chunks.steps.last[v[name], chunk]) if v[name] < form.level else False
        for name in ("row_loop", "col_loop")
    ]
    key = ("product", form.chunks.outer_last[chunk], *last)
    if key not in form.cache:
        found = boxes(form.loops[form.level :], form.chunks.outer_last[chunk])
        made = None
        if len(found) == 1 and form.level <= v["fold_loops"] and _regular(folds, found[0]):
            made = Product(folds, chunk, found[0], cols)
        form.cache[key] = made if made is not None and made.fits else None
    return form.cache[key]


def _regular(folds: Folds, box: Box) -> bool:
    """Reductions are sums over folds, and the other folds use the same activations."""
    form, v = folds.form, folds.form.v
    for i in (form.level + d for d in box.dimensions):
        loop, reduced = form.loops[i], v["k_loops"] >> i & 1
        if i >= v["fold_loops"]:
            if reduced:
                return False
        elif loop["acc"] if reduced else loop["act"] or loop["dy"] or loop["dx"]:
            return False
    return True


class Product:
    """Left [vectors, k] times right [k, n].

    k goes over the reduction loops and the array's rows, n over the other fold loops and the
    columns. Zero points of activations are subtracted from the result, by the sums of the columns
    of `right`: that keeps left small and exact sums long.
    """

    def __init__(self, folds: Folds, chunk: int, box: Box, cols: int) -> None:
        form, v = folds.form, folds.form.v
        self.v, self.cols = v, cols
        rows = folds.extent(chunk, v["row_loop"], v["rows"], v["rows_last"])
        columns = folds.extent(chunk, v["col_loop"], v["cols"], v["cols_last"])
        self.rows, self.columns = int(rows.max()), int(columns.max())
        count = {form.level + d: n for d, n in zip(box.dimensions, box.shape, strict=True)}
        self._folds = [i for i in count if i < v["fold_loops"]]
        self._k = [i for i in self._folds if v["k_loops"] >> i & 1]
        self._n = [i for i in self._folds if i not in self._k]
        stream = [i for i in count if i >= v["fold_loops"]]

        def counts(loops: list[int]) -> tuple[int, ...]:
            return tuple(count[i] for i in loops)

        def strides(name: str, *loops: int) -> tuple[int, ...]:
            return tuple(form.loops[i][name] for i in loops)

        left, right = (*counts(stream), *counts(self._k)), (*counts(self._k), self.rows)
        self._windows = Windows(
            v,
            strided((*left, self.rows), (*strides("act", *stream, *self._k), 1)),
            strided(left, strides("dy", *stream, *self._k)),
            strided(left, strides("dx", *stream, *self._k)),
        )
        self.wgt = strided(
            (*right, *counts(self._n), self.columns),
            (*strides("wgt", *self._k), v["wgt_row"], *strides("wgt", *self._n), 1),
        )
        self.acc = strided((*counts(stream), *counts(self._n)), strides("acc", *stream, *self._n))
        self.vectors, self.k = math.prod(counts(stream)), math.prod(right)
        target = self.acc.grid().reshape(-1)
        room = self.vectors * self.k <= LARGEST
        self.fits = room and apart(target, np.ones(target.size, np.int64))
        used = (np.arange(self.rows) < rows[:, None])[:, :, None]
        used = used & (np.arange(self.columns) < columns[:, None])[:, None, :]
        self._fold_shape = counts(self._folds)
        self._used = None if used.all() else self._packed(used).astype(np.float32)

    def _order(self) -> list[int]:
        """The axes of [fold loops..., rows, columns] in the order of `right`."""
        at = {loop: axis for axis, loop in enumerate(self._folds)}
        rows = len(self._folds)
        return [*(at[i] for i in self._k), rows, *(at[i] for i in self._n), rows + 1]

    def _packed(self, values: NDArray[Any]) -> NDArray[Any]:
        """[k, n] of [folds, rows, columns]."""
        values = values.reshape(*self._fold_shape, self.rows, self.columns)
        return values.transpose(self._order()).reshape(self.k, -1)

    def unpacked(self, right: Floats, rows: int) -> Floats:
        """[folds, `rows`, cols] of [k, n]."""
        values = right.reshape(self.wgt.shape).transpose(np.argsort(self._order()))
        values = values.reshape(-1, self.rows, self.columns)
        out = np.zeros((values.shape[0], rows, self.cols), np.float32)
        out[:, : self.rows, : self.columns] = values
        return out

    # Weights ------------------------------------------------------------------------------------

    def read_weights(self, state: State, base: int) -> Floats | None:
        """`right`, of the weights from byte `base` on; None if an access may fault."""
        v, walk, base = self.v, self.wgt, signed24(base)
        if base + walk.low < 0 or base + walk.high >= state.spad.size:
            return None
        dtype = np.uint8 if v["wgt_unsigned"] else np.int8
        raw = view(state.spad, base, walk.shape, walk.strides, dtype)
        right = raw.astype(np.float32, order="C").reshape(self.k, -1)
        if v["wgt_zp"]:
            right -= v["wgt_zp"]
        if self._used is not None:
            right *= self._used
        return right

    # Activations --------------------------------------------------------------------------------

    def left(self, state: State, place: Place) -> Floats | None:
        """[vectors, k]: activations as they are; None if an access may fault."""
        where = (place.act, place.y, place.x)
        span = self._windows.span(state, *where)
        if span is None:
            return None
        left = state.lefts.get((self, *where))
        if left is None:
            left = state.lefts.new((self, *where), *span, self.vectors * self.k)
            self._windows.gather(state, *where, left.reshape(self._windows.walk.shape))
        return left.reshape(self.vectors, self.k)

    # Products -----------------------------------------------------------------------------------

    def execute(self, state: State, place: Place, right: Floats, fresh: bool) -> bool:
        """Multiply and accumulate; False, and nothing done, if an access may fault."""
        if place.acc + self.acc.low < 0 or place.acc + self.acc.high >= state.acc.shape[0]:
            return False
        left = self.left(state, place)
        if left is None:
            return False
        row = 4 * self.cols
        shape = (*self.acc.shape, self.cols)
        strides = (*(stride * row for stride in self.acc.strides), 4)
        vectors = view(state.acc_bytes, place.acc * row, shape, strides, np.int32)
        total = vectors[..., : self.columns]
        largest_left = self._windows.largest(place.y, place.x)
        span = _EXACT // (largest_left * largest(self.v, "wgt"))
        product = left[:, :span] @ right[:span]
        if fresh:
            np.copyto(total, product.reshape(total.shape), "unsafe")
            vectors[..., self.columns :] = 0
        else:
            total += product.reshape(total.shape).astype(np.int32)
        for at in range(span, self.k, span):
            product = left[:, at : at + span] @ right[at : at + span]
            total += product.reshape(total.shape).astype(np.int32)
        if self.v["act_zp"]:
            sums = right.sum(axis=0, dtype=np.float64 if self.k > _EXACT >> 8 else None)
            offset = (sums.astype(np.int64) * self.v["act_zp"]).astype(np.int32)
            total -= offset.reshape(self.wgt.shape[-1 - len(self._n) :])
        return True

"""MATRIX by strided views: all folds and column blocks of a chunk in one exact product."""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from golden_model.boxes import Box, Walk, apart, boxes, strided, view
from golden_model.folds import Folds
from golden_model.lhs_cache import LARGEST
from golden_model.loops import Ints, signed_chip_address
from golden_model.regions import Region, region, region_of
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
    shape, v = folds.shape, folds.shape.v
    last = [
        bool(shape.chunks.steps.last[v[name], chunk]) if v[name] < shape.level else False
        for name in ("row_loop", "col_loop")
    ]
    key = ("product", shape.chunks.outer_last[chunk], *last)
    if key not in shape.cache:
        found = boxes(shape.loops[shape.level :], shape.chunks.outer_last[chunk])
        made = None
        if len(found) == 1 and shape.level <= v["fold_loops"] and _regular(folds, found[0]):
            made = Product(folds, chunk, found[0], cols)
        shape.cache[key] = made if made is not None and made.regular else None
    return shape.cache[key]


def _regular(folds: Folds, box: Box) -> bool:
    """Reductions are sums over folds, and the other folds use the same activations."""
    shape, v = folds.shape, folds.shape.v
    for i in (shape.level + d for d in box.dimensions):
        loop, reduced = shape.loops[i], v["k_loops"] >> i & 1
        if i >= v["fold_loops"]:
            if reduced:
                return False
        elif loop["acc"] if reduced else loop["act"] or loop["dy"] or loop["dx"]:
            return False
    return True


class _Axes:
    """The loops of a chunk that run more than once, by what they are in the product."""

    def __init__(self, folds: Folds, box: Box) -> None:
        shape, v = folds.shape, folds.shape.v
        self._loops = shape.loops
        self._count = {shape.level + d: n for d, n in zip(box.dimensions, box.shape, strict=True)}
        self.folds = [i for i in self._count if i < v["fold_loops"]]
        self.k = [i for i in self.folds if v["k_loops"] >> i & 1]
        self.n = [i for i in self.folds if i not in self.k]
        self.stream = [i for i in self._count if i not in self.folds]

    def counts(self, loops: list[int]) -> tuple[int, ...]:
        return tuple(self._count[i] for i in loops)

    def walk(self, stride: str, loops: list[int]) -> Walk:
        return strided(self.counts(loops), tuple(self._loops[i][stride] for i in loops))

    def order(self) -> list[int]:
        """The axes of [fold loops..., rows, columns] in the order of [k, rows, n, columns]."""
        at = {loop: axis for axis, loop in enumerate(self.folds)}
        rows = len(self.folds)
        return [*(at[i] for i in self.k), rows, *(at[i] for i in self.n), rows + 1]


class Product:
    """Left [vectors, k] times right [k, n].

    k goes over the reduction loops and the array's rows, n over the other fold loops and the
    columns. Zero points of activations are subtracted from the result, by the sums of the columns
    of `right`: that keeps left small and exact sums long.
    """

    def __init__(self, folds: Folds, chunk: int, box: Box, cols: int) -> None:
        v = folds.shape.v
        self.v, self.cols, self._axes = v, cols, _Axes(folds, box)
        axes = self._axes
        rows = folds.extent(chunk, v["row_loop"], v["rows"], v["rows_last"])
        columns = folds.extent(chunk, v["col_loop"], v["cols"], v["cols_last"])
        self.rows, self.columns = int(rows.max()), int(columns.max())
        used = np.arange(self.rows)[:, None] < rows[:, None, None]
        used = used & (np.arange(self.columns) < columns[:, None, None])
        row, column = (1, v["wgt_row"]) if v["transposed"] else (v["wgt_row"], 1)
        whole = axes.walk("wgt", axes.k).then(self.rows, row)
        self.wgt = whole.joined(axes.walk("wgt", axes.n)).then(self.columns, column)
        self._fold_shape = axes.counts(axes.folds)
        self.vectors = math.prod(axes.counts(axes.stream))
        self.k = math.prod(axes.counts(axes.k)) * self.rows
        self._used: NDArray[np.bool_] | None = None if used.all() else self._packed(used)
        over = [*axes.stream, *axes.k]
        self.windows = Windows(
            v,
            axes.walk("act", over).then(self.rows, 1),
            axes.walk("dy", over),
            axes.walk("dx", over),
            self._rows_used(),
        )
        self.acc = axes.walk("acc", [*axes.stream, *axes.n])
        target = self.acc.grid().reshape(-1)
        room = self.vectors * self.k <= LARGEST
        self.regular = room and apart(target, np.ones(target.size, np.int64))
        self.acc_region = region(self.acc, 1)

    def _rows_used(self) -> Ints | int:
        """[loops of k], or one for all: rows that some column of a fold uses."""
        if self._used is None:
            return self.rows
        shape = (*self._axes.counts(self._axes.k), self.rows, -1)
        found: Ints = self._used.reshape(shape).any(axis=-1).sum(axis=-1)
        return found

    @cached_property
    def wgt_region(self) -> Region:
        """The bytes of the weights that are read."""
        if self._used is None and self.v["transposed"]:
            axes = self._axes
            folds = axes.walk("wgt", [*axes.k, *axes.n])
            return region(folds.then(self.columns, self.v["wgt_row"]), self.rows)
        if self._used is None:
            return region(self.wgt.first(), self.columns)
        return region_of(np.unique(self.wgt.grid()[self._used.reshape(self.wgt.shape)]))

    def _packed(self, values: NDArray[Any]) -> NDArray[Any]:
        """[k, n] of [folds, rows, columns]."""
        values = values.reshape(*self._fold_shape, self.rows, self.columns)
        return values.transpose(self._axes.order()).reshape(self.k, -1)

    def unpacked(self, right: Floats, rows: int) -> Floats:
        """[folds, `rows`, cols] of [k, n]."""
        values = right.reshape(self.wgt.shape).transpose(np.argsort(self._axes.order()))
        values = values.reshape(-1, self.rows, self.columns)
        out = np.zeros((values.shape[0], rows, self.cols), np.float32)
        out[:, : self.rows, : self.columns] = values
        return out

    # Weights ------------------------------------------------------------------------------------

    def read_weights(self, state: State, base: int) -> Floats | None:
        """`right`, of the weights from byte `base` on; None if an access may fault."""
        v, walk, base = self.v, self.wgt, signed_chip_address(base)
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

    def _left(self, state: State, place: Place) -> Floats:
        """[vectors, k]: activations as they are."""
        where = (place.act, place.y, place.x)
        left = state.lhs_cache.get((self, *where))
        if left is None:
            hull = self.windows.hull(place.act)
            left = state.lhs_cache.new((self, *where), *hull, self.vectors * self.k)
            self.windows.gather(state, *where, left.reshape(self.windows.walk.shape))
        return left.reshape(self.vectors, self.k)

    # Products -----------------------------------------------------------------------------------

    def fits(self, state: State, place: Place) -> bool:
        """No access to activations and accumulators faults."""
        if place.acc + self.acc.low < 0 or place.acc + self.acc.high >= state.acc.shape[0]:
            return False
        return self.windows.fits(state, place.act, place.y, place.x)

    def execute(self, state: State, place: Place, right: Floats, fresh: bool) -> None:
        """Multiply and accumulate."""
        left = self._left(state, place)
        row = 4 * self.cols
        shape = (*self.acc.shape, self.cols)
        strides = (*(stride * row for stride in self.acc.strides), 4)
        vectors = view(state.acc_bytes, place.acc * row, shape, strides, np.int32)
        total = vectors[..., : self.columns]
        largest_left = self.windows.largest(place.y, place.x)
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
            total -= offset.reshape(self.wgt.shape[-1 - len(self._axes.n) :])

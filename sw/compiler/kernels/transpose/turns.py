"""The products that transpose a tile, and how its elements lie on chip before, between and after.

A turn reads `columns` runs of `rows` elements and writes `rows` runs of `columns` elements. One
turn is enough where source and target are contiguous in different dimensions. Otherwise a third
dimension is made contiguous first, and a second turn then finds every element at an address of its
own: any order of short runs takes two turns.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from sw.compiler.kernels.transpose.layer import Axis

Sizes = tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """Which axes the turns turn: numbers of axes, those innermost in the source first.

    rows: they lie in one piece on chip, and with one turn in the source. over: the axis that is
    contiguous after the first turn. columns: with `twice`, those that are contiguous after the
    second, innermost first. item: bytes of what is turned. from_chip, to_chip: the tensor itself
    lies on chip, and no copy of a tile.
    """

    axes: tuple[Axis, ...]
    rows: tuple[int, ...]
    over: int
    columns: tuple[int, ...] = ()
    item: int = 1
    from_chip: bool = False
    to_chip: bool = False

    @property
    def twice(self) -> bool:
        return bool(self.columns)

    def is_possible(self) -> bool:
        """Whether what is read and written in one piece is one, where the tensor lies on chip."""
        rows = [(self.axes[i].size, self.axes[i].source) for i in self.rows]
        runs = [(self.axes[i].size, self.axes[i].target) for i in self.columns or (self.over,)]
        return not (self.from_chip and not _nest(rows, self.item)) and not (
            self.to_chip and not _nest(runs, self.item)
        )

    def strides(self, sizes: Sizes, *, source: bool) -> list[int]:
        """Bytes between the elements of a tile: in the tensor where that lies on chip, else of a
        copy that lies dense, in that order.

        What is turned twice has its rows in one piece first, wherever they lie in the source.
        """
        if self.from_chip if source else self.to_chip:
            return [_stride(axis, source) for axis in self.axes]
        order = sorted(range(len(sizes)), key=lambda i: _stride(self.axes[i], source))
        if source and self.twice:
            order = [*self.rows, *(i for i in order if i not in self.rows)]
        return _dense(order, sizes, self.item)

    def between(self, sizes: Sizes, pitch: int) -> list[int]:
        """The same between two turns: rows of `pitch` bytes along `over`, in the target's order."""
        order = sorted(self.rows, key=lambda i: self.axes[i].target)
        return _dense(order, sizes, pitch)


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """A product: `columns` runs of `rows` elements, `column_step` bytes apart, for all `others`.

    others: (count, bytes) of loops around. results: (count, elements of the sums, bytes of the
    results) of the loops that write runs of `columns`; sums lie in the order others, columns, rows.
    """

    rows: int
    columns: int
    column_step: int
    item: int
    others: tuple[tuple[int, int], ...]
    results: tuple[tuple[int, int, int], ...]

    def blocks(self, cols: int) -> int:
        """Column blocks."""
        return -(-self.columns // cols)

    @property
    def repeats(self) -> int:
        return math.prod(count for count, _ in self.others)

    def vectors(self, cols: int) -> int:
        """Vectors of sums."""
        return self.repeats * self.blocks(cols) * self.rows


def pitch_of(form: Form, sizes: Sizes, word: int) -> int:
    """Bytes between the runs that lie between two turns."""
    return -(-sizes[form.over] // word) * word


def turns(form: Form, sizes: Sizes, cols: int, word: int) -> tuple[Turn, ...]:
    """The turns of a tile."""
    source, target = (form.strides(sizes, source=s) for s in (True, False))
    if not form.twice:
        others = [i for i in range(len(sizes)) if i not in form.rows and i != form.over]
        return (_turn(form, sizes, cols, form.rows, [form.over], others, source, target),)
    pitch = pitch_of(form, sizes, word)
    rows = form.between(sizes, pitch)
    first = _turn(form, sizes, cols, form.rows, [form.over], [], source, rows)
    left = sorted(
        (i for i in form.rows if i not in form.columns), key=lambda i: -form.axes[i].target
    )
    second = _turn(form, sizes, cols, (form.over,), form.columns, left, rows, target)
    return first, second


def _turn(
    form: Form,
    sizes: Sizes,
    cols: int,
    rows: Sequence[int],
    columns: Sequence[int],
    others: Sequence[int],
    source: Sequence[int],
    target: Sequence[int],
) -> Turn:
    """One turn from a place with strides `source` to one with `target`."""
    height, width = (math.prod(sizes[i] for i in group) for group in (rows, columns))
    results, step = [], 1
    for i in rows:
        results.append((sizes[i], step, target[i]))
        step *= sizes[i]
    step *= -(-width // cols)
    for i in reversed(others):
        results.append((sizes[i], step, target[i]))
        step *= sizes[i]
    return Turn(
        rows=height,
        columns=width,
        column_step=source[columns[0]],
        item=form.item,
        others=tuple((sizes[i], source[i]) for i in others if sizes[i] > 1),
        results=tuple(r for r in reversed(results) if r[0] > 1),
    )


def _nest(axes: Sequence[tuple[int, int]], item: int) -> bool:
    """Whether axes of (size, stride) lie in one another without gaps, the first innermost."""
    step = item
    for size, stride in axes:
        if stride != step:
            return False
        step *= size
    return True


def _stride(axis: Axis, source: bool) -> int:
    return axis.source if source else axis.target


def _dense(order: Sequence[int], sizes: Sizes, step: int) -> list[int]:
    """Strides by axis where the axes of `order` lie in one another, the first innermost."""
    out = [0] * len(sizes)
    for i in order:
        out[i] = step
        step *= sizes[i]
    return out

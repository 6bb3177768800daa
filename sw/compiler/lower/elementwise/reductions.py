"""Lowering of reductions.

An axis that is longer than a tile is reduced in pieces, whose results are reduced again. Along the
innermost dimension the lanes are combined too; there what is left of whole vectors is a second
source, because an instruction's last block of lanes cannot be shorter within a reduction.
"""

import math
from dataclasses import dataclass, replace

from spec.isa import Alu, Reduce
from sw.compiler.kernels.fused.builder import FusedBuilder, Target, Value
from sw.compiler.kernels.views import DTYPE, ITEM, Placed, dense, row_major, to_nhwc
from sw.compiler.lower.context import Context
from sw.compiler.lower.elementwise.operators import finish_last_step
from sw.compiler.lower.elementwise.steps import REDUCTIONS
from sw.compiler.tosa.graph import Op

Combine = tuple[Reduce, Alu]
"""How an axis is reduced, and how the results of two parts of it are combined."""

_SHARE = 16
"""An axis is cut where it would take more than this part of the scratchpad."""


@dataclass(frozen=True, slots=True)
class AxisPart:
    """Elements of an axis from `start` on, as dimension `axis` of `placed`."""

    placed: Placed
    axis: int
    start: int


@dataclass(frozen=True, slots=True)
class ReducedAxis:
    """A tensor in memory, and its dimension `axis` that is reduced."""

    placed: Placed
    axis: int
    dtype: str

    @property
    def size(self) -> int:
        return self.placed.shape[self.axis]

    @property
    def is_innermost(self) -> bool:
        """Whether its elements follow each other in a row."""
        return math.prod(self.placed.shape[self.axis + 1 :]) == 1

    def shape(self, *sizes: int) -> tuple[int, ...]:
        """The tensor's shape with `sizes` in place of the axis."""
        return (*self.placed.shape[: self.axis], *sizes, *self.placed.shape[self.axis + 1 :])

    def strides(self, *strides: int) -> tuple[int, ...]:
        """The tensor's strides with others in place of the axis's."""
        before, after = self.placed.strides[: self.axis], self.placed.strides[self.axis + 1 :]
        return (*before, *strides, *after)

    def moved(self, root: str, size: int) -> "ReducedAxis":
        """A dense tensor `root` with `size` elements along the axis."""
        shape = self.shape(size)
        strides = row_major(shape, self.placed.item)
        placed = replace(self.placed, root=root, shape=shape, strides=strides, offset=0)
        return replace(self, placed=placed)

    def longest(self, ctx: Context, item: int) -> int:
        """The longest axis that a tile holds, of elements of `item` bytes."""
        inner = min(math.prod(self.placed.shape[self.axis + 1 :]), ctx.config.cols)
        most = ctx.config.spad_bytes // _SHARE // (item * inner)
        if inner == 1:
            most -= most % ctx.config.cols
        return max(most, ctx.config.cols)

    def parts(self, cols: int) -> list[AxisPart]:
        """Whole vectors, and the rest; with one more dimension, so that each has its own axis."""
        whole = self.size - self.size % cols
        if not self.is_innermost or not 0 < whole < self.size:
            return [AxisPart(self._part(0, self.size, 1), self.axis, 0)]
        rest = self._part(whole, 1, self.size - whole)
        return [
            AxisPart(self._part(0, whole, 1), self.axis, 0),
            AxisPart(rest, self.axis + 1, whole),
        ]

    def _part(self, start: int, first: int, second: int) -> Placed:
        """Elements from `start` on; the axis becomes two dimensions, one of them of size 1."""
        stride = self.placed.strides[self.axis]
        return replace(
            self.placed,
            shape=self.shape(first, second),
            strides=self.strides(stride, stride),
            offset=self.placed.offset + start * stride,
        )


def reduction(ctx: Context, op: Op) -> None:
    """REDUCE_SUM, MAX, MIN, ALL or ANY."""
    name, out = op.inputs[0], op.outputs[0]
    how = REDUCTIONS[op.kind]
    axis = ReducedAxis(ctx.storage.get(name), op.attributes["axis"], ctx.dtype(name))
    axis = shorten(ctx, op, axis, how, f"{out}.part")
    names, builder = [op.kind], FusedBuilder()
    add_reduction(ctx, builder, axis, how)
    out = finish_last_step(ctx, builder, out, names)
    append_reduced(ctx, builder, op, out, names, axis)


def add_reduction(ctx: Context, builder: FusedBuilder, axis: ReducedAxis, how: Combine) -> Value:
    """The steps that reduce an axis that a tile holds."""
    parts = axis.parts(ctx.config.cols)
    values = [builder.source(part.placed, axis.dtype) for part in parts]
    return combine(builder, values, parts, how, axis.dtype)


def combine(
    builder: FusedBuilder, values: list[Value], parts: list[AxisPart], how: Combine, dtype: str
) -> Value:
    """The steps that reduce every part, and bring two together."""
    reduce, alu = how
    kind = DTYPE[dtype]
    done = [
        builder.step(value, None, kind, reduce=reduce, axis=part.axis)
        for value, part in zip(values, parts, strict=True)
    ]
    return done[0] if len(done) == 1 else builder.step(done[0], done[1], kind, alu=alu)


def append_reduced(
    ctx: Context, builder: FusedBuilder, op: Op, out: str, names: list[str], axis: ReducedAxis
) -> None:
    """The layer that writes tensor `out`: the reduced one without its axis, or with 1 there."""
    tensor = ctx.graph.tensors[out]
    strides = row_major(axis.shape(1, 1), ITEM[tensor.dtype])
    view = dense(ctx.storage.add(out), tensor.dtype, to_nhwc(tensor.shape))
    layer = builder.layer(
        Target(view, 0, strides), name=op.name, ops=tuple(names), source=op.source
    )
    ctx.layers.append(layer)


def append_temporary(
    ctx: Context,
    builder: FusedBuilder,
    op: Op,
    placed: Placed,
    dtype: str,
    strides: tuple[int, ...],
    name: str,
    offset: int = 0,
) -> None:
    """A layer that writes a temporary, in the builder's rank `strides` apart from `offset` on."""
    view = dense(placed.root, dtype, (1, 1, 1, math.prod(placed.shape)))
    layer = builder.layer(
        Target(view, offset, strides), name=f"{op.name}.{name}", ops=(op.kind,), source=op.source
    )
    ctx.layers.append(layer)


# Long axes ------------------------------------------------------------------------------------


def shorten(ctx: Context, op: Op, axis: ReducedAxis, how: Combine, root: str) -> ReducedAxis:
    """The axis, or a shorter one of the results of its pieces: one that a tile holds."""
    longest = axis.longest(ctx, axis.placed.item)
    count = 0
    while axis.size > longest:
        pieces, rest = divmod(axis.size, longest)
        shape = axis.shape(pieces + bool(rest))
        name = ctx.storage.add_temp(f"{root}{count}", math.prod(shape) * axis.placed.item)
        target = axis.moved(name, pieces + bool(rest))
        _reduce_pieces(ctx, op, axis, target, how, longest, pieces, 0)
        if rest:
            _reduce_pieces(ctx, op, axis, target, how, rest, 1, pieces)
        axis, count = target, count + 1
    return axis


def _reduce_pieces(
    ctx: Context,
    op: Op,
    axis: ReducedAxis,
    target: ReducedAxis,
    how: Combine,
    length: int,
    pieces: int,
    done: int,
) -> None:
    """Reduce `pieces` pieces of `length`, after `done` pieces of the longest length."""
    stride = axis.placed.strides[axis.axis]
    start = axis.size - length if done else 0
    source = replace(
        axis.placed,
        shape=axis.shape(pieces, length),
        strides=axis.strides(length * stride, stride),
        offset=axis.placed.offset + start * stride,
    )
    builder = FusedBuilder()
    add_reduction(ctx, builder, ReducedAxis(source, axis.axis + 1, axis.dtype), how)
    # The builder's rank: the pieces, and the two dimensions of the parts, which are 1 now.
    step = target.placed.strides[target.axis]
    strides = target.strides(step, step, step)
    append_temporary(
        ctx, builder, op, target.placed, axis.dtype, strides, "part", offset=done * step
    )

"""RESIZE BILINEAR of few channels as convolutions: pixels side by side fill the array.

Outputs that lie next to each other are channels of one product. Its window is the input pixels
under them. Each phase of the rows is a layer. The edge of the input is repeated beforehand, by a
gather.
"""

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from spec.config import NpuConfig
from spec.isa import DType
from sw.compiler.errors import CompileError
from sw.compiler.kernels.budget import MemoryBudget
from sw.compiler.kernels.conv.plan import plan_conv
from sw.compiler.kernels.layers import ConvLayer, Epilogue
from sw.compiler.kernels.resize.axis import ResizeAxis
from sw.compiler.kernels.resize.tiles import MOST_WEIGHT
from sw.compiler.kernels.views import ITEM, View, dense
from sw.compiler.lower.context import Context
from sw.compiler.lower.fusion.epilogues import plain
from sw.compiler.lower.gathers import flat, gathered
from sw.compiler.tosa.graph import Op

MOST_BLOCKS = 16
"""Column blocks of a product that are looked at."""

MOST_FOLDS = 4
"""Folds along a kernel row that are looked at."""

EDGE_CYCLES = 500
"""Cycles of a gather besides its rows, and about two for each row."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResizeProducts:
    """How a RESIZE is computed: `group` times the phases of its columns in a product.

    `cycles`: estimated.
    """

    axes: tuple[ResizeAxis, ResizeAxis]
    group: int
    cycles: int


def find_products(
    ctx: Context, op: Op, axes: tuple[ResizeAxis, ResizeAxis]
) -> ResizeProducts | None:
    """The fastest group; None where a RESIZE can be no such products."""
    n, _, _, c = ctx.shape(op.inputs[0])
    config, (rows, cols) = ctx.config, axes
    if not config.indexed_dma or not ctx.fold or 2 * c > config.cols:
        return None
    if rows.most * cols.most > MOST_WEIGHT:
        return None
    high, across = ((b - a) for a, b in (axis.reach(0, axis.out) for axis in axes))
    edges = EDGE_CYCLES + 2 * n * high * across
    best: ResizeProducts | None = None
    for group in _groups(cols, c, config.rows, config.cols):
        shape = (n, high, across, c)
        layers = _layers(op, axes, group, dense("in", "int8", shape), _output(op, axes, n, c))
        try:
            cycles = edges + _cycles(layers, config)
        except CompileError:
            continue
        if best is None or cycles < best.cycles:
            best = ResizeProducts(axes=axes, group=group, cycles=cycles)
    return best


def _cycles(layers: Sequence[ConvLayer], config: NpuConfig) -> int:
    """Estimated cycles of layers of which most are alike; `CompileError` if one fits nowhere."""
    known: dict[Hashable, int] = {}
    total = 0
    for layer in layers:
        key = layer.kernel, layer.input.shape, layer.output.shape
        if key not in known:
            known[key] = plan_conv(layer, config, MemoryBudget.whole(config)).cycles
        total += known[key]
    return total


def _groups(cols: ResizeAxis, channels: int, depth: int, width: int) -> Iterator[int]:
    """Groups of phases that cover a row of outputs exactly, with products of moderate size."""
    if cols.out % cols.phases:
        return
    count = cols.out // cols.phases
    for group in range(1, count + 1):
        start, stop = cols.reach(0, group * cols.phases)
        fits = group * cols.phases * channels <= MOST_BLOCKS * width
        if count % group == 0 and fits and (stop - start) * channels <= MOST_FOLDS * depth:
            yield group


def add_products(
    ctx: Context, op: Op, found: ResizeProducts, output: View, epilogue: Epilogue, ops: list[str]
) -> None:
    """Add the gather and the convolutions."""
    rows, cols = found.axes
    n, h, w, c = ctx.shape(op.inputs[0])
    at = [np.arange(*axis.reach(0, axis.out)).clip(0, axis.size - 1) for axis in (rows, cols)]
    which = ((at[0][:, None] * w + at[1][None, :]) * c).reshape(1, -1)
    every = np.broadcast_to(which, (n, which.size))
    offsets = ctx.graph.add_constant(f"{op.outputs[0]}.offsets", every, "int32")
    root = ctx.storage.add_temp(f"{op.outputs[0]}.edges", n * which.size * c)
    values = flat(ctx, op.inputs[0])
    gathered(ctx, op, values, flat(ctx, offsets), root, n, h * w * c, c, which.size)
    padded = dense(root, "int8", (n, at[0].size, at[1].size, c))
    for layer in _layers(op, found.axes, found.group, padded, output):
        ctx.layers.append(replace(layer, epilogue=epilogue, ops=tuple(ops)))


def _output(op: Op, axes: tuple[ResizeAxis, ResizeAxis], n: int, c: int) -> View:
    """A result to estimate with: most are int8."""
    return dense(op.outputs[0], "int8", (n, axes[0].out, axes[1].out, c))


def _layers(
    op: Op, axes: tuple[ResizeAxis, ResizeAxis], group: int, padded: View, output: View
) -> list[ConvLayer]:
    """A convolution over `padded` for each phase of the rows."""
    rows, cols = axes
    n, _, across, c = padded.shape
    image, line, _ = output.strides
    _, in_line, _ = padded.strides
    first = rows.reach(0, rows.out)[0]
    wide = group * cols.phases
    across_weights = _columns(cols, wide)
    zero_point = 0 if rows.most * cols.most <= 127 else -128
    made = []
    for y, count in rows.outputs(0, rows.out):
        down = np.array(rows.weights(y))
        kernel = np.einsum("t,oj,cd->octjd", down, across_weights, np.eye(c, dtype=np.int64))
        weights = kernel.reshape(wide * c, down.size, across_weights.shape[1], c) + zero_point
        source = replace(
            padded,
            shape=(n, (count - 1) * rows.stride + down.size, across, c),
            offset=padded.offset + (rows.low(y) - first) * in_line,
        )
        target = replace(
            output,
            shape=(n, count, cols.out // wide, wide * c),
            strides=(image, rows.phases * line, wide * c * ITEM[output.dtype]),
            offset=output.offset + y * line,
        )
        made.append(
            ConvLayer(
                name=f"{op.name}.y{y}",
                output=target,
                source=op.source,
                input=source,
                epilogue=plain(DType.I8),
                kernel=(down.size, across_weights.shape[1]),
                stride=(rows.stride, group * cols.stride),
                weight_zp=zero_point,
                weights=weights.astype(np.int8),
            )
        )
    return made


def _columns(cols: ResizeAxis, wide: int) -> NDArray[np.int64]:
    """[outputs, inputs]: the weights of the first `wide` outputs of a row."""
    start, stop = cols.reach(0, wide)
    found = np.zeros((wide, stop - start), np.int64)
    for at in range(wide):
        for i, weight in enumerate(cols.weights(at)):
            found[at, cols.low(at) - start + i] = weight
    return found

"""Lowering of TRANSPOSE_CONV2D: a convolution for each phase of the stride, or one for all.

With stride s, output u = q·s + r is the sum over j of input q − j times kernel row r + j·s. So the
outputs of phase r are a convolution with stride 1 over the kernel rows r, r + s, …, which writes
every s-th row. Where a phase has few channels, all phases of a pixel are channels of one
convolution with ceil(kernel / s) rows, and its results are then put side by side.
Nothing is multiplied by inserted zeros.
"""

import itertools
import math
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sw.compiler.kernels.layers import ConvLayer, Epilogue
from sw.compiler.kernels.views import ITEM, Placed, View, dense
from sw.compiler.kernels.windows import crop
from sw.compiler.lower.context import Context
from sw.compiler.lower.copies import CopyAxis, add_copy, add_fill
from sw.compiler.lower.products.fused import FusedProduct, fuse_convolution
from sw.compiler.lower.products.runtime_weights import pack_bias
from sw.compiler.tosa.graph import Op


class Run(NamedTuple):
    """A regular stretch: `blocks` blocks from `block` on, of each `phases` phases from `phase` on.

    Output u = block · stride + phase; kernel rows are counted likewise.
    """

    block: int
    blocks: int
    phase: int
    phases: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Phases:
    """One axis: kernel rows, stride, output size, and outputs before the first full one."""

    kernel: int
    stride: int
    out: int
    before: int

    @property
    def taps(self) -> int:
        """Kernel rows of a phase."""
        return -(-self.kernel // self.stride)

    @property
    def first(self) -> int:
        """q of the first output."""
        return -self.before // self.stride

    @property
    def skipped(self) -> int:
        """Phases of the first q that are no outputs."""
        return -self.before - self.first * self.stride

    @property
    def blocks(self) -> int:
        """How many q there are."""
        return -(-(self.skipped + self.out) // self.stride)

    @property
    def pad(self) -> int:
        return self.taps - 1 - self.first

    def runs(self) -> list[Run]:
        """The outputs as stretches that are regular: a part of the first block, whole blocks, …"""
        found, at, stop = [], self.skipped, self.skipped + self.out
        while at < stop:
            block, phase = divmod(at, self.stride)
            if phase == 0 and stop - at >= self.stride:
                count = (stop - at) // self.stride
                found.append(Run(block, count, 0, self.stride))
                at += count * self.stride
            else:
                length = min(self.stride - phase, stop - at)
                found.append(Run(block, 1, phase, length))
                at += length
        return found

    def phase(self, phase: int) -> "Phase":
        """The outputs of a phase as a convolution of their own."""
        first = -((self.before + phase) // self.stride)
        start = first * self.stride + phase + self.before
        count = max(0, -(-(self.out - start) // self.stride))
        rows = range(phase, self.kernel, self.stride)
        return Phase(rows=rows, first=first, start=start, count=count)

    def sources(self) -> list[Run]:
        """The kernel rows that exist, whose blocks are j."""
        whole, rest = divmod(self.kernel, self.stride)
        runs = [Run(0, whole, 0, self.stride), Run(whole, 1, 0, rest)]
        return [run for run in runs if run.blocks and run.phases]


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """Kernel `rows` of a phase; q of its `first` output, which is output `start`; their count."""

    rows: range
    first: int
    start: int
    count: int

    @property
    def pad(self) -> int:
        """Rows of padding before the first window, or, below 0, that it leaves out."""
        return len(self.rows) - 1 - self.first


def transpose_conv2d(ctx: Context, op: Op) -> None:
    """A ConvLayer for each phase, or one and the MoveLayers that interleave its results."""
    oc, kh, kw, _ = ctx.shape(op.inputs[1])
    top, _, left, _ = op.attributes["out_pad"]
    sy, sx = op.attributes["stride"]
    fused = fuse_convolution(ctx, op)
    target = fused.output
    axes = (
        Phases(kernel=kh, stride=sy, out=target.shape[1], before=top),
        Phases(kernel=kw, stride=sx, out=target.shape[2], before=left),
    )
    view = ctx.image(op.inputs[0])
    shape = (view.shape[0], axes[0].blocks, axes[1].blocks, sy * sx * oc)
    zero_point, weight = ctx.integer(op.inputs[4]), op.inputs[1]
    later = ctx.is_runtime(weight)
    if not later and not ctx.is_runtime(op.inputs[2]) and _is_apart(ctx, target, view, axes):
        _apart(ctx, op, fused, view, axes)
        return
    phases = target
    if sy * sx > 1 or shape[:3] != target.shape[:3]:
        root = ctx.storage.add_temp(
            f"{op.outputs[0]}.phases", math.prod(shape) * ITEM[target.dtype]
        )
        phases = dense(root, target.dtype, shape)
    made = _phase_weights(ctx, op, weight, axes, zero_point) if later else None
    ctx.layers.append(
        ConvLayer(
            name=op.name,
            output=phases,
            ops=fused.ops,
            source=op.source,
            input=view,
            epilogue=_repeated_epilogue(ctx, op, fused.epilogue, sy * sx, oc),
            kernel=(axes[0].taps, axes[1].taps),
            pad=(axes[0].pad, axes[1].pad),
            input_zp=ctx.integer(op.inputs[3]),
            weight_zp=zero_point,
            weights=None if later else _arranged(ctx.graph.constant(weight), axes, zero_point),
            weight_view=made,
        )
    )
    if phases is not target:
        _interleave(ctx, op, phases, target, axes)


def _is_apart(ctx: Context, target: View, view: View, axes: tuple[Phases, Phases]) -> bool:
    """Whether convolutions of the phases take fewer cycles than one and its copies."""
    (n, h, w, oc), ic, config = target.shape, view.shape[3], ctx.config
    strides = (axes[0].stride, axes[1].stride)
    pairs = _pairs(axes)
    reads = all(
        y.rows and x.rows and -y.pad < view.shape[1] and -x.pad < view.shape[2] for y, x in pairs
    )
    if len(pairs) == 1 or not reads:
        return False

    def folds(taps: int, channels: int) -> int:
        return taps * -(-ic // config.rows) * -(-channels // config.cols)

    def words(channels: int) -> int:
        # A run takes a word more where it does not begin with one.
        return -(-(channels * target.item + config.bus_bytes - 1) // config.bus_bytes)

    apart = n * sum(y.count * x.count * folds(len(y.rows) * len(x.rows), oc) for y, x in pairs)
    pixels, taps = axes[0].blocks * axes[1].blocks, axes[0].taps * axes[1].taps
    joint = n * pixels * folds(taps, math.prod(strides) * oc)
    # A copy has runs of as many pixels as there are phases; a store of one phase, of one pixel.
    stores = n * h * w * words(oc)
    return max(apart, stores) < joint + n * h * w // strides[1] * words(strides[1] * oc)


def _pairs(axes: tuple[Phases, Phases]) -> list[tuple[Phase, Phase]]:
    """The phases that have outputs."""
    found = ([a.phase(i) for i in range(a.stride)] for a in axes)
    return [(y, x) for y, x in itertools.product(*found) if y.count and x.count]


def _apart(
    ctx: Context, op: Op, fused: FusedProduct, view: View, axes: tuple[Phases, Phases]
) -> None:
    """A ConvLayer for each phase, which writes its pixels where they are outputs."""
    weights, target = ctx.graph.constant(op.inputs[1]), fused.output
    image, line, pixel = target.strides
    for i, (y, x) in enumerate(_pairs(axes)):
        output = replace(
            target,
            shape=(target.shape[0], y.count, x.count, target.shape[3]),
            strides=(image, axes[0].stride * line, axes[1].stride * pixel),
            offset=target.offset + y.start * line + x.start * pixel,
        )
        kernel = weights[:, y.rows.start :: axes[0].stride, x.rows.start :: axes[1].stride]
        skipped = max(0, -y.pad), max(0, -x.pad)
        ctx.layers.append(
            ConvLayer(
                name=f"{op.name}.{i}",
                output=output,
                ops=fused.ops,
                source=op.source,
                input=crop(view, (skipped[0], view.shape[1]), (skipped[1], view.shape[2])),
                epilogue=fused.epilogue,
                kernel=(len(y.rows), len(x.rows)),
                pad=(max(0, y.pad), max(0, x.pad)),
                input_zp=ctx.integer(op.inputs[3]),
                weight_zp=ctx.integer(op.inputs[4]),
                weights=np.ascontiguousarray(kernel[:, ::-1, ::-1]),
            )
        )


def _interleave(
    ctx: Context, op: Op, phases: View, target: View, axes: tuple[Phases, Phases]
) -> None:
    """Copy the phases of every pixel to where they are outputs."""
    n, _, _, oc = target.shape
    item = target.item
    (image, line, pixel), (to_image, to_line, to_pixel) = phases.strides, target.strides
    sx = axes[1].stride
    for y, x in itertools.product(axes[0].runs(), axes[1].runs()):
        row = y.block * axes[0].stride + y.phase - axes[0].skipped
        col = x.block * sx + x.phase - axes[1].skipped
        start = y.block * line + x.block * pixel + (y.phase * sx + x.phase) * oc * item
        dims = [
            CopyAxis(n, image, to_image),
            CopyAxis(y.blocks, line, axes[0].stride * to_line),
            CopyAxis(y.phases, sx * oc * item, to_line),
            CopyAxis(x.blocks, pixel, sx * to_pixel),
            CopyAxis(x.phases, oc * item, to_pixel),
            CopyAxis(oc, item, item),
        ]
        source, to = (phases.tensor, phases.offset + start), row * to_line + col * to_pixel
        add_copy(ctx, op, source, target, dims, f"{op.name}.phases", to=to)


def _phase_weights(
    ctx: Context, op: Op, name: str, axes: tuple[Phases, Phases], zero_point: int
) -> View:
    """[OC,KH,KW,IC] weights in memory as [1, IC, taps, phases · OC]; the zero point is none."""
    placed = ctx.storage.get(name)
    oc, _, _, ic = placed.shape
    (ty, sy), (tx, sx) = ((a.taps, a.stride) for a in axes)
    wide = sy * sx * oc
    root = ctx.storage.add_temp(f"{op.outputs[0]}.weights", ic * ty * tx * wide)
    view = replace(dense(root, "int8", (1, ic, ty * tx, wide)), strides=(0, ty * tx * wide, wide))
    add_fill(ctx, op, placed.root, dense(root, "int8", (1, 1, 1, ic * ty * tx * wide)), zero_point)
    from_oc, from_row, from_col, from_ic = placed.strides
    for y, x in itertools.product(axes[0].sources(), axes[1].sources()):
        start = y.block * sy * from_row + x.block * sx * from_col
        last = ((ty - 1 - y.block) * tx + tx - 1 - x.block) * wide
        dims = [
            CopyAxis(ic, from_ic, ty * tx * wide),
            CopyAxis(y.blocks, sy * from_row, -tx * wide),
            CopyAxis(y.phases, from_row, sx * oc),
            CopyAxis(x.blocks, sx * from_col, -wide),
            CopyAxis(x.phases, from_col, oc),
            CopyAxis(oc, from_oc, 1),
        ]
        source = (placed.root, placed.offset + start)
        add_copy(ctx, op, source, view, dims, f"{op.name}.phases", to=last)
    return view


def _repeated(epilogue: Epilogue, times: int) -> Epilogue:
    """All passes of an epilogue with their values per channel `times` times."""

    def tiled(values: NDArray[Any] | None) -> NDArray[Any] | None:
        return values if values is None or values.size == 1 else np.tile(values, times)

    return replace(
        epilogue,
        bias=tiled(epilogue.bias),
        multiplier=tiled(epilogue.multiplier),
        shift=tiled(epilogue.shift),
        first=None if epilogue.first is None else _repeated(epilogue.first, times),
    )


def _repeated_epilogue(ctx: Context, op: Op, epilogue: Epilogue, times: int, oc: int) -> Epilogue:
    """The epilogue of all phases' channels."""
    epilogue = _repeated(epilogue, times)
    bias = op.inputs[2]
    if not ctx.is_runtime(bias):
        return epilogue
    placed = ctx.storage.get(bias)
    if placed.shape[0] > 1 and times > 1:
        root = ctx.storage.add_temp(f"{op.outputs[0]}.bias", 4 * times * oc)
        view = dense(root, "int32", (1, 1, 1, times * oc))
        dims = [CopyAxis(times, 0, 4 * oc), CopyAxis(oc, placed.strides[0], 4)]
        add_copy(ctx, op, (placed.root, placed.offset), view, dims, f"{op.name}.phases")
        placed = Placed(root=root, shape=(times * oc,), strides=(4,), offset=0, item=4)
    return pack_bias(ctx, op, epilogue, placed, (0, times * oc), f"{op.outputs[0]}.0")


def _arranged(
    weights: NDArray[np.int8], axes: tuple[Phases, Phases], zero_point: int
) -> NDArray[np.int8]:
    """Constant [OC,KH,KW,IC] weights as [phases · OC, taps, taps, IC], turned around."""
    oc, kh, kw, ic = weights.shape
    (ty, sy), (tx, sx) = ((a.taps, a.stride) for a in axes)
    full = np.full((oc, ty * sy, tx * sx, ic), zero_point, np.int8)
    full[:, :kh, :kw] = weights
    parts = full.reshape(oc, ty, sy, tx, sx, ic)[:, ::-1, :, ::-1]
    return np.ascontiguousarray(parts.transpose(2, 4, 0, 1, 3, 5)).reshape(-1, ty, tx, ic)

"""Lowering of CONV3D: a rearranged input, and a CONV2D over it."""

import math
from dataclasses import replace
from typing import Any

from numpy.typing import NDArray

from sw.compiler.kernels.views import View, dense, row_major
from sw.compiler.lower.context import Context
from sw.compiler.lower.copies import add_copy, copy_axes
from sw.compiler.lower.products.convolutions import convolution
from sw.compiler.tosa.graph import Op


def conv3d(ctx: Context, op: Op) -> None:
    """CONV3D: the kernel's planes lie next to each other as channels."""
    oc, kd, kh, kw, c = ctx.shape(op.inputs[1])
    stride, dilation, pad = (op.attributes[k] for k in ("stride", "dilation", "pad"))
    view = _planes(ctx, op, kd, stride[0], dilation[0], pad[0])

    def planes(weights: NDArray[Any]) -> NDArray[Any]:
        return weights.transpose(0, 2, 3, 1, 4).reshape(oc, kh, kw, kd * c)

    convolution(
        ctx,
        op,
        view,
        (kh, kw),
        arranged=planes,
        perms=(1, 4, 2, 3, 0),
        stride=(stride[1], stride[2]),
        dilation=(dilation[1], dilation[2]),
        pad=(pad[2], pad[4]),
    )


def _planes(ctx: Context, op: Op, kd: int, stride: int, dilation: int, before: int) -> View:
    """[N·OD, H, W, KD·C]: for every output plane the input planes under its kernel."""
    placed = ctx.storage.get(op.inputs[0])
    n, d, h, w, c = placed.shape
    od = ctx.shape(op.outputs[0])[1]
    reach = (od - 1) * stride + (kd - 1) * dilation + 1
    if kd == 1 and stride == 1 and reach == d and not before and placed.is_dense:
        return ctx.view(op.inputs[0], (n * d, h, w, c))
    label, zero_point = f"{op.name}.input", ctx.integer(op.inputs[3])
    root, offset, steps = placed.root, placed.offset, placed.strides
    if before or reach > d:
        shape = (n, reach, h, w, c)
        inside = max(0, min(d, reach - before))
        root = ctx.storage.add_temp(f"{op.outputs[0]}.padded", math.prod(shape))
        target = row_major(shape, 1)
        dims = copy_axes(shape, steps, target)
        dims[1] = replace(dims[1], source_size=inside, before=before)
        output = dense(root, "int8", (1, 1, 1, math.prod(shape)))
        add_copy(ctx, op, (placed.root, offset), output, dims, label, kind="PAD", value=zero_point)
        offset, steps = 0, target
    result = (n * od, h, w, kd * c)
    made = ctx.storage.add_temp(f"{op.outputs[0]}.planes", math.prod(result))
    view = dense(made, "int8", result)
    image = od * view.strides[0]
    counts = (n, od, h, w, kd, c)
    source = (steps[0], stride * steps[1], steps[2], steps[3], dilation * steps[1], steps[4])
    target = (image, *view.strides, c, 1)
    dims = copy_axes(counts, source, target)
    add_copy(ctx, op, (root, offset), view, dims, label, kind="PAD", value=zero_point)
    return view

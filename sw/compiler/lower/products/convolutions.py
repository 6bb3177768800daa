"""Lowering of products: CONV2D, DEPTHWISE_CONV2D and MATMUL with all that follows them."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sw.compiler.kernels.depthwise.geometry import MAX_STEP
from sw.compiler.kernels.layers import ConvLayer, DepthwiseLayer
from sw.compiler.kernels.views import View, view_of
from sw.compiler.lower.context import Context
from sw.compiler.lower.moves import in_place
from sw.compiler.lower.products.fused import (
    FusedProduct,
    fuse_convolution,
    fuse_product,
    with_runtime_bias,
)
from sw.compiler.lower.products.runtime_weights import (
    conv_weights,
    diagonal_weights,
    repeat_channels,
)
from sw.compiler.tosa.graph import Op


def conv2d(ctx: Context, op: Op) -> None:
    """CONV2D, or as a product of pixels where the kernel is 1 x 1."""
    view, stride = ctx.image(op.inputs[0]), op.attributes["stride"]
    _, kh, kw, _ = ctx.shape(op.inputs[1])
    if (kh, kw) == (1, 1) and op.attributes["pad"] == (0, 0, 0, 0):
        # Skipped pixels are skipped by strides: then every output reads the pixel in its place.
        out = ctx.shape(op.outputs[0])
        view, stride = _subsample(view, (out[1], out[2]), stride), (1, 1)
    top, _, left, _ = op.attributes["pad"]
    convolution(
        ctx,
        op,
        view,
        (kh, kw),
        stride=stride,
        dilation=op.attributes["dilation"],
        pad=(top, left),
    )


def convolution(
    ctx: Context,
    op: Op,
    view: View,
    kernel: tuple[int, int],
    *,
    arranged: Callable[[NDArray[Any]], NDArray[Any]] = lambda weights: weights,
    perms: tuple[int, ...] = (3, 1, 2, 0),
    **values: Any,
) -> None:
    """The ConvLayer of `op` over `view`.

    `arranged`: the constant weights as OHWI. Those of run time are brought into the order
    `perms`. `values`: stride, dilation and pad of the layer.
    """
    fused = fuse_convolution(ctx, op)
    weight, later = op.inputs[1], ctx.is_runtime(op.inputs[1])
    ctx.layers.append(
        ConvLayer(
            name=op.name,
            output=fused.output,
            ops=fused.ops,
            source=op.source,
            input=view,
            epilogue=with_runtime_bias(ctx, op, fused.epilogue),
            kernel=kernel,
            input_zp=ctx.integer(op.inputs[3]),
            weight_zp=ctx.integer(op.inputs[4]),
            weights=None if later else arranged(ctx.graph.constant(weight)),
            weight_view=conv_weights(ctx, op, weight, perms) if later else None,
            residual=fused.residual or fused.factor,
            **values,
        )
    )


def depthwise_conv2d(ctx: Context, op: Op) -> None:
    """DEPTHWISE_CONV2D on its engine, or as products where that cannot do it."""
    fused = fuse_convolution(ctx, op)
    stride, dilation = op.attributes["stride"], op.attributes["dilation"]
    top, _, left, _ = op.attributes["pad"]
    weight, later = op.inputs[1], ctx.is_runtime(op.inputs[1])
    kh, kw, c, multiplier = ctx.shape(weight)
    shared: dict[str, Any] = {
        "ops": fused.ops,
        "source": op.source,
        "stride": stride,
        "dilation": dilation,
        "pad": (top, left),
        "input_zp": ctx.integer(op.inputs[3]),
        "weight_zp": ctx.integer(op.inputs[4]),
    }
    view = ctx.image(op.inputs[0])
    # The engine has one result per channel: for several, products take constant weights as they
    # are, while those of run time need the channels repeated.
    engine = ctx.config.depthwise and max(*stride, *dilation) <= MAX_STEP
    if not engine or (multiplier > 1 and not later):
        _grouped(ctx, op, view, fused, shared)
        return
    if multiplier > 1:
        view = repeat_channels(ctx, op, op.inputs[0], multiplier)
    constant = None if later else ctx.graph.constant(weight)
    ctx.layers.append(
        DepthwiseLayer(
            name=op.name,
            output=fused.output,
            input=view,
            epilogue=with_runtime_bias(ctx, op, fused.epilogue),
            weights=None if constant is None else np.ascontiguousarray(constant[..., 0]),
            weight_view=ctx.view(weight, (1, kh, kw, c * multiplier)) if later else None,
            residual=fused.residual,
            **shared,
        )
    )


def _grouped(
    ctx: Context,
    op: Op,
    view: View,
    fused: FusedProduct,
    shared: dict[str, Any],
) -> None:
    """A depthwise convolution as products: blocks of channels with block-diagonal weights."""
    weight, later = op.inputs[1], ctx.is_runtime(op.inputs[1])
    kh, kw, c, multiplier = ctx.shape(weight)
    zero_point = shared["weight_zp"]
    step = max(1, min(ctx.config.rows, ctx.config.cols // multiplier))
    for c0 in range(0, c, step):
        c1 = min(c0 + step, c)
        outs = slice(c0 * multiplier, c1 * multiplier)
        constant = None if later else ctx.graph.constant(weight)[:, :, c0:c1]
        ctx.layers.append(
            ConvLayer(
                name=op.name if step >= c else f"{op.name}.c{c0}",
                output=fused.output.channels(outs),
                input=view.channels(slice(c0, c1)),
                epilogue=with_runtime_bias(
                    ctx, op, fused.epilogue.channels(outs), (outs.start, outs.stop)
                ),
                kernel=(kh, kw),
                weights=None if constant is None else _diagonal(constant, zero_point),
                weight_view=(
                    diagonal_weights(ctx, op, weight, c0, c1, zero_point) if later else None
                ),
                residual=fused.residual and fused.residual.channels(outs),
                **shared,
            )
        )


def matmul(ctx: Context, op: Op) -> None:
    """MATMUL: a convolution with 1 x 1 kernel whose weights are a tensor."""
    a, b, a_zp, b_zp = op.inputs
    for name in (a, b):
        in_place(ctx, name)
    n, h, k = ctx.shape(a)
    w = ctx.shape(b)[2]
    fused = fuse_product(ctx, op, (n, h, 1, w))
    weights = _columns(ctx, b, n, k, w)
    ctx.layers.append(
        ConvLayer(
            name=op.name,
            output=fused.output,
            ops=fused.ops,
            source=op.source,
            input=ctx.view(a, (n, h, 1, k)),
            epilogue=fused.epilogue,
            input_zp=ctx.integer(a_zp),
            weight_zp=ctx.integer(b_zp),
            weight_view=ctx.view(b, (n, k, 1, w)) if weights is None else weights,
            transposed=weights is not None,
            residual=fused.residual or fused.factor,
        )
    )


def _columns(ctx: Context, name: str, n: int, k: int, w: int) -> View | None:
    """Weights [n, k, w] as [n, w, 1, k], if only their columns can be read as they lie."""
    if not ctx.config.transposed_weights or ctx.storage.fits(name, (n, k, 1, w)):
        return None
    placed = ctx.storage.get(name)
    dtype = ctx.dtype(name)
    return view_of(placed.permuted((0, 2, 1)), dtype, (n, w, 1, k))


def _subsample(view: View, size: tuple[int, int], stride: tuple[int, int]) -> View:
    """The pixels of `view` that a 1x1 kernel with `stride` reads for `size` outputs."""
    n, _, _, c = view.shape
    oh, ow = size
    s0, s1, s2 = view.strides
    return replace(view, shape=(n, oh, ow, c), strides=(s0, s1 * stride[0], s2 * stride[1]))


def _diagonal(weights: NDArray[np.int8], zero_point: int) -> NDArray[np.int8]:
    """[KH,KW,C,M] weights as a product's; off the diagonal the zero point, which counts as zero."""
    kh, kw, c, multiplier = weights.shape
    dense = np.full((c, multiplier, kh, kw, c), zero_point, np.int8)
    own = np.arange(c)
    dense[own, :, :, :, own] = weights.transpose(2, 3, 0, 1)
    return dense.reshape(-1, kh, kw, c)

"""What the layer of a product computes besides it: bias, epilogue, a sum, a factor of each row."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spec.isa import DType
from spec.numerics import keeps_values
from sw.compiler.kernels.layers import Epilogue, Residual, RowFactor
from sw.compiler.kernels.views import Shape4, View, to_nhwc
from sw.compiler.lower.context import Context
from sw.compiler.lower.fusion.epilogues import plain
from sw.compiler.lower.fusion.sums import Sum
from sw.compiler.lower.products.runtime_weights import pack_bias
from sw.compiler.tosa.graph import Op

_WITH_FACTOR = ("MATMUL", "CONV2D", "CONV3D")
"""Products whose layer can multiply by a factor of each row."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FusedProduct:
    """The operators that a product's layer takes, where it writes, and what follows the product.

    `residual`, `factor`: at most one of them is there.
    """

    ops: tuple[str, ...]
    output: View
    epilogue: Epilogue
    residual: Residual | None = None
    factor: RowFactor | None = None


def fuse_convolution(ctx: Context, op: Op) -> FusedProduct:
    """The same as `fuse_product` of a convolution, with its bias if that is known."""
    bias, shape = op.inputs[2], ctx.shape(op.outputs[0])
    if ctx.is_runtime(bias):
        return fuse_product(ctx, op, to_nhwc(shape))
    values = np.broadcast_to(ctx.graph.constant(bias), shape[-1:]).astype(np.int32)
    return fuse_product(ctx, op, to_nhwc(shape), bias=values)


def with_runtime_bias(
    ctx: Context, op: Op, epilogue: Epilogue, outs: tuple[int, int] | None = None
) -> Epilogue:
    """The epilogue of output channels `outs` with a bias that is known at run time."""
    if not ctx.is_runtime(op.inputs[2]):
        return epilogue
    start, stop = outs or (0, ctx.shape(op.outputs[0])[-1])
    label = f"{op.outputs[0]}.{start}"
    return pack_bias(ctx, op, epilogue, ctx.storage.get(op.inputs[2]), (start, stop), label)


def fuse_product(ctx: Context, op: Op, shape: Shape4, **values: Any) -> FusedProduct:
    """A product and what follows it. `shape`: of its result; `values`: fields of the epilogue."""
    found = ctx.fusion.sum_of.get(id(op))
    if found is not None:
        return _with_sum(ctx, op, found, shape, values)
    # The parameters of a pass before the last cannot be packed at run time.
    several = op.kind == "MATMUL" or not ctx.is_runtime(op.inputs[2])
    factor = _factor(ctx, op, shape) if several and op.kind in _WITH_FACTOR else None
    if factor is not None:
        return _with_factor(ctx, op, factor, shape, values)
    names = [op.kind]
    out, epilogue = ctx.fusion.after_int32(op.outputs[0], names, several=several, **values)
    view = ctx.output_of_product(out, shape)
    return FusedProduct(ops=tuple(names), output=view, epilogue=epilogue)


def _with_sum(
    ctx: Context, op: Op, found: Sum, shape: Shape4, values: dict[str, Any]
) -> FusedProduct:
    """A product with the sum behind it, whose other operand is in memory."""
    names = [op.kind]
    _, before = ctx.fusion.after_int32(op.outputs[0], names, **values)
    operand = ctx.operand(found.other, shape)
    out, last = ctx.fusion.after_int32(ctx.fusion.absorb(found.add, names), names)
    multiplier, shift = (0, 0) if last.multiplier is None else last.tensor_scale
    if keeps_values(multiplier, shift):
        multiplier = shift = 0
    residual = Residual(
        operand=operand,
        low=before.low - before.zero_point,
        high=before.high - before.zero_point,
        shift_left=found.shift_left,
        multiplier=multiplier,
        shift=shift,
    )
    return FusedProduct(
        ops=tuple(names),
        output=ctx.output_of_product(out, shape),
        epilogue=replace(last, bias=before.bias, multiplier=before.multiplier, shift=before.shift),
        residual=residual,
    )


def _factor(ctx: Context, op: Op, shape: Shape4) -> RowFactor | None:
    """The MUL behind a product by one element a row, if that is in memory already."""
    mul = ctx.fusion.next(op.outputs[0], "MUL")
    if mul is None:
        return None
    name = ctx.fusion.other(mul, op.outputs[0])
    before, rows = (ctx.shape(n) for n in (op.outputs[0], name))
    if rows != (*before[:-1], 1) or name not in ctx.storage.placed:
        return None
    operand = ctx.operand(name, (*shape[:3], 1))
    return RowFactor(operand=operand, shift=ctx.integer(mul.inputs[2]))


def _with_factor(
    ctx: Context, op: Op, factor: RowFactor, shape: Shape4, values: dict[str, Any]
) -> FusedProduct:
    """A product times its row factor; a sum with a constant per channel is a pass of its own."""
    names = [op.kind]
    (mul,) = ctx.fusion.users[op.outputs[0]]
    out = ctx.fusion.absorb(mul, names)
    add = ctx.fusion.next(out, "ADD")
    bias = None if add is None else _per_channel(ctx, ctx.fusion.other(add, out), shape[3])
    if add is not None and bias is not None:
        values = {"bias": bias, "first": plain(DType.I32, **values)}
        out = ctx.fusion.absorb(add, names)
    out, epilogue = ctx.fusion.after_int32(out, names, several=True, **values)
    view = ctx.output_of_product(out, shape)
    return FusedProduct(ops=tuple(names), output=view, epilogue=epilogue, factor=factor)


def _per_channel(ctx: Context, name: str, channels: int) -> NDArray[np.int32] | None:
    """A constant of one element for each channel, or for all of them."""
    tensor = ctx.graph.tensors[name]
    if not tensor.is_constant or tensor.size not in (1, channels):
        return None
    if tensor.shape[-1:] not in ((1,), (channels,)):
        return None
    return np.broadcast_to(ctx.graph.constant(name).reshape(-1), (channels,)).astype(np.int32)

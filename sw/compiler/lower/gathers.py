"""Lowering of GATHER and SCATTER: rows by offsets."""

import math

import numpy as np

from spec.isa import Scale
from sw.compiler.errors import CompileError
from sw.compiler.kernels.fused.builder import FusedBuilder, Target
from sw.compiler.kernels.gather.layer import GatherLayer
from sw.compiler.kernels.views import ITEM, View, dense, row_major, to_nhwc
from sw.compiler.lower.context import Context
from sw.compiler.tosa.graph import Op

_MOST = 1 << 29
"""Bytes of a row, times four, are a multiplier."""


def gather(ctx: Context, op: Op) -> None:
    """GATHER: values [N,K,C] by indices [N,W]."""
    n, k, c = ctx.shape(op.inputs[0])
    out = op.outputs[0]
    values = flat(ctx, op.inputs[0])
    row = c * ITEM[ctx.dtype(out)]
    gathered(ctx, op, values, _offsets(ctx, op, op.inputs[1], row), out, n, k * row, row)


def scatter(ctx: Context, op: Op) -> None:
    """SCATTER: a copy of values_in, over which the rows of input go."""
    n, k, c = ctx.shape(op.inputs[0])
    out = op.outputs[0]
    dtype = ctx.dtype(out)
    row = c * ITEM[dtype]
    offsets = _offsets(ctx, op, op.inputs[1], row)
    # Rows that no index names keep the values of the copy.
    target = dense(ctx.storage.add(out), dtype, to_nhwc((n, k, c)))
    ctx.move(op.inputs[0], target.tensor, f"{op.name}.copy", op.source)
    ctx.layers.append(
        GatherLayer(
            name=op.name,
            output=target,
            ops=(op.kind,),
            source=op.source,
            values=flat(ctx, op.inputs[2]),
            offsets=offsets,
            batch=n,
            rows=ctx.shape(op.inputs[1])[1],
            row_bytes=row,
            far_bytes=k * row,
            scatter=True,
        )
    )


# Offsets ----------------------------------------------------------------------------------


def flat(ctx: Context, name: str) -> View:
    """Tensor `name` as one dense row."""
    shape = ctx.shape(name)
    return ctx.view(name, (1, 1, 1, math.prod(shape)))


def _offsets(ctx: Context, op: Op, indices: str, row: int) -> View:
    """[N,W] indices times the bytes of a row."""
    tensor = ctx.graph.tensors[indices]
    if tensor.data is not None and ctx.fold:
        name = ctx.graph.add_constant(
            f"{op.name}.offsets", tensor.data.astype(np.int64) * row, "int32"
        )
        return flat(ctx, name)
    if row >= _MOST:
        raise CompileError(f"{op.kind}: rows of {row} bytes are too long", node=op.name)
    root = ctx.storage.add_temp(f"{op.outputs[0]}.offsets", tensor.nbytes)
    builder = FusedBuilder()
    source = builder.source(ctx.storage.get(indices), "int32")
    # (4·row·i + 2) >> 2 is row·i exactly.
    builder.step(source, None, a_scale=Scale.TENSOR, a_mult=4 * row, a_shift=2)
    target = dense(root, "int32", (1, 1, 1, tensor.size))
    ctx.layers.append(
        builder.layer(
            Target(target, 0, row_major(tensor.shape, 4)),
            name=f"{op.name}.offsets",
            ops=(op.kind,),
            source=op.source,
        )
    )
    return target


def gathered(
    ctx: Context,
    op: Op,
    values: View,
    offsets: View,
    out: str,
    batch: int,
    far: int,
    row: int,
    rows: int = 0,
) -> None:
    """A layer that gathers to `out`: a tensor of the graph, or a root that exists."""
    known = out in ctx.graph.tensors
    dtype = ctx.dtype(out) if known else values.dtype
    rows = rows or ctx.shape(out)[1]
    root = ctx.storage.add(out) if known else out
    ctx.layers.append(
        GatherLayer(
            name=op.name,
            output=dense(root, dtype, (1, 1, batch * rows, row // ITEM[dtype])),
            ops=(op.kind,),
            source=op.source,
            values=values,
            offsets=offsets,
            batch=batch,
            rows=rows,
            row_bytes=row,
            far_bytes=far,
        )
    )

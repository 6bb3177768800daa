"""Values picked by indices that are known at run time or constant."""

import math
from dataclasses import replace

from torch.fx import Node

from sw.compiler.frontend.building import Value
from sw.compiler.frontend.importer import Importer
from sw.compiler.frontend.layout import Layout
from sw.compiler.frontend.operator_sets import Plan
from sw.compiler.frontend.quantization.formats import Format
from sw.compiler.frontend.rules.moves import movable, pieces

_INTEGER = Format(dtype="int32", scale=1.0)
_PIECES = 16
"""Constant indices that make more runs than this are gathered."""


def _indices(im: Importer, node: Node, operand: Node, size: int, signed: bool) -> Value:
    """int32 indices, row-major; negative ones count from the end where `signed`."""
    known = im.constant(operand)
    if known is not None:
        return im.quantized(f"{node.name}_indices", known % size, _INTEGER)
    value = im.ordered(im.get(operand, _INTEGER))
    if not signed:
        return value
    zero, full = (im.number(n, value.tensor) for n in (0, size))
    below = im.op(node, "GREATER", [zero, value.tensor])
    moved = im.op(node, "ADD", [value.tensor, full])
    return replace(value, tensor=im.op(node, "SELECT", [below, moved, value.tensor]))


def gathered(im: Importer, node: Node, value: Value, axis: int, indices: Value) -> Value:
    """GATHER along `axis`: its dimension becomes those of `indices`."""
    rank, shape = len(value.shape), value.shape
    others = [a for a in range(rank) if a != axis]
    value = im.ordered(value, (axis, *others))
    width = math.prod(shape[a] for a in others)
    values = im.reshaped(value.tensor, (1, shape[axis], width))
    flat = im.reshaped(indices.tensor, (1, math.prod(indices.shape)))
    out = im.op(node, "GATHER", [values, flat])
    count = len(indices.shape)
    result = (*shape[:axis], *indices.shape, *shape[axis + 1 :])
    behind = [a if a < axis else a + count - 1 for a in others]
    axes = (*range(axis, axis + count), *behind)
    tensor = im.reshaped(out, [result[a] for a in axes])
    return replace(value, tensor=tensor, layout=Layout.of(result, axes))


def index(im: Importer, node: Node, plan: Plan) -> Value:
    """Indices along one dimension: parts where a constant names runs of them, else GATHER."""
    source = node.args[0]
    value = movable(im, source)
    ((axis, operand),) = ((i, n) for i, n in enumerate(node.args[1]) if n is not None)
    known = im.constant(operand)
    if known is not None and known.ndim == 1:
        found = pieces(im, node, value, axis, [int(v) % value.shape[axis] for v in known], _PIECES)
        if found is not None:
            return found
    return gathered(
        im, node, value, axis, _indices(im, node, operand, value.shape[axis], signed=True)
    )


def index_select(im: Importer, node: Node, plan: Plan) -> Value:
    value = movable(im, node.args[0])
    axis = node.args[1] % len(value.shape)
    indices = _indices(im, node, node.args[2], value.shape[axis], signed=False)
    return gathered(im, node, value, axis, indices)


def gather(im: Importer, node: Node, plan: Plan) -> Value:
    """GATHER by row along one dimension; the others have the indices' sizes."""
    value = movable(im, node.args[0])
    rank = len(value.shape)
    axis = node.args[1] % rank
    order = (*(a for a in range(rank) if a != axis), axis)
    indices = _indices(im, node, node.args[2], value.shape[axis], signed=False)
    rows = [indices.shape[a] for a in order[:-1]]
    value = im.ordered(value, order)
    tensor, shape = value.tensor, [value.shape[a] for a in order]
    if rows != shape[:-1]:
        tensor = im.slice(node, tensor, [0] * rank, [*rows, shape[-1]])
    count = math.prod(rows)
    values = im.reshaped(tensor, (count, shape[-1], 1))
    flat = im.reshaped(im.ordered(indices, order).tensor, (count, indices.shape[axis]))
    out = im.op(node, "GATHER", [values, flat])
    layout = Layout.of(indices.shape, order)
    return replace(value, tensor=im.reshaped(out, layout.memory_shape), layout=layout)


def embedding(im: Importer, node: Node, plan: Plan) -> Value:
    """GATHER of rows of a table."""
    value = movable(im, node.args[0])
    indices = _indices(im, node, node.args[1], value.shape[0], signed=False)
    return gathered(im, node, value, 0, indices)

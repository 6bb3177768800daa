"""Operands of an elementwise operator: equal ranks, one memory order."""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from torch.fx import Node

from sw.compiler.frontend.building import Value, equal_ranks
from sw.compiler.frontend.importer import Importer
from sw.compiler.frontend.layout import Layout


def joined(
    im: Importer, node: Node, kind: str, values: Sequence[Value], scale: float = 1.0
) -> Value:
    """An operator of tensors that broadcast."""
    tensors, layout = same_shape(im, values)
    return Value(tensor=im.op(node, kind, tensors), layout=layout, scale=scale)


def same_shape(im: Importer, values: Sequence[Value]) -> tuple[list[str], Layout]:
    """Tensors that broadcast, of equal rank, and the result's layout: the largest operand's."""
    forms = {im.graph.tensors[v.tensor].shape for v in values}
    if len(forms) == 1 and all(v.layout == values[0].layout for v in values):
        return [v.tensor for v in values], values[0].layout
    shape = np.broadcast_shapes(*(v.shape for v in values))
    rank = len(shape)
    leader = max(values, key=lambda v: (math.prod(v.shape), not im.is_constant(v)))
    order = leader.layout.axes or tuple(range(len(leader.shape)))
    axes = (*range(rank - len(order)), *(a + rank - len(order) for a in order))
    tensors = []
    for value in values:
        full = value.layout.reshape(equal_ranks(value.shape, rank))
        assert full is not None  # ones in front split no factor
        tensors.append(im.ordered(replace(value, layout=full), axes).tensor)
    return tensors, Layout.of(shape, axes)

"""Broadcasts that elementwise operations of PyTorch do by themselves are left to them."""

from dataclasses import replace

import torch

from sw.frontends.stablehlo.graph import Graph, narrowed, operation
from sw.frontends.stablehlo.records import Op
from sw.frontends.stablehlo.table import ROWS


def narrow(graph: Graph) -> None:
    """Give elementwise operations what was broadcast, with dimensions of size 1."""
    makers = graph.makers()
    kept: list[Op] = []
    small: dict[int, int] = {}
    for op in graph.ops:
        if ROWS[op.kind].elementwise and len(op.results) == 1:
            op = _narrowed(graph, op, makers, small, kept)
        kept.append(op)
    graph.ops = kept
    graph.clean()


def _narrowed(
    graph: Graph, op: Op, makers: dict[int, Op], small: dict[int, int], kept: list[Op]
) -> Op:
    operands = [_source(graph, value, makers, small, kept) for value in op.operands]
    wanted = graph.shape(op.results[0])
    for i, original in enumerate(op.operands):
        if torch.broadcast_shapes(*(graph.shape(v) for v in operands)) == wanted:
            return replace(op, operands=tuple(operands))
        operands[i] = original
    return op


def _source(
    graph: Graph, value: int, makers: dict[int, Op], small: dict[int, int], kept: list[Op]
) -> int:
    """The value with dimensions of size 1 where it repeats itself."""
    if value in small:
        return small[value]
    if value in graph.constants:
        tensor = narrowed(graph.constants[value])
        if tensor.shape != graph.shape(value):
            small[value] = graph.hold(tensor.contiguous(), graph.types[value].element)
        return small.get(value, value)
    maker = makers.get(value)
    if maker is None or maker.kind != "broadcast_in_dim":
        return value
    (source,) = maker.operands
    source_of = _source(graph, source, makers, small, kept)
    dims = [int(d) for d in maker.attributes["broadcast_dimensions"]]
    if dims != sorted(dims):
        return value
    sizes = dict(zip(dims, graph.shape(source_of), strict=True))
    shape = tuple(sizes.get(d, 1) for d in range(len(graph.shape(value))))
    if shape == graph.shape(source_of):
        small[value] = source_of
        return source_of
    made = small[value] = graph.new(replace(graph.types[source_of], shape=shape))
    kept.append(operation(maker, "reshape", [source_of], [made]))
    return made

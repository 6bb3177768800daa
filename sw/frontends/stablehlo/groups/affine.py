"""Constants by output channel behind a convolution or a product: its weights and its bias."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor as T

from sw.frontends.stablehlo.graph import Graph, narrowed
from sw.frontends.stablehlo.groups.match import Matcher
from sw.frontends.stablehlo.records import Op


@dataclass(frozen=True, slots=True, kw_only=True)
class _Layer:
    """A layer of constant weights, and a · x + b of its output channels that follow it.

    axis: the dimension of channels in its result. channels: of the weights.
    """

    op: Op
    axis: int
    channels: tuple[int, ...]
    factor: T
    offset: T


def join_scales(graph: Graph) -> None:
    """Fold sums, differences, products and quotients by such constants into the layer before."""
    matcher = Matcher(graph)
    layers: dict[int, _Layer] = {}
    for op in graph.ops:
        layer = _layer(graph, op) or _followed(matcher, op, layers)
        if layer is not None:
            layers[op.results[0]] = layer
    ops = []
    for op in graph.ops:
        layer = layers.get(op.results[0])
        joined = layer is not None and layer.op is not op
        ops.append(_joined(graph, op, layer) if joined and layer is not None else op)
    graph.ops = ops


def _layer(graph: Graph, op: Op) -> _Layer | None:
    """A product or a convolution by constant weights, without a bias."""
    if op.kind not in ("convolution", "dot_general") or len(op.operands) != 2:
        return None
    x, weight = op.operands
    if weight not in graph.constants or graph.types[x].element[0] not in "fb":
        return None
    rank = len(graph.shape(op.results[0]))
    if op.kind == "convolution":
        numbers = op.attributes["dimension_numbers"]
        axis = numbers["output_feature_dimension"]
        channels = (numbers["kernel_output_feature_dimension"],)
    else:
        numbers = op.attributes["dot_dimension_numbers"]
        over, batch = numbers["rhs_contracting_dimensions"], numbers["rhs_batching_dimensions"]
        free = tuple(d for d in range(len(graph.shape(weight))) if d not in (*over, *batch))
        if batch or len(free) != 1:
            return None
        axis, channels = rank - 1, free
    size = graph.shape(op.results[0])[axis]
    one, zero = torch.ones(size).double(), torch.zeros(size).double()
    return _Layer(op=op, axis=axis, channels=channels, factor=one, offset=zero)


def _followed(matcher: Matcher, op: Op, layers: dict[int, _Layer]) -> _Layer | None:
    """The layer with one more operation by a constant."""
    if op.kind not in ("add", "subtract", "multiply", "divide"):
        return None
    for x, other in (op.operands, op.operands[::-1]):
        layer = layers.get(x)
        constant = matcher.graph.constants.get(other)
        if layer is None or constant is None or matcher.uses[x] > 1:
            continue
        values = _by_channel(constant, layer, len(matcher.graph.shape(op.results[0])))
        first = x == op.operands[0]
        if values is None or (op.kind == "divide" and not first):
            continue
        if op.kind in ("multiply", "divide"):
            values = values if op.kind == "multiply" else 1 / values
            return replace(layer, factor=layer.factor * values, offset=layer.offset * values)
        sign = -1 if op.kind == "subtract" and not first else 1
        less = -1 if op.kind == "subtract" and first else 1
        return replace(
            layer, factor=sign * layer.factor, offset=sign * layer.offset + less * values
        )
    return None


def _by_channel(constant: T, layer: _Layer, rank: int) -> T | None:
    small = narrowed(constant).double()
    if small.numel() == 1:
        return small.reshape(1).expand(len(layer.factor))
    shape = [1] * rank
    shape[layer.axis] = len(layer.factor)
    return small.reshape(-1) if list(small.shape) == shape else None


def _joined(graph: Graph, op: Op, layer: _Layer) -> Op:
    x, weight = layer.op.operands
    tensor = graph.constants[weight].double()
    shape = [1] * tensor.dim()
    shape[layer.channels[0]] = -1
    scaled = graph.hold((tensor * layer.factor.reshape(shape)).float())
    bias = graph.hold(layer.offset.float())
    return replace(layer.op, operands=(x, scaled, bias), results=op.results)

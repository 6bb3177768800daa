"""A convolution whose result is cut into ranges of channels becomes one for each range.

Gates and branches have activations of their own. Behind a SLICE they are passes over memory; a
convolution of its own takes them into its epilogue. Queries, keys and values of an attention that
one product makes become three, since the values can be made beside the softmax.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from spec.config import NpuConfig
from sw.compiler.tosa.graph import Graph, Op

_BETWEEN = ("RESCALE", "CLAMP", "RESHAPE")
"""Operators between a convolution and the SLICEs of its result."""

_EPILOGUES = ("RESCALE", "CLAMP", "TABLE")
"""What a layer of its own takes from behind a SLICE."""

REREAD = 2
"""Elements of the operand that may be read again for each element of the result."""


@dataclass(frozen=True, slots=True)
class _Part:
    """A SLICE of channels `start`…`stop` of the convolution."""

    slice: Op
    start: int
    stop: int


def split_products(graph: Graph, config: NpuConfig) -> None:
    """Every convolution with constant weights of which that takes no more column blocks."""
    readers = graph.consumers()
    for op in [op for op in graph.ops if op.kind == "CONV2D"]:
        chain = _chain(graph, readers, op)
        parts = _parts(graph, readers, chain)
        if parts and _is_worth(graph, readers, op, parts, config):
            _split(graph, chain, parts)


def _chain(graph: Graph, readers: dict[str, list[Op]], conv: Op) -> list[Op]:
    """The convolution and the operators behind it that keep its channels, up to its SLICEs; the
    last one, a RESHAPE, may make several dimensions of them.
    """
    chain = [conv]
    channels = graph.tensors[conv.outputs[0]].shape[-1]
    while len(users := readers[chain[-1].outputs[0]]) == 1 and users[0].kind in _BETWEEN:
        (op,) = users
        constant = all(graph.tensors[name].is_constant for name in op.inputs[1:])
        shape = graph.tensors[op.outputs[0]].shape
        if not constant or _channel_axis(shape, channels) is None:
            break
        chain.append(op)
        if shape[-1] != channels:
            break
    return chain


def _channel_axis(shape: Sequence[int], channels: int) -> int | None:
    """The first of the last dimensions that have so many elements together; None: none have."""
    for axis in range(len(shape) - 1, -1, -1):
        if math.prod(shape[axis:]) >= channels:
            return axis if math.prod(shape[axis:]) == channels and shape[axis] > 1 else None
    return None


def _parts(graph: Graph, readers: dict[str, list[Op]], chain: Sequence[Op]) -> list[_Part]:
    """The SLICEs of its result by their first channel; [] if others read it, or some overlap."""
    name = chain[-1].outputs[0]
    users, made = readers[name], {op.outputs[0] for op in chain}
    if len(users) < 2 or any(op.kind != "SLICE" for op in users) or made & set(graph.outputs):
        return []
    if not all(graph.tensors[n].is_constant for n in chain[0].inputs[1:]):
        return []
    parts = []
    whole = graph.tensors[name].shape
    axis = _channel_axis(whole, graph.tensors[chain[0].outputs[0]].shape[-1])
    assert axis is not None
    each = math.prod(whole[axis + 1 :])
    for op in users:
        start, size = (graph.constant(n).reshape(-1).tolist() for n in op.inputs[1:])
        first, count = start[axis], size[axis]
        start[axis], size[axis] = 0, whole[axis]
        if any(start) or tuple(size) != whole:
            return []
        parts.append(_Part(op, first * each, (first + count) * each))
    parts.sort(key=lambda part: part.start)
    apart = all(a.stop <= b.start for a, b in pairwise(parts))
    return parts if apart else []


def _is_worth(
    graph: Graph,
    readers: dict[str, list[Op]],
    conv: Op,
    parts: Sequence[_Part],
    config: NpuConfig,
) -> bool:
    """Whether a part has an epilogue of its own or is multiplied by another one, and neither array
    nor bus do more for it.
    """
    source, result = (graph.tensors[n].shape for n in (conv.inputs[0], conv.outputs[0]))
    blocks = sum(-(-(part.stop - part.start) // config.cols) for part in parts)
    if blocks > -(-result[-1] // config.cols):
        return False
    again = (len(parts) - 1) * graph.tensors[conv.inputs[0]].size
    if again > REREAD * graph.tensors[conv.outputs[0]].size or len(source) != len(result):
        return False
    made = [part.slice.outputs[0] for part in parts]
    if any(_has_epilogue(graph, readers, name) for name in made):
        return True
    products = [_only_reader(readers, name, ("RESHAPE", "TRANSPOSE")) for name in made]
    multiplied = all(op is not None and op.kind == "MATMUL" for op in products)
    return multiplied and len(set(map(id, products))) < len(parts)


def _has_epilogue(graph: Graph, readers: dict[str, list[Op]], name: str) -> bool:
    """Whether one operator alone reads a tensor that the layer of its own would take."""
    reader = _only_reader(readers, name, ("RESHAPE",))
    return (
        reader is not None and reader.kind in _EPILOGUES and reader.inputs[0] not in graph.outputs
    )


def _only_reader(readers: dict[str, list[Op]], name: str, between: Sequence[str]) -> Op | None:
    """The operator that alone reads a tensor, behind operators `between`; None: there are more."""
    while len(readers[name]) == 1 and readers[name][0].kind in between:
        name = readers[name][0].outputs[0]
    return readers[name][0] if len(readers[name]) == 1 else None


def _split(graph: Graph, chain: Sequence[Op], parts: Sequence[_Part]) -> None:
    """The whole chain for each part, whose last operator makes what its SLICE did."""
    at = graph.ops.index(chain[-1]) + 1
    for part in parts:
        name, made = chain[0].inputs[0], []
        for op in chain:
            made.append(_copied(graph, op, name, part, op is chain[-1]))
            name = made[-1].outputs[0]
        made[-1].outputs = part.slice.outputs
        graph.ops[at:at] = made
        at += len(made)
    for op in (*chain, *(part.slice for part in parts)):
        graph.ops.remove(op)


def _copied(graph: Graph, op: Op, name: str, part: _Part, last: bool) -> Op:
    """`op` for the channels of `part`, which reads `name`; last: of the chain."""
    result = graph.tensors[op.outputs[0]]
    shape = (*result.shape[:-1], part.stop - part.start)
    if last:
        shape = graph.tensors[part.slice.outputs[0]].shape
    made = graph.fresh_name(f"{result.name}_part")
    graph.add_tensor(replace(result, name=made, shape=shape))
    inputs = [name, *op.inputs[1:]]
    if op.kind == "RESHAPE":
        inputs[1] = graph.add_constant(f"{made}_shape", list(shape), "shape")
    channels = op.kind == "CONV2D" or op.attributes.get("per_channel")
    for i in (1, 2) if channels else ():
        data = graph.tensors[op.inputs[i]]
        if data.shape[0] == result.shape[-1]:
            some = graph.constant(data.name)[part.start : part.stop]
            inputs[i] = graph.add_constant(f"{made}_{i}", some, data.dtype)
    return replace(op, name=made, inputs=inputs, outputs=[made], attributes={**op.attributes})

"""Make a PAD with the zero point the padding of the convolution that reads it.

Between them may lie operators that compute every element by itself, and a RESHAPE that only adds or
removes dimensions of 1: they then work on the unpadded tensor.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sw.compiler.tosa.graph import Graph, Op
from sw.compiler.tosa.interpreter import run_graph

_CONVOLUTIONS = ("CONV2D", "DEPTHWISE_CONV2D")
_BETWEEN = ("RESCALE", "CLAMP", "TABLE", "RESHAPE")

Rows = tuple[tuple[int, int], ...]
"""Padding before and behind each dimension."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Padding:
    """Padding of `rows` with one element, `value`."""

    rows: Rows
    value: NDArray[Any]


def fold_pads(graph: Graph) -> None:
    """The convolution reads the unpadded tensor; a PAD that nobody else reads is dead code."""
    producers, users = graph.producers(), graph.consumers()
    for op in graph.ops:
        if op.kind in _CONVOLUTIONS:
            _fold(graph, op, producers, users)


def _fold(
    graph: Graph, conv: Op, producers: Mapping[str, Op], users: Mapping[str, Sequence[Op]]
) -> None:
    between: list[Op] = []
    op = producers.get(conv.inputs[0])
    while op is not None and op.kind in _BETWEEN:
        if len(users[op.outputs[0]]) != 1 or op.outputs[0] in graph.outputs:
            return
        between.insert(0, op)
        op = producers.get(op.inputs[0])
    if op is None or op.kind != "PAD":
        return
    rows = graph.constant(op.inputs[1]).reshape(-1, 2).tolist()
    value = graph.constant(op.inputs[2]).reshape(-1)[:1]
    paddings = [_Padding(rows=tuple((a, b) for a, b in rows), value=value)]
    for step in between:
        behind = _behind(graph, step, paddings[-1])
        if behind is None:
            return
        paddings.append(behind)
    if not _fits(graph, paddings[-1], conv):
        return
    name = op.inputs[0]
    for step, padding in zip(between, paddings[1:], strict=True):
        step.inputs[0] = name
        (name,) = step.outputs
        _shrink(graph, step, padding.rows)
    old = conv.attributes["pad"]
    extra = (*paddings[-1].rows[1], *paddings[-1].rows[2])
    conv.attributes["pad"] = tuple(a + b for a, b in zip(old, extra, strict=True))
    conv.inputs[0] = name


def _fits(graph: Graph, padding: _Padding, conv: Op) -> bool:
    """Height and width only, with the value that the convolution's own padding stands for."""
    rows, zero_point = padding.rows, graph.constant(conv.inputs[3]).reshape(-1)[0]
    outer = len(rows) == 4 and not any(rows[0] + rows[3])
    return outer and bool(padding.value[0] == zero_point)


def _behind(graph: Graph, op: Op, padding: _Padding) -> _Padding | None:
    """The padding that the result of `op` has if its operand has `padding`; None if it has none."""
    if op.kind == "RESHAPE":
        before, after = (graph.tensors[name].shape for name in (op.inputs[0], op.outputs[0]))
        rows = _reshaped(padding.rows, before, after)
        return None if rows is None else replace(padding, rows=rows)
    if op.attributes.get("per_channel"):
        return None
    # One element by itself, as the operator computes each.
    one = graph.tensors[op.inputs[0]]
    tensors = {name: graph.tensors[name] for name in (*op.inputs, *op.outputs)}
    shape = (1,) * len(one.shape)
    tensors[op.inputs[0]] = replace(one, shape=shape, data=padding.value.reshape(shape))
    tensors[op.outputs[0]] = replace(tensors[op.outputs[0]], shape=shape)
    single = Graph(name=op.name, outputs=list(op.outputs), ops=[op], tensors=tensors)
    return replace(padding, value=run_graph(single, {})[op.outputs[0]].reshape(-1))


def _reshaped(rows: Rows, before: Sequence[int], after: Sequence[int]) -> Rows | None:
    """The rows of the same dimensions in another shape; None if it has others."""
    kept = [(size, row) for size, row in zip(before, rows, strict=True) if size != 1]
    if [size for size, _ in kept] != [size for size in after if size != 1]:
        return None
    left = iter([row for _, row in kept])
    return tuple((0, 0) if size == 1 else next(left) for size in after)


def _shrink(graph: Graph, op: Op, rows: Rows) -> None:
    """The result of `op` has no padding of `rows` any more."""
    (out,) = op.outputs
    result = graph.tensors[out]
    shape = tuple(
        n - before - behind for n, (before, behind) in zip(result.shape, rows, strict=True)
    )
    if op.kind == "RESHAPE":
        op.inputs[1] = graph.add_constant(op.inputs[1], np.array(shape), "shape")
    graph.tensors[out] = replace(result, shape=shape)

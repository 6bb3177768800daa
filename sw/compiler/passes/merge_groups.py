"""Compute neighbouring groups of a grouped convolution as one convolution, where that is faster.

TOSA has no groups: each is a SLICE of the channels, a CONV2D, perhaps a RESCALE, and a CONCAT joins
the results. A group of few channels leaves most of the array idle. Several groups side by side fill
it, with weights of 0 between a group's inputs and another's outputs.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spec.config import NpuConfig
from sw.compiler.tosa.bound import weight_bytes
from sw.compiler.tosa.graph import Graph, Op, Work
from sw.compiler.tosa.macs import op_macs


@dataclass(frozen=True, slots=True, kw_only=True)
class _Group:
    """One group: its operators, the first of its channels in the input, and how many."""

    slice: Op
    conv: Op
    rescale: Op | None
    start: int
    channels: int

    @property
    def output(self) -> str:
        return (self.rescale or self.conv).outputs[0]


def merge_groups(graph: Graph, config: NpuConfig) -> None:
    """As many groups as take the fewest folds of the array become one."""
    producers, readers = graph.producers(), _readers(graph)
    for op in list(graph.ops):
        if op.kind != "CONCAT" or op.attributes["axis"] != 3:
            continue
        found = [_group(graph, producers, readers, name) for name in op.inputs]
        groups = [g for g in found if g is not None]
        if len(groups) > 1 and len(groups) == len(found) and _alike(graph, groups):
            count = _best(graph, groups, config)
            if count > 1:
                _merge(graph, op, groups, count)
                if len(op.inputs) == 1:
                    op.kind, op.attributes = "IDENTITY", {}


def _readers(graph: Graph) -> dict[str, int]:
    """How often each tensor is read; an output of the graph is read once more."""
    counts = dict.fromkeys(graph.outputs, 1)
    for op in graph.ops:
        for name in op.inputs:
            counts[name] = counts.get(name, 0) + 1
    return counts


def _group(
    graph: Graph, producers: dict[str, Op], readers: dict[str, int], name: str
) -> _Group | None:
    """The group whose result is `name`, if nobody else reads what lies between."""
    rescale = producers.get(name)
    if rescale is None or readers[name] != 1:
        return None
    conv: Op | None = rescale
    if rescale.kind == "RESCALE":
        conv = producers.get(rescale.inputs[0])
        if not all(graph.tensors[t].is_constant for t in rescale.inputs[1:]):
            return None
    if conv is None or conv.kind != "CONV2D" or readers[conv.outputs[0]] != 1:
        return None
    part = producers.get(conv.inputs[0])
    constant = all(graph.tensors[t].is_constant for t in conv.inputs[1:])
    if part is None or part.kind != "SLICE" or not constant:
        return None
    start, size = (graph.constant(t).reshape(-1).tolist() for t in part.inputs[1:])
    whole = graph.tensors[part.inputs[0]].shape
    if len(whole) != 4 or any(start[:3]) or tuple(size[:3]) != whole[:3]:
        return None
    return _Group(
        slice=part,
        conv=conv,
        rescale=None if rescale is conv else rescale,
        start=start[3],
        channels=size[3],
    )


def _alike(graph: Graph, groups: list[_Group]) -> bool:
    """Whether the groups are neighbours of one size, computed in the same way."""
    first = groups[0]
    return all(
        g.slice.inputs[0] == first.slice.inputs[0]
        and (g.start, g.channels) == (first.start + i * first.channels, first.channels)
        and _manner(graph, g) == _manner(graph, first)
        for i, g in enumerate(groups)
    )


def _manner(graph: Graph, group: _Group) -> tuple[Any, ...]:
    """What must be the same of all groups: attributes, zero points, and the weights' shape."""
    conv, rescale = group.conv, group.rescale
    zero_points = [graph.constant(t).item() for t in conv.inputs[3:5]]
    out: tuple[Any, ...] = (graph.tensors[conv.inputs[1]].shape, conv.attributes, zero_points)
    if rescale is not None:
        zero_points = [graph.constant(t).item() for t in rescale.inputs[3:5]]
        attributes = {k: v for k, v in rescale.attributes.items() if k != "per_channel"}
        dtypes = [graph.tensors[t].dtype for t in (*rescale.inputs[1:3], rescale.outputs[0])]
        out += (attributes, zero_points, dtypes)
    return (*out, rescale is None)


def _best(graph: Graph, groups: list[_Group], config: NpuConfig) -> int:
    """How many groups to compute as one: the fewest folds in all, then the fewest layers."""
    oc, kh, kw, c = graph.tensors[groups[0].conv.inputs[1]].shape
    counts = [n for n in range(1, len(groups) + 1) if len(groups) % n == 0]

    def folds(count: int) -> int:
        depth = reduction_folds(kh, kw, count * c, config.rows)
        return len(groups) // count * -(-count * oc // config.cols) * depth

    return min(counts, key=lambda count: (folds(count), -count))


def reduction_folds(kh: int, kw: int, c: int, rows: int) -> int:
    """Folds of a column block: taps by themselves, window rows or whole windows as one vector."""
    return min(kh * kw * -(-c // rows), kh * -(-kw * c // rows), -(-kh * kw * c // rows))


def _merge(graph: Graph, concat: Op, groups: list[_Group], count: int) -> None:
    """`count` neighbours each become one, under the name of the first."""
    made: list[Op] = []
    concat.inputs = [
        _joined(graph, groups[i : i + count], made) for i in range(0, len(groups), count)
    ]
    gone = {id(op) for g in groups for op in (g.conv, g.rescale)} | {id(op) for op in made}
    kept = [op for op in graph.ops if id(op) not in gone]
    at = next(i for i, op in enumerate(kept) if op is concat)
    graph.ops = [*kept[:at], *made, *kept[at:]]


def _joined(graph: Graph, groups: list[_Group], made: list[Op]) -> str:
    """Append the operators of some groups as one to the graph and to `made`; returns its result."""
    first, size = groups[0], len(groups)
    name = first.conv.name

    def add(like: Op, inputs: list[str], **attributes: Any) -> str:
        before = len(graph.ops)
        old = graph.tensors[like.outputs[0]]
        out = graph.add_op(
            like.kind,
            inputs,
            {**like.attributes, **attributes},
            name=like.name,
            output=f"{like.outputs[0]}_groups",
            source=like.source,
            out_dtype=old.dtype,
            scale=old.scale,
            zero_point=old.zero_point,
        )
        made.extend(graph.ops[before:])
        return out

    start, extent = (graph.constant(t).copy() for t in first.slice.inputs[1:])
    extent.reshape(-1)[3] = size * first.channels
    part = add(
        first.slice,
        [
            first.slice.inputs[0],
            graph.add_constant(f"{name}_start", start, "shape"),
            graph.add_constant(f"{name}_size", extent, "shape"),
        ],
    )
    channels = [_outputs(graph, first)] * size
    out = add(
        first.conv,
        [
            part,
            graph.add_constant(f"{name}_weight", _diagonal(graph, groups), "int8"),
            _side_by_side(graph, [g.conv.inputs[2] for g in groups], channels),
            *first.conv.inputs[3:],
        ],
    )
    # Of weights between two groups none is work.
    made[-1].work = Work(
        macs=sum(op_macs(graph, g.conv) for g in groups),
        weight_bytes=sum(weight_bytes(graph, g.conv) for g in groups),
    )
    rescales = [g.rescale for g in groups if g.rescale is not None]
    if rescales:
        operands = [_side_by_side(graph, [r.inputs[i] for r in rescales], channels) for i in (1, 2)]
        out = add(rescales[0], [out, *operands, *rescales[0].inputs[3:]], per_channel=True)
    return out


def _outputs(graph: Graph, group: _Group) -> int:
    return graph.tensors[group.conv.inputs[1]].shape[0]


def _diagonal(graph: Graph, groups: list[_Group]) -> NDArray[np.int8]:
    """Weights [OC,KH,KW,C] of all groups; between two of them the zero point, which counts as 0."""
    oc, kh, kw, c = graph.tensors[groups[0].conv.inputs[1]].shape
    zero = graph.constant(groups[0].conv.inputs[4]).item()
    out = np.full((len(groups) * oc, kh, kw, len(groups) * c), zero, np.int8)
    for i, group in enumerate(groups):
        out[i * oc : (i + 1) * oc, :, :, i * c : (i + 1) * c] = graph.constant(group.conv.inputs[1])
    return out


def _side_by_side(graph: Graph, names: list[str], counts: list[int]) -> str:
    """Constants by channel one behind the other; one of a single element is for all channels."""
    arrays = [
        np.broadcast_to(graph.constant(name).reshape(-1), count)
        for name, count in zip(names, counts, strict=True)
    ]
    first = graph.tensors[names[0]]
    return graph.add_constant(f"{first.name}_groups", np.concatenate(arrays), first.dtype)

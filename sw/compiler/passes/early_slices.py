"""A RESCALE of which groups of channels are read becomes one for each group, behind its SLICE.

A convolution of a group then begins when its own channels are there, and the vector engine rescales
those of the next group meanwhile. The operand must be stored for others anyway: behind a product
alone the RESCALE is part of its epilogue.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from spec.config import NpuConfig
from sw.compiler.passes.dead_code import remove_dead_code
from sw.compiler.tosa.graph import Graph, Op

MOST = 1.1
"""How many times as many vectors the groups may have together."""

LEAST = 256
"""Vectors of a group from which a layer of its own is worth its start."""


def early_slices(graph: Graph, config: NpuConfig) -> None:
    """Every such RESCALE, of one scale for all channels."""
    readers = graph.consumers()
    for op in [op for op in graph.ops if op.kind == "RESCALE"]:
        slices = readers.get(op.outputs[0], [])
        if _is_stored(graph, op, readers) and _is_worth(graph, op, slices, config):
            for cut in slices:
                _move(graph, op, cut)
    remove_dead_code(graph)


def _is_stored(graph: Graph, op: Op, readers: Mapping[str, Sequence[Op]]) -> bool:
    """Whether others than `op` read its operand, and nobody its whole result."""
    shared = len(readers[op.inputs[0]]) > 1 and graph.tensors[op.inputs[0]].dtype != "int32"
    return shared and not op.attributes["per_channel"] and op.outputs[0] not in graph.outputs


def _is_worth(graph: Graph, op: Op, slices: Sequence[Op], config: NpuConfig) -> bool:
    """Whether SLICEs of channels read it that are other ones each, in about as many vectors."""
    whole = graph.tensors[op.outputs[0]]
    if len(slices) < 2 or any(cut.kind != "SLICE" for cut in slices):
        return False
    parts = [graph.tensors[cut.outputs[0]].shape for cut in slices]
    if any(part[:-1] != whole.shape[:-1] for part in parts):
        return False
    starts = sorted(
        (int(graph.constant(cut.inputs[1]).reshape(-1)[-1]), part[-1])
        for cut, part in zip(slices, parts, strict=True)
    )
    ends = [start + count for start, count in starts]
    if any(end > start for end, (start, _) in zip(ends, starts[1:], strict=False)):
        return False
    pixels = math.prod(whole.shape[:-1])
    vectors = [pixels * -(-part[-1] // config.cols) for part in parts]
    return min(vectors) >= LEAST and sum(vectors) <= MOST * whole.size / config.cols


def _move(graph: Graph, rescale: Op, cut: Op) -> None:
    """RESCALE → SLICE becomes SLICE → RESCALE; the first stays for others."""
    source, (result,) = graph.tensors[rescale.inputs[0]], cut.outputs
    part = replace(
        graph.tensors[result], name=graph.fresh_name(f"{result}_first"), dtype=source.dtype
    )
    graph.add_tensor(part)
    cut.inputs[0], cut.outputs[0] = source.name, part.name
    own = replace(
        rescale,
        name=graph.fresh_name(f"{rescale.name}_part"),
        inputs=[part.name, *rescale.inputs[1:]],
        outputs=[result],
        attributes=dict(rescale.attributes),
    )
    graph.ops.insert(graph.ops.index(cut) + 1, own)

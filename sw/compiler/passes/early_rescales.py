"""Move a RESCALE before the operators that only move elements, or choose among them.

There the layer that makes the elements computes it, of fewer of them, or they then are narrower.
A RESCALE, whose multiplier is never negative, does not turn round which of two elements is the
larger one, so the maximum of a window may be taken behind it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from sw.compiler.passes.exchange import exchange
from sw.compiler.tosa.graph import Graph, Op

_VIEWS = ("RESHAPE", "SLICE", "IDENTITY")
_MOVES = ("TRANSPOSE", "TILE", "RESIZE", "MAX_POOL2D")

MOST = 1.1
"""How many times as many elements may be rescaled for a SLICE."""


def early_rescales(graph: Graph) -> None:
    """Every RESCALE of the tensor that alone reads such operators."""
    readers, producers = graph.consumers(), graph.producers()
    for op in [op for op in graph.ops if op.kind == "RESCALE"]:
        before = _before(graph, op, producers, readers)
        if not _is_worth(graph, op, before, producers):
            continue
        for each in before:
            source = graph.tensors[each.inputs[0]]
            result = graph.tensors[op.outputs[0]]
            name = graph.fresh_name(f"{result.name}_first")
            exchange(graph, each, op, replace(result, name=name, shape=source.shape))
        readers, producers = graph.consumers(), graph.producers()


def _before(
    graph: Graph, rescale: Op, producers: Mapping[str, Op], readers: Mapping[str, Sequence[Op]]
) -> list[Op]:
    """The operators before `rescale` that it may change places with, backwards."""
    found: list[Op] = []
    unsigned = rescale.attributes["input_unsigned"] or rescale.attributes["output_unsigned"]
    if rescale.attributes["per_channel"] or unsigned:
        return found
    name = rescale.inputs[0]
    while (op := producers.get(name)) is not None and op.kind in (*_VIEWS, *_MOVES):
        alone = len(readers[name]) == 1 and name not in graph.outputs
        if not alone or not _commutes(graph, op, rescale):
            break
        found.append(op)
        name = op.inputs[0]
    # Before a RESHAPE alone there is nothing to gain.
    return found if any(op.kind in _MOVES for op in found) else []


def _commutes(graph: Graph, op: Op, rescale: Op) -> bool:
    source, result = graph.tensors[op.inputs[0]], graph.tensors[op.outputs[0]]
    narrow = graph.tensors[rescale.outputs[0]].dtype in ("int8", "int16")
    if op.kind == "RESIZE":
        return narrow and bool(op.attributes["mode"] == "NEAREST")
    if op.kind == "MAX_POOL2D":
        return narrow
    return op.kind != "SLICE" or source.size <= MOST * result.size


def _is_worth(graph: Graph, rescale: Op, before: Sequence[Op], producers: Mapping[str, Op]) -> bool:
    """Whether fewer elements are rescaled, or about as many, and fewer bytes are moved then."""
    if not before:
        return False
    source, result = graph.tensors[before[-1].inputs[0]], graph.tensors[rescale.outputs[0]]
    if source.size * MOST < result.size:
        return True
    shrinks = result.nbytes < graph.tensors[rescale.inputs[0]].nbytes
    pools = any(op.kind == "MAX_POOL2D" for op in before)
    maker = producers.get(source.name)
    # Of a pool's operand the RESCALE is free only where another layer takes it.
    return shrinks and (not pools or (maker is not None and maker.kind in ("RESCALE", "CLAMP")))

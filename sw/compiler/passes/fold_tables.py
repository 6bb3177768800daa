"""Elementwise operators of int8 that follow one another become one TABLE of 256 elements.

The table is computed by evaluating them for each element that their operand can be.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from sw.compiler.tosa.graph import Graph, Op
from sw.compiler.tosa.interpreter import run_graph

_KINDS = ("RESCALE", "CLAMP", "TABLE")
_PASSES = ("RESCALE", "TABLE")
"""Each of these is a step of the vector engine; a CLAMP belongs to the one before it."""


def fold_tables(graph: Graph) -> None:
    """Every longest chain of at least two steps, of which nobody else reads anything."""
    readers, producers, done = graph.consumers(), graph.producers(), set[int]()
    for op in list(graph.ops):
        before = producers.get(op.inputs[0]) if op.inputs else None
        starts = (
            before is None or not _folds(graph, before) or not _is_alone(graph, readers, before)
        )
        if id(op) in done or not _folds(graph, op) or not starts:
            continue
        chain = [op]
        while _is_alone(graph, readers, chain[-1]):
            (after,) = readers[chain[-1].outputs[0]]
            if not _folds(graph, after):
                break
            chain.append(after)
        done.update(id(each) for each in chain)
        if sum(each.kind in _PASSES for each in chain) > 1:
            _fold(graph, chain)


def _folds(graph: Graph, op: Op) -> bool:
    """Whether `op` makes int8 of int8, each element alike."""
    if op.kind not in _KINDS or op.attributes.get("per_channel"):
        return False
    attributes = op.attributes
    unsigned = attributes.get("input_unsigned") or attributes.get("output_unsigned")
    known = all(graph.tensors[name].is_constant for name in op.inputs[1:])
    types = {graph.tensors[name].dtype for name in (op.inputs[0], op.outputs[0])}
    return types == {"int8"} and known and not unsigned


def _is_alone(graph: Graph, readers: dict[str, list[Op]], op: Op) -> bool:
    """Whether one operator reads the result of `op`, and as its first operand."""
    (name,) = op.outputs
    users = readers[name]
    return len(users) == 1 and users[0].inputs[0] == name and name not in graph.outputs


def _fold(graph: Graph, chain: Sequence[Op]) -> None:
    first, last = chain[0], chain[-1]
    trial = Graph(name="table")
    name = trial.add_input("x", (256,))
    for op in chain:
        made = replace(op, inputs=[name, *op.inputs[1:]], outputs=[f"{op.outputs[0]}.y"])
        for constant in op.inputs[1:]:
            trial.tensors[constant] = graph.tensors[constant]
        result = graph.tensors[op.outputs[0]]
        trial.add_tensor(replace(result, name=made.outputs[0], shape=(256,)))
        trial.ops.append(made)
        (name,) = made.outputs
    trial.outputs = [name]
    values = run_graph(trial, {"x": np.arange(-128, 128, dtype=np.int8)})[name]
    table = graph.add_constant(f"{last.name}_table", values, "int8")
    at = graph.ops.index(last)
    folded = Op(
        kind="TABLE",
        name=last.name,
        inputs=[first.inputs[0], table],
        outputs=list(last.outputs),
        source=last.source,
    )
    graph.ops[at] = folded
    gone = {id(op) for op in chain[:-1]}
    graph.ops = [op for op in graph.ops if id(op) not in gone]

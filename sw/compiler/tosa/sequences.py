"""Sequences of `spec.sequences` in a graph."""

from collections.abc import Sequence as Items

from spec.sequences import Sequence
from sw.compiler.tosa.graph import Graph


def emit(
    graph: Graph,
    sequence: Sequence,
    inputs: Items[str],
    *,
    name: str,
    source: str = "",
    module: str = "",
) -> list[str]:
    """Append the operators of `sequence`, reading `inputs`; the names of its results.

    `name` begins the operators' names; `source` and `module` say where they come from.
    """
    names = dict(zip(sequence.inputs, inputs, strict=True))
    for key, data in sequence.constants.items():
        names[key] = graph.add_constant(f"{name}_{key}", data, sequence.dtypes[key])
    for step in sequence.steps:
        label = graph.fresh_name(f"{name}_{step.kind.lower()}")
        if module:
            graph.modules[label] = module
        names[step.output] = graph.add_op(
            step.kind,
            [names[i] for i in step.inputs],
            step.attributes,
            name=label,
            source=source,
            out_dtype=step.dtype,
        )
    return [names[out] for out in sequence.outputs]

"""A RESCALE moves before a rotation: a CONCAT of the parts of one tensor, in another order.

The layer that makes the tensor then has it, and the parts that are copied have fewer bytes.
"""

from dataclasses import replace

from sw.compiler.tosa.graph import Graph, Op


def early_rotations(graph: Graph) -> None:
    """Every RESCALE to a narrower type that alone reads a rotation; of several, the last first."""
    for op in reversed([op for op in graph.ops if op.kind == "RESCALE"]):
        while parts := _rotated(graph, op):
            _move(graph, op, parts)


def _rotated(graph: Graph, rescale: Op) -> list[Op]:
    """The SLICEs of one tensor that a CONCAT before `rescale` joins, or [] if it is none."""
    tensors, producers, readers = graph.tensors, graph.producers(), graph.consumers()
    attributes, joined = rescale.attributes, rescale.inputs[0]
    unsigned = attributes["input_unsigned"] or attributes["output_unsigned"]
    if unsigned or not _is_alone(graph, readers, joined):
        return []
    if tensors[rescale.outputs[0]].nbytes >= tensors[joined].nbytes:
        return []
    concat = producers.get(joined)
    if concat is None or concat.kind != "CONCAT":
        return []
    parts = [producers.get(name) for name in concat.inputs]
    slices = [op for op in parts if op is not None and op.kind == "SLICE"]
    sources = {op.inputs[0] for op in slices}
    if len(slices) < len(concat.inputs) or len(sources) > 1:
        return []
    source, shape = tensors[sources.pop()].shape, tensors[joined].shape
    if attributes["per_channel"] and concat.attributes["axis"] == len(shape) - 1:
        return []
    # Of other parts some elements would be rescaled that nobody wants, or some twice.
    alone = all(_is_alone(graph, readers, name) for name in concat.inputs)
    return slices if source == shape and alone else []


def _is_alone(graph: Graph, readers: dict[str, list[Op]], name: str) -> bool:
    """Whether one operator reads a tensor, once."""
    return len(readers[name]) == 1 and name not in graph.outputs


def _move(graph: Graph, rescale: Op, parts: list[Op]) -> None:
    """`rescale` before `parts`, whose CONCAT then makes its result."""
    source, result = graph.tensors[parts[0].inputs[0]], graph.tensors[rescale.outputs[0]]
    (concat,) = (op for op in graph.ops if op.outputs == [rescale.inputs[0]])
    early = replace(result, name=graph.fresh_name(f"{result.name}_whole"), shape=source.shape)
    graph.add_tensor(early)
    concat.outputs, concat.inputs = rescale.outputs, []
    rescale.inputs[0], rescale.outputs = source.name, [early.name]
    graph.ops.remove(rescale)
    graph.ops.insert(min(graph.ops.index(op) for op in parts), rescale)
    for part in parts:
        shape = graph.tensors[part.outputs[0]].shape
        name = graph.fresh_name(f"{result.name}_part")
        graph.add_tensor(replace(result, name=name, shape=shape))
        part.inputs[0], part.outputs = early.name, [name]
        concat.inputs.append(name)

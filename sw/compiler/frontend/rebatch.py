"""The same model for several samples a run: a TOSA graph with a larger first dimension.

The weights, scales and zero points stay what they are, so that every sample gives the same
integers in a batch as alone. The batch is the outermost dimension in memory everywhere, so that
each operator either works on samples one by one, or is refused.
"""

from dataclasses import replace

from sw.compiler.errors import CompileError
from sw.compiler.frontend.ports import Imported, ModelPort
from sw.compiler.tosa.graph import Graph, Op

_BY_SAMPLE = (
    "CONV2D",
    "DEPTHWISE_CONV2D",
    "MATMUL",
    "MAX_POOL2D",
    "AVG_POOL2D",
    "ADD",
    "SUB",
    "MAXIMUM",
    "MINIMUM",
    "RESCALE",
    "CLAMP",
    "TABLE",
    "IDENTITY",
)
"""Operators that never combine elements of different samples and keep the first dimension."""


def rebatch(imported: Imported, factor: int) -> Imported:
    """`imported` for `factor` times as many samples a run (≥ 1).

    `CompileError` names the operator or port that mixes samples.
    """
    if factor < 1:
        raise CompileError(f"batch factor {factor}: must be at least 1")
    if factor == 1:
        return imported
    graph = imported.graph.copy()
    axes = dict.fromkeys(graph.inputs, 0)
    for op in graph.ops:
        if any(name in axes for name in op.inputs):
            axes[op.outputs[0]] = _axis(graph, op, axes, factor)
    for name, axis in axes.items():
        tensor = graph.tensors[name]
        if not tensor.shape:
            raise CompileError(f"tensor {name!r} has no dimensions, so no batch")
        shape = tuple(s * factor if i == axis else s for i, s in enumerate(tensor.shape))
        graph.tensors[name] = replace(tensor, shape=shape)
    try:
        graph.verify()
    except CompileError as error:
        raise CompileError(
            f"the graph cannot take {factor} times as many samples: {error}",
            hint="export the model with example inputs of that batch",
        ) from None
    ports = [
        tuple(_port(port, factor) for port in row) for row in (imported.inputs, imported.outputs)
    ]
    return Imported(graph=graph, inputs=ports[0], outputs=ports[1])


def _axis(graph: Graph, op: Op, axes: dict[str, int], factor: int) -> int:
    """Which dimension of the result holds the samples; every one before it has size 1."""
    before = {axes[name] for name in op.inputs if name in axes}
    if len(before) != 1:
        raise _mixes(op, "its operands hold the samples in different dimensions")
    (axis,) = before
    if op.kind in _BY_SAMPLE:
        return axis
    if op.kind == "RESHAPE":
        return _reshape(graph, op, factor)
    if op.kind == "TRANSPOSE":
        good = op.attributes["perms"][: axis + 1] == tuple(range(axis + 1))
    elif op.kind == "PAD":
        good = not graph.constant(op.inputs[1])[: 2 * axis + 2].any()
    elif op.kind == "SLICE":
        good = _slice(graph, op, axis, factor)
    else:
        good = False
    if not good:
        raise _mixes(op, "it moves or cuts the dimension of the samples")
    return axis


def _reshape(graph: Graph, op: Op, factor: int) -> int:
    """The samples stay outermost; rows of a linear layer stay the rows of one matrix."""
    shape = graph.constant(op.inputs[1]).copy()
    users = [user for user in graph.ops if op.outputs[0] in user.inputs]
    linear = len(shape) == 4 and shape[0] == shape[2] == 1
    axis = int(linear and all(_is_product(graph, user) for user in users))
    shape[axis] *= factor
    op.inputs[1] = graph.add_constant(op.inputs[1], shape, "shape")
    return axis


def _is_product(graph: Graph, op: Op) -> bool:
    """A CONV2D that is a linear layer over rows."""
    return op.kind == "CONV2D" and graph.tensors[op.inputs[1]].shape[1:3] == (1, 1)


def _slice(graph: Graph, op: Op, axis: int, factor: int) -> bool:
    start, size = (graph.constant(name) for name in op.inputs[1:3])
    if start[axis] or size[axis] != graph.tensors[op.inputs[0]].shape[axis]:
        return False
    wanted = size.copy()
    wanted[axis] *= factor
    op.inputs[2] = graph.add_constant(op.inputs[2], wanted, "shape")
    return True


def _mixes(op: Op, why: str) -> CompileError:
    return CompileError(
        f"{op.kind} cannot take more samples than it was exported for: {why}",
        node=op.name,
        source=op.source,
        hint="export the model with example inputs of that batch",
    )


def _port(port: ModelPort, factor: int) -> ModelPort:
    try:
        return replace(port, layout=port.layout.repeated(factor))
    except (ValueError, IndexError):
        raise CompileError(
            f"port {port.name!r} of shape {list(port.shape)}: its first dimension is not the batch",
            hint="export the model with example inputs of that batch",
        ) from None

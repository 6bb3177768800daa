"""Move a RESHAPE behind what follows a product, so that the product's layer can take it.

A sum or a MUL that follows then has the product's shape, and its other operand is reshaped: before
its RESCALE, a constant of the channels, or one element a row.
"""

from dataclasses import replace

from sw.compiler.lower.fusion.sums import PRODUCTS
from sw.compiler.tosa.graph import Graph, Op, Tensor

_FOLLOWERS = ("RESCALE", "CLAMP", "TABLE")


def late_reshapes(graph: Graph) -> None:
    """product → RESHAPE → RESCALE → ADD … becomes product → RESCALE → ADD … → RESHAPE.

    Only where nobody else reads what lies between; per-channel values keep their channels.
    """
    for op in list(graph.ops):
        if op.kind in PRODUCTS:
            _follow(graph, op)


def _follow(graph: Graph, product: Op) -> None:
    reshape = _only_reader(graph, product.outputs[0])
    while reshape is not None and reshape.kind in (*_FOLLOWERS, "ADD", "MUL"):
        reshape = _only_reader(graph, reshape.outputs[0])
    if reshape is None or reshape.kind != "RESHAPE":
        return
    while (op := _only_reader(graph, reshape.outputs[0])) is not None and _moves(
        graph, reshape, op
    ):
        _swap(graph, reshape, op)
    binary = _binary(graph, reshape)
    if binary is not None:
        _swap(graph, reshape, binary)
        _follow(graph, product)


def _binary(graph: Graph, reshape: Op) -> Op | None:
    """The ADD or MUL behind `reshape`, made ready to be moved: its other operand has a shape for
    the earlier one.
    """
    (name,) = reshape.outputs
    readers = [op for op in graph.ops if name in op.inputs]
    if len(readers) != 1 or readers[0].kind not in ("ADD", "MUL") or name in graph.outputs:
        return None
    (op,) = readers
    if op.inputs[:2].count(name) == 2:
        return None
    op.inputs[:2] = sorted(op.inputs[:2], key=lambda operand: operand != name)
    before, after = (graph.tensors[t].shape for t in (reshape.inputs[0], name))
    other = graph.tensors[op.inputs[1]]
    same = before[-1:] == after[-1:]
    if other.is_constant and other.data is not None:
        if not same or other.size != other.shape[-1] or other.size not in (1, after[-1]):
            return None
        shape = (*(1 for _ in before[:-1]), other.size)
        op.inputs[1] = graph.add_constant(other.name, other.data.reshape(shape), other.dtype)
        return op
    if op.kind == "MUL":
        if not same or other.shape != (*after[:-1], 1):
            return None
        op.inputs[1] = _reshaped(graph, other, (*before[:-1], 1))
        return op
    return op if _reshape_operand(graph, op, before, after) else None


def _reshape_operand(
    graph: Graph, add: Op, before: tuple[int, ...], after: tuple[int, ...]
) -> bool:
    """Reshape the other operand of a sum before its RESCALE, if it has one of its own."""
    rescale = next((op for op in graph.ops if add.inputs[1] in op.outputs), None)
    if rescale is None or rescale.kind != "RESCALE" or rescale.attributes["per_channel"]:
        return False
    wide = graph.tensors[add.inputs[1]]
    alone = sum(op.inputs.count(wide.name) for op in graph.ops) == 1
    if wide.shape != after or not alone or wide.name in graph.outputs:
        return False
    early = replace(wide, name=graph.fresh_name(f"{wide.name}_early"), shape=before)
    graph.add_tensor(early)
    rescale.inputs[0] = _reshaped(graph, graph.tensors[rescale.inputs[0]], before)
    rescale.outputs[0] = add.inputs[1] = early.name
    return True


def _reshaped(graph: Graph, tensor: Tensor, shape: tuple[int, ...]) -> str:
    """`tensor` in another shape, as soon as it is there."""
    made = replace(tensor, name=graph.fresh_name(f"{tensor.name}_early"), shape=shape)
    graph.add_tensor(made)
    target = graph.add_constant(f"{made.name}_shape", shape, "shape")
    at = next((i for i, op in enumerate(graph.ops) if tensor.name in op.outputs), -1) + 1
    inputs, outputs = [tensor.name, target], [made.name]
    graph.ops.insert(at, Op(kind="RESHAPE", name=made.name, inputs=inputs, outputs=outputs))
    return made.name


def _only_reader(graph: Graph, name: str) -> Op | None:
    """The operator that reads tensor `name` first of all, if it is the only one."""
    readers = [op for op in graph.ops if name in op.inputs]
    if len(readers) != 1 or name in graph.outputs or readers[0].inputs[0] != name:
        return None
    return readers[0] if readers[0].inputs.count(name) == 1 else None


def _moves(graph: Graph, reshape: Op, op: Op) -> bool:
    if op.kind not in _FOLLOWERS:
        return False
    before, after = (graph.tensors[t].shape for t in (reshape.inputs[0], reshape.outputs[0]))
    return not op.attributes.get("per_channel") or before[-1:] == after[-1:]


def _swap(graph: Graph, reshape: Op, op: Op) -> None:
    """`op` reads what `reshape` read; `reshape` then has the result of `op`."""
    before, result = graph.tensors[reshape.inputs[0]], graph.tensors[op.outputs[0]]
    early = replace(result, name=graph.fresh_name(f"{result.name}_early"), shape=before.shape)
    graph.add_tensor(early)
    op.inputs[0], op.outputs[0] = before.name, early.name
    reshape.inputs[0], reshape.outputs[0] = early.name, result.name
    graph.ops.remove(reshape)
    graph.ops.insert(graph.ops.index(op) + 1, reshape)

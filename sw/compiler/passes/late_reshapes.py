"""Move a RESHAPE behind what follows a product, so that the product's layer can take it.

Operators of one operand move as they are. An ADD or a MUL moves if its other operand can be given
the product's shape: OTHER_OPERANDS says which can, and how.
"""

from dataclasses import replace

from sw.compiler.lower.fusion.epilogues import FOLLOWING
from sw.compiler.lower.fusion.sums import PRODUCTS
from sw.compiler.passes.exchange import exchange
from sw.compiler.tosa.graph import Graph, Op, Tensor

Shape = tuple[int, ...]


def late_reshapes(graph: Graph) -> None:
    """product → RESHAPE → RESCALE → ADD … becomes product → RESCALE → ADD … → RESHAPE.

    Only where nobody else reads what lies between; per-channel values keep their channels.
    """
    for op in list(graph.ops):
        if op.kind in PRODUCTS:
            _follow(graph, op)


def _follow(graph: Graph, product: Op) -> None:
    reshape = _only_reader(graph, product.outputs[0])
    while reshape is not None and reshape.kind in (*FOLLOWING, "ADD", "MUL"):
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
        # More may follow it now.
        _follow(graph, product)


def _binary(graph: Graph, reshape: Op) -> Op | None:
    """The ADD or MUL behind `reshape`, made ready to be moved: see OTHER_OPERANDS."""
    (name,) = reshape.outputs
    readers = [op for op in graph.ops if name in op.inputs]
    if len(readers) != 1 or readers[0].kind not in ("ADD", "MUL") or name in graph.outputs:
        return None
    (op,) = readers
    if op.inputs[:2].count(name) == 2:
        return None
    op.inputs[:2] = sorted(op.inputs[:2], key=lambda operand: operand != name)
    before, after = (graph.tensors[t].shape for t in (reshape.inputs[0], name))
    return op if any(reshape(graph, op, before, after) for reshape in OTHER_OPERANDS) else None


def _by_channel(graph: Graph, op: Op, before: Shape, after: Shape) -> bool:
    """A constant of one element for each channel, or for all, where channels stay channels."""
    other = graph.tensors[op.inputs[1]]
    if other.data is None or before[-1:] != after[-1:]:
        return False
    if other.size != other.shape[-1] or other.size not in (1, after[-1]):
        return False
    shape = (*(1 for _ in before[:-1]), other.size)
    op.inputs[1] = graph.add_constant(other.name, other.data.reshape(shape), other.dtype)
    return True


def _by_row(graph: Graph, op: Op, before: Shape, after: Shape) -> bool:
    """A factor for each row of channels."""
    other = graph.tensors[op.inputs[1]]
    if op.kind != "MUL" or other.is_constant:
        return False
    if before[-1:] != after[-1:] or other.shape != (*after[:-1], 1):
        return False
    op.inputs[1] = _reshaped(graph, other, (*before[:-1], 1))
    return True


def _rescaled(graph: Graph, op: Op, before: Shape, after: Shape) -> bool:
    """A summand that a RESCALE makes for this sum alone; it is reshaped before the RESCALE, which
    the sum's layer must still find at its operand.
    """
    other = graph.tensors[op.inputs[1]]
    made = rescale = _made_for_one(graph, other.name)
    if made is not None and made.kind == "RESHAPE":
        rescale = _made_for_one(graph, made.inputs[0])
    if op.kind != "ADD" or rescale is None or rescale.kind != "RESCALE":
        return False
    if rescale.attributes["per_channel"] or other.shape != after:
        return False
    early = replace(other, name=graph.fresh_name(f"{other.name}_early"), shape=before)
    graph.add_tensor(early)
    if made is not None and made is not rescale:
        graph.ops.remove(made)
    rescale.inputs[0] = _reshaped(graph, graph.tensors[rescale.inputs[0]], before)
    rescale.outputs[0] = op.inputs[1] = early.name
    return True


def _made_for_one(graph: Graph, name: str) -> Op | None:
    """What makes a tensor that one operator reads, once, and nobody else."""
    if name in graph.outputs or sum(o.inputs.count(name) for o in graph.ops) != 1:
        return None
    return next((o for o in graph.ops if name in o.outputs), None)


OTHER_OPERANDS = (_by_channel, _by_row, _rescaled)
"""What the other operand may be: each gives it the shape before the RESHAPE, or returns False."""


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
    if op.kind not in FOLLOWING:
        return False
    before, after = (graph.tensors[t].shape for t in (reshape.inputs[0], reshape.outputs[0]))
    return not op.attributes.get("per_channel") or before[-1:] == after[-1:]


def _swap(graph: Graph, reshape: Op, op: Op) -> None:
    """`op` reads what `reshape` read; `reshape` then has the result of `op`."""
    before, result = graph.tensors[reshape.inputs[0]], graph.tensors[op.outputs[0]]
    early = replace(result, name=graph.fresh_name(f"{result.name}_early"), shape=before.shape)
    exchange(graph, reshape, op, early)

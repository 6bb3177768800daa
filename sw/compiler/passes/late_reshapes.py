"""Move a RESHAPE behind what follows a product, so that the product's layer can take it.

A sum that follows is one of the product's shape; its other operand is reshaped before its RESCALE.
"""

from dataclasses import replace

from sw.compiler.sums import PRODUCTS
from sw.compiler.tosa import Graph, Op

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
    while reshape is not None and reshape.kind in (*_FOLLOWERS, "ADD"):
        reshape = _only_reader(graph, reshape.outputs[0])
    if reshape is None or reshape.kind != "RESHAPE":
        return
    while (op := _only_reader(graph, reshape.outputs[0])) is not None and _moves(
        graph, reshape, op
    ):
        _swap(graph, reshape, op)
    add = _sum(graph, reshape)
    if add is not None:
        _swap(graph, reshape, add)
        _follow(graph, product)


def _sum(graph: Graph, reshape: Op) -> Op | None:
    """The ADD behind `reshape`, made ready to be moved: its other operand has the earlier shape."""
    readers = [op for op in graph.ops if reshape.outputs[0] in op.inputs]
    if len(readers) != 1 or readers[0].kind != "ADD" or reshape.outputs[0] in graph.outputs:
        return None
    (add,) = readers
    add.inputs.sort(key=lambda name: name != reshape.outputs[0])
    rescale = next((op for op in graph.ops if add.inputs[1] in op.outputs), None)
    if rescale is None or rescale.kind != "RESCALE" or rescale.attributes["per_channel"]:
        return None
    before, after = (graph.tensors[t] for t in (reshape.inputs[0], reshape.outputs[0]))
    wide = graph.tensors[add.inputs[1]]
    alone = sum(op.inputs.count(wide.name) for op in graph.ops) == 1
    if wide.shape != after.shape or not alone or wide.name in graph.outputs:
        return None
    source = graph.tensors[rescale.inputs[0]]
    early = [
        replace(t, name=graph.fresh_name(f"{t.name}_early"), shape=before.shape)
        for t in (source, wide)
    ]
    for tensor in early:
        graph.add_tensor(tensor)
    shape = graph.add_constant(f"{early[0].name}_shape", before.shape, "shape")
    move = Op(
        kind="RESHAPE",
        name=early[0].name,
        inputs=[source.name, shape],
        outputs=[early[0].name],
        source=rescale.source,
    )
    graph.ops.insert(graph.ops.index(rescale), move)
    rescale.inputs[0], rescale.outputs[0] = early[0].name, early[1].name
    add.inputs[1] = early[1].name
    return add


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

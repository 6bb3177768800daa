"""Nodes of a captured graph replaced by what a PyTorch function of their operands does.

The function is traced on fake tensors, composite operators (linear, convolutions, softmax) stay
whole, and its nodes take the place of the call. They keep its source line and its module.
"""

import operator
from collections.abc import Callable, Collection, Mapping
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx import GraphModule, Node
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils import _pytree as pytree

from sw.compiler.frontend.operator_sets import PART_OF

_OPERAND = "operand"
"""Key of an input's meta data: which operand it stands for."""

Function = Callable[..., Any]
"""PyTorch code with the operator's own arguments: a tensor, or a tuple where it has several.

None stands for a result that it cannot give.
"""


def leaves_of(node: Node) -> list[Node]:
    """The operands of a call, one for each time that it names them."""
    leaves = pytree.tree_leaves((node.args, node.kwargs))
    return [leaf for leaf in leaves if isinstance(leaf, Node)]


def traced(
    node: Node, function: Function, fixed: Collection[Node], whole: bool = True
) -> GraphModule:
    """The graph of `function(*node.args, **node.kwargs)`: an input for each of `leaves_of(node)`.

    Operands in `fixed` are attributes (fake ones) instead: no input reaches them. whole:
    composite operators stay whole.
    """
    leaves, spec = pytree.tree_flatten((node.args, node.kwargs))
    operands = leaves_of(node)

    def run(*tensors: torch.Tensor) -> Any:
        given = iter(tensors)
        values = [next(given) if isinstance(leaf, Node) else leaf for leaf in leaves]
        args, kwargs = pytree.tree_unflatten(values, spec)
        return function(*args, **kwargs)

    with FakeTensorMode(), torch.no_grad():
        fakes = [_fake(operand.meta["val"]) for operand in operands]
        graph = make_fx(run, pre_dispatch=whole, tracing_mode="fake")(*fakes)
    inputs = [n for n in graph.graph.nodes if n.op == "placeholder"]
    for i, (at, operand) in enumerate(zip(inputs, operands, strict=True)):
        at.meta[_OPERAND] = i
        if operand in fixed:
            at.op = "get_attr"
            graph.register_buffer(str(at.target), at.meta["val"])
    return graph


def _fake(value: torch.Tensor) -> torch.Tensor:
    return torch.empty_strided(value.shape, value.stride(), dtype=value.dtype)


def missing(node: Node, body: GraphModule) -> str:
    """'' where `body` gives every result of `node` that is read, else which one it does not."""
    (output,) = (n for n in body.graph.nodes if n.op == "output")
    results = output.args[0]
    for user in () if isinstance(results, Node) else node.users:
        if user.target is not operator.getitem:
            return "its results are read as one"
        if not isinstance(results[user.args[1]], Node):
            return f"result {user.args[1]}: only the first"
    return ""


def inline(module: GraphModule, node: Node, body: GraphModule) -> None:
    """Put `body`, as `traced` made it, in the place of `node`. Dead code remains.

    What gives the one result of `node` keeps its name, by which reports call it.
    """
    operands = leaves_of(node)
    with module.graph.inserting_before(node):
        results = copied(module, body, node)
    if isinstance(results, Node):
        node.replace_all_uses_with(results)
    else:
        for user in list(node.users):
            assert user.target is operator.getitem
            user.replace_all_uses_with(results[user.args[1]])
            module.graph.erase_node(user)
    module.graph.erase_node(node)
    if isinstance(results, Node) and results not in operands:
        results.name = node.name


def called(at: Node, target: Any, *args: Any) -> Node:
    """A call where the graph of `at` inserts now, with the origin of `at` and its own value."""
    made = at.graph.call_function(target, args)
    given = pytree.tree_map(lambda leaf: leaf.meta["val"] if isinstance(leaf, Node) else leaf, args)
    made.meta = {**at.meta, "val": target(*given)}
    return made


def copied(module: GraphModule, body: GraphModule, node: Node) -> Any:
    """The results of `body`, as `traced` made it of `node`: its nodes copied into `module`."""
    operands, known = leaves_of(node), dict[Node, Node]()
    for step in body.graph.nodes:
        if _OPERAND in step.meta:
            known[step] = operands[step.meta[_OPERAND]]
            continue
        if step.op == "output":
            return pytree.tree_map(lambda leaf: known.get(leaf, leaf), step.args[0])
        if step.op == "get_attr":
            value = getattr(body, step.target)
            new = _constant(module, f"{node.name}_{step.target}", value)
        else:
            new = module.graph.node_copy(step, lambda leaf: known[leaf])
        new.meta = {**_origin(node.meta), PART_OF: node.name, "val": step.meta["val"]}
        known[step] = new
    raise AssertionError("a traced graph has an output")


def _constant(module: GraphModule, name: str, value: torch.Tensor) -> Node:
    while hasattr(module, name):
        name += "_"
    module.register_buffer(name, value)
    return module.graph.get_attr(name)


def _origin(meta: Mapping[str, Any]) -> dict[str, Any]:
    return {key: meta[key] for key in ("stack_trace", "nn_module_stack") if key in meta}

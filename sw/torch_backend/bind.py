"""A graph of Dynamo for one call: parameters as attributes, sizes and numbers as constants.

Dynamo passes parameters, sizes that change (SymInts) and numbers as inputs of the graph. Here each
becomes what the compiler can use: an attribute, a constant; tensors of the user stay inputs.
"""

import zlib
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch.fx import Graph, GraphModule, Node

Kind = Literal["input", "parameter", "number"]
Key = tuple[Any, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Signature:
    """The placeholders of a graph and what each is."""

    kinds: tuple[Kind, ...]

    def pick(self, args: Sequence[Any], kind: Kind, never: Collection[int] = ()) -> list[Any]:
        """Arguments of one kind, in order; parameters at positions `never` count as inputs."""
        return [a for i, a in enumerate(args) if self.kind(i, never) == kind]

    def kind(self, position: int, never: Collection[int] = ()) -> Kind:
        return "input" if position in never else self.kinds[position]


def signature(module: GraphModule, examples: Sequence[Any]) -> Signature:
    """What each placeholder is, from Dynamo's notes and the example inputs."""
    nodes = [n for n in module.graph.nodes if n.op == "placeholder"]
    return Signature(kinds=tuple(_kind(n, e) for n, e in zip(nodes, examples, strict=True)))


def _kind(node: Node, example: Any) -> Kind:
    if not isinstance(example, torch.Tensor):
        return "number"
    if example.dim() == 0 and node.users and all(_is_item(u) for u in node.users):
        return "number"  # a Python float that Dynamo wrapped
    notes = node.meta.get("tensor_dict") or {}
    fixed = isinstance(example, torch.nn.Parameter) or notes.get("_dynamo_static_input_type")
    return "parameter" if fixed else "input"


def _is_item(node: Node) -> bool:
    return node.op == "call_method" and node.target == "item"


def number(value: Any) -> Any:
    """A number that may be wrapped in a tensor."""
    return value.item() if isinstance(value, torch.Tensor) else value


def shape_key(inputs: Sequence[Any], numbers: Sequence[Any]) -> Key:
    """What a program depends on: shapes, strides, types of the inputs, and the numbers."""
    tensors = tuple((tuple(t.shape), t.stride(), t.dtype) for t in inputs)
    return tensors, tuple(number(n) for n in numbers)


def identity(tensor: torch.Tensor) -> Key:
    return id(tensor), tensor.data_ptr()


def version(tensor: torch.Tensor) -> int:
    """Changes with every write to `tensor`; tensors of inference mode are not counted, but read."""
    if tensor.is_inference():
        plain = tensor.detach().contiguous().cpu()
        return zlib.crc32(plain.reshape(-1).view(torch.uint8).numpy().tobytes())
    return int(tensor._version)


def bind(
    module: GraphModule, kinds: Signature, args: Sequence[Any], never: Collection[int]
) -> GraphModule:
    """`module` as a function of its tensor inputs; everything else is what `args` has now."""
    graph = Graph()
    values: dict[Node, Any] = {}
    root: dict[str, Any] = {}
    nodes = [n for n in module.graph.nodes if n.op == "placeholder"]
    for i, node in enumerate(nodes):
        if kinds.kind(i, never) == "input":
            values[node] = graph.placeholder(node.name)
    for i, (node, value) in enumerate(zip(nodes, args, strict=True)):
        kind = kinds.kind(i, never)
        if kind == "parameter":
            root[node.name] = value
            values[node] = graph.get_attr(node.name)
        elif kind == "number":
            values[node] = number(value)
            for user in node.users:
                if _is_item(user):
                    values[user] = number(value)
    for node in module.graph.nodes:
        if node.op in ("get_attr", "call_module"):
            root[str(node.target)] = attribute(module, str(node.target))
    result = graph.graph_copy(module.graph, values)
    graph.output(result)
    return GraphModule(root, graph)


def attribute(module: torch.nn.Module, path: str) -> Any:
    value: Any = module
    for part in path.split("."):
        value = getattr(value, part)
    return value

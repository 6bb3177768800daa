"""Parts of a graph as graphs of their own, and the graph that calls them."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import torch
from torch.fx import Graph, GraphModule, Interpreter, Node

from sw.torch_backend.bind import attribute
from sw.torch_backend.partition import Partition, writes


@dataclass(frozen=True, slots=True, kw_only=True)
class Extract:
    """module: the part; inputs, outputs: nodes of the whole graph; nodes: the part's node of each.

    Nodes of the part that no input reaches are copies, so that it knows its own constants.
    """

    module: GraphModule
    inputs: list[Node]
    outputs: list[Node]
    nodes: dict[Node, Node]


def extract(whole: GraphModule, part: Sequence[Node], fixed: Collection[Node]) -> Extract:
    """The nodes of `part` as a module that returns what others read of them."""
    inside = set(part)
    inputs = [
        n
        for n in whole.graph.nodes
        if n not in inside and n not in fixed and any(u in inside for u in n.users)
    ]
    outputs = [n for n in part if any(u not in inside for u in n.users)]
    graph, copies = Graph(), dict[Node, Node]()
    root: dict[str, Any] = {}
    for node in inputs:
        copies[node] = graph.placeholder(node.name)
        copies[node].meta = dict(node.meta)
    needed = _ancestors(part, fixed)
    for node in whole.graph.nodes:
        if node in needed or node in inside:
            copies[node] = graph.node_copy(node, copies.__getitem__)
            if node.op == "get_attr":
                root[str(node.target)] = attribute(whole, str(node.target))
    graph.output(tuple(copies[n] for n in outputs))
    module = GraphModule(root, graph)
    return Extract(
        module=module, inputs=inputs, outputs=outputs, nodes={copies[n]: n for n in part}
    )


def _ancestors(part: Sequence[Node], fixed: Collection[Node]) -> set[Node]:
    found: set[Node] = set()
    todo = [n for node in part for n in node.all_input_nodes if n in fixed]
    while todo:
        node = todo.pop()
        if node not in found:
            found.add(node)
            todo += node.all_input_nodes
    return found


def assemble(
    whole: GraphModule,
    partition: Partition,
    extracts: Sequence[Extract],
    runners: Mapping[str, torch.nn.Module],
    fixed: Collection[Node],
    kernels: Mapping[Node, str] = MappingProxyType({}),
) -> GraphModule:
    """The whole graph with call `npu_<i>` of `runners` in place of part i.

    `kernels`: the runner's name for nodes that are parts of their own.
    """
    graph, values = Graph(), dict[Node, Node]()
    root: dict[str, Any] = dict(runners)
    nodes = list(whole.graph.nodes)
    for node in nodes:
        if node.op == "get_attr":
            root[str(node.target)] = attribute(whole, str(node.target))
        if node.op == "placeholder" or node in fixed:
            values[node] = graph.node_copy(node, values.__getitem__)
    for slot in partition.order:
        if isinstance(slot, Node) and slot in kernels:
            args, keywords = (
                torch.fx.map_arg(each, values.__getitem__) for each in (slot.args, slot.kwargs)
            )
            values[slot] = graph.call_module(kernels[slot], args, keywords)
            continue
        if isinstance(slot, Node):
            values[slot] = graph.node_copy(slot, values.__getitem__)
            continue
        made = extracts[slot]
        call = graph.call_module(f"npu_{slot}", tuple(values[n] for n in made.inputs))
        for i, node in enumerate(made.outputs):
            values[node] = graph.call_function(_item, (call, i))
    (output,) = (n for n in nodes if n.op == "output")
    graph.output(torch.fx.map_arg(output.args[0], values.__getitem__))
    module = GraphModule(root, graph)
    graph.eliminate_dead_code()
    module = GraphModule(module, graph)  # without the attributes that nothing reads any longer
    graph.lint()
    return module


def _item(values: Sequence[Any], index: int) -> Any:
    return values[index]


class _Seen(Interpreter):
    """Runs a graph without its writes and keeps the values of some nodes."""

    def __init__(self, module: GraphModule, wanted: Collection[Node]) -> None:
        super().__init__(module)
        self.wanted = wanted
        self.kept: dict[Node, Any] = {}

    def run_node(self, n: Node) -> Any:
        if writes(n):
            return self.fetch_args_kwargs_from_env(n)[0][0]
        result = super().run_node(n)
        if n in self.wanted:
            self.kept[n] = result
        return result


def values_of(
    module: GraphModule, wanted: Collection[Node], inputs: Sequence[torch.Tensor]
) -> dict[Node, torch.Tensor]:
    """What the nodes `wanted` are in a run on `inputs`; nothing outside is changed."""
    seen = _Seen(module, wanted)
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        seen.run(*(t.detach().clone() for t in inputs))
    return seen.kept

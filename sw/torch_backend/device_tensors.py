"""Tensors of `torch.device("systola")` in a graph of Dynamo: the same memory, as the host sees it.

`sw/torch_device` makes that device, and knows this package. PyTorch's register of devices is how it
is found here.
"""

from collections.abc import Iterable
from typing import Any

import torch
from torch.fx import Graph, GraphModule
from torch.fx.node import map_aggregate
from torch.utils._pytree import tree_map

from sw.torch_backend.bind import attribute
from sw.torch_backend.gradients import without_gradient

NAME = "systola"


def any_on_device(values: Iterable[Any]) -> bool:
    """Whether one of `values` is a tensor of the device."""
    return any(isinstance(v, torch.Tensor) and v.device.type == NAME for v in values)


def to_host(value: Any) -> Any:
    """A tensor of the device as one of the host on the same memory; anything else as it is."""
    return torch.get_device_module(NAME).host(value) if any_on_device([value]) else value


def to_device(results: Any, owners: Iterable[torch.Tensor], source: str) -> Any:
    """Results on the device; where one of `owners` wants a gradient, they say they have none."""
    anchor = next((t for t in owners if t.requires_grad), None) if torch.is_grad_enabled() else None

    def moved(value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        found = value.to(NAME)
        wanted = anchor is not None and found.is_floating_point()
        return without_gradient(anchor, (found,), source)[0] if wanted else found

    return tree_map(moved, results)


def host_graph(module: GraphModule) -> GraphModule:
    """The graph with the CPU for every device that its operators name."""
    graph = Graph()
    graph.output(graph.graph_copy(module.graph, {}))
    for node in graph.nodes:
        node.args = map_aggregate(node.args, _host_name)
        node.kwargs = map_aggregate(node.kwargs, _host_name)
    root = {
        str(n.target): to_host(attribute(module, str(n.target)))
        for n in graph.nodes
        if n.op in ("get_attr", "call_module")
    }
    return GraphModule(root, graph)


def _host_name(value: Any) -> Any:
    if isinstance(value, torch.device):
        return torch.device("cpu") if value.type == NAME else value
    return "cpu" if isinstance(value, str) and value.partition(":")[0] == NAME else value

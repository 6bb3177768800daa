"""Half and double precision inside a model: computed in float32, as the model itself is.

`x.double()` for a sum that must not lose digits, `.half()` around an attention: the NPU's integers
have digits of their own.
"""

from typing import Any

import torch
from torch.fx import GraphModule
from torch.fx.node import map_aggregate

OTHERS = frozenset({torch.float64, torch.float16, torch.bfloat16})


def compute_in_single(module: GraphModule) -> None:
    """Every float of the graph becomes float32: constants, conversions, and the types in the nodes'
    meta data.
    """
    for node in module.graph.nodes:
        if node.op == "get_attr":
            path, _, name = node.target.rpartition(".")
            owner = module.get_submodule(path)
            value = getattr(owner, name, None)
            if isinstance(value, torch.Tensor) and value.dtype in OTHERS:
                delattr(owner, name)
                owner.register_buffer(name, value.detach().float())
        node.args = map_aggregate(node.args, _single)
        node.kwargs = map_aggregate(node.kwargs, _single)
        if "val" in node.meta:
            node.meta["val"] = map_aggregate(node.meta["val"], _noted)


def _single(value: Any) -> Any:
    return torch.float32 if isinstance(value, torch.dtype) and value in OTHERS else value


def _noted(value: Any) -> Any:
    if isinstance(value, torch.Tensor) and value.dtype in OTHERS:
        return torch.empty_like(value, dtype=torch.float32)
    return value

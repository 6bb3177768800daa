"""PyTorch's own int8 graph, node by node: the integers that every quantize node gives."""

from collections.abc import Iterable, Sequence
from typing import Any

import torch
from numpy.typing import NDArray
from torch.fx import GraphModule, Interpreter, Node

from sw.compiler.frontend.threads import one_thread


class _Recorder(Interpreter):
    """Runs a graph and keeps the values of the nodes called `wanted`."""

    def __init__(self, module: GraphModule, wanted: Iterable[str]) -> None:
        super().__init__(module)
        self._wanted = set(wanted)
        self.values: dict[str, NDArray[Any]] = {}

    def run_node(self, node: Node) -> Any:
        value = super().run_node(node)
        if node.name in self._wanted:
            self.values[node.name] = value.detach().numpy().copy()
        return value


def node_values(
    module: GraphModule, inputs: Sequence[torch.Tensor], nodes: Iterable[str]
) -> dict[str, NDArray[Any]]:
    """What each of `nodes` gives for `inputs` (one per argument), in the model's shapes."""
    recorder = _Recorder(module, nodes)
    with torch.no_grad(), one_thread():
        recorder.run(*inputs)
    return recorder.values

"""PyTorch's own int8 graph, node by node: the integers that every quantize node gives."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.fx import GraphModule, Interpreter, Node

from sw.compiler.frontend.module import one_thread


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
    module: GraphModule, inputs: Sequence[NDArray[np.float32]], nodes: Iterable[str]
) -> dict[str, NDArray[Any]]:
    """What each of `nodes` gives for float `inputs` (one per argument), in the model's shapes."""
    recorder = _Recorder(module, nodes)
    with torch.no_grad(), one_thread():
        recorder.run(*(torch.from_numpy(np.ascontiguousarray(x)) for x in inputs))
    return recorder.values

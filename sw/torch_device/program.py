"""One operator with its operands as a graph, compiled as `torch.compile` compiles a graph."""

import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import getitem
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx import Graph, GraphModule, Node

from sw.torch_backend.options import Options
from sw.torch_backend.variant import Variant
from sw.torch_device.operands import Operands


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """Sums over runs. npu, cpu: runs of parts; cycles: None without a clock of the device."""

    npu: int = 0
    cpu: dict[str, int]
    cycles: int | None = None
    predicted_cycles: int = 0


class Program:
    """What runs in place of an operator for one signature. `CompileError` where it cannot be.

    forget: is called when a constant of the program dies.
    """

    def __init__(self, operands: Operands, options: Options, forget: Callable[[], None]) -> None:
        self.versions = operands.versions
        self._owners = [weakref.ref(t, lambda _: forget()) for t in operands.constants]
        self._variant = Variant(_graph(operands), [operands.inputs], options)

    @property
    def reason(self) -> str:
        """Why nothing of it runs on the NPU; '' if something does."""
        if self._variant.parts:
            return ""
        return next((n.reason for n in self._variant.nodes if n.reason), "nothing to compute")

    def run(self, inputs: Sequence[torch.Tensor]) -> tuple[torch.Tensor, ...]:
        """The operator's results for tensors of the host."""
        results: tuple[torch.Tensor, ...] = self._variant.run(*inputs)
        return results

    @property
    def work(self) -> Work:
        """All that its parts have done so far."""
        figures = [part.figures for part in self._variant.parts]
        cycles = [f.cycles for f in figures if f.cycles is not None]
        cpu: dict[str, int] = {}
        for each in figures:
            for reason, count in each.on_cpu.items():
                cpu[reason] = cpu.get(reason, 0) + count
        return Work(
            npu=sum(f.runs for f in figures),
            cpu=cpu,
            cycles=sum(cycles) if cycles else None,
            predicted_cycles=sum(f.predicted_cycles for f in figures),
        )


def _graph(operands: Operands) -> GraphModule:
    """A graph of that call alone, as `torch.export` writes it."""
    root, graph, fakes = torch.nn.Module(), Graph(), FakeTensorMode()
    nodes = []
    for i, each in enumerate(operands.tensors):
        if each.kind == "input":
            node = graph.placeholder(f"input_{i}")
            value = each.host
        else:
            value = each.host.clone()  # the program must not keep the device's memory
            root.register_buffer(f"constant_{i}", value)
            node = graph.get_attr(f"constant_{i}")
        node.meta["val"] = fakes.from_tensor(value)
        nodes.append(node)
    args, kwargs = operands.call(iter(nodes))
    node = graph.call_function(operands.op, args, kwargs)
    hosts = (each.host for each in operands.tensors)
    real_args, real_kwargs = operands.call(hosts)
    with torch.no_grad():
        results = operands.op(*real_args, **real_kwargs)
    graph.output(tuple(_results(graph, node, results, fakes)))
    return GraphModule(root, graph)


def _results(graph: Graph, node: Node, results: Any, fakes: FakeTensorMode) -> list[Node]:
    """The nodes of an operator's results, their meta data set."""
    if isinstance(results, torch.Tensor):
        node.meta["val"] = fakes.from_tensor(results)
        return [node]
    node.meta["val"] = tuple(fakes.from_tensor(r) for r in results)
    found = []
    for i, value in enumerate(node.meta["val"]):
        part = graph.call_function(getitem, (node, i))
        part.meta["val"] = value
        found.append(part)
    return found

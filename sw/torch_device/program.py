"""One operator with its operands as a graph, compiled as `torch.compile` compiles a graph."""

import math
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import getitem

import torch
from torch.fx import Graph, GraphModule, Node

from sw.compiler.errors import CompileError
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

    def since(self, before: "Work") -> "Work":
        """This without what was there before."""
        cpu = {why: n - before.cpu.get(why, 0) for why, n in self.cpu.items()}
        return Work(
            npu=self.npu - before.npu,
            cpu={why: n for why, n in cpu.items() if n},
            cycles=None if self.cycles is None else self.cycles - (before.cycles or 0),
            predicted_cycles=self.predicted_cycles - before.predicted_cycles,
        )


class Program:
    """What runs in place of an operator for one signature. `CompileError` where it cannot be.

    It has run once, for the operands that it was made with: `first` are the results. forget: is
    called when a constant of the program dies.
    """

    def __init__(self, operands: Operands, options: Options, forget: Callable[[], None]) -> None:
        self.versions = operands.versions
        self._owners = [weakref.ref(t, lambda _: forget()) for t in operands.constants]
        exact = _exact(operands)
        self._forms = [(t.shape, torch.empty_like(t).stride()) for t in exact]
        self._variant = Variant(_graph(operands, exact), [operands.inputs], options)
        self._noted = Work(cpu={})
        self.first = self.run(operands.inputs) if self._variant.parts else []
        self.reason = self._unused(exact)

    def _unused(self, exact: Sequence[torch.Tensor]) -> str:
        """Why it is not to be used; '' if it is."""
        if not self._variant.parts:
            return next((n.reason for n in self._variant.nodes if n.reason), "nothing to compute")
        for ours, theirs in zip(self.first, exact, strict=True):
            largest = float(theirs.abs().max())
            error = float((ours - theirs).abs().max())
            if math.isfinite(largest) and not error <= _TOLERANCE * largest:
                return (
                    f"too coarse in integers: an error of {error:.3g}, results reach {largest:.3g}"
                )
        return ""

    def run(self, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """The operator's results for tensors of the host, with the strides that PyTorch gives."""
        results = self._variant.run(*inputs)
        pairs = zip(self._forms, results, strict=True)
        return [torch.empty_strided(*form).copy_(r) for form, r in pairs]

    def news(self) -> Work:
        """What its parts have done since the last question."""
        figures = [part.figures for part in self._variant.parts]
        cycles = [f.cycles for f in figures if f.cycles is not None]
        cpu: dict[str, int] = {}
        for each in figures:
            for reason, count in each.on_cpu.items():
                cpu[reason] = cpu.get(reason, 0) + count
        before, self._noted = (
            self._noted,
            Work(
                npu=sum(f.runs for f in figures),
                cpu=cpu,
                cycles=sum(cycles) if cycles else None,
                predicted_cycles=sum(f.predicted_cycles for f in figures),
            ),
        )
        return self._noted.since(before)


_TOLERANCE = 1 / 16
"""Error of a program's first results, as a share of the largest, above which the CPU computes.

A reciprocal of values near zero, for example, has no useful steps.
"""


NO_FLOAT = "a result that is no float32 is computed exactly"
"""A comparison of quantized values would send a program another way than PyTorch does."""


def _exact(operands: Operands) -> list[torch.Tensor]:
    """What PyTorch computes. `CompileError` where that is no float32."""
    args, kwargs = operands.call(each.host for each in operands.tensors)
    with torch.no_grad():
        results = operands.op(*args, **kwargs)
    found = [results] if isinstance(results, torch.Tensor) else list(results)
    if not all(isinstance(t, torch.Tensor) and t.dtype is torch.float32 for t in found):
        raise CompileError(NO_FLOAT)
    return found


def _graph(operands: Operands, exact: Sequence[torch.Tensor]) -> GraphModule:
    """A graph of that call alone, as `torch.export` writes it. exact: its results."""
    root, graph = torch.nn.Module(), Graph()
    nodes = []
    for i, each in enumerate(operands.tensors):
        if each.kind == "input":
            node = graph.placeholder(f"input_{i}")
        else:  # a copy: the program must not keep the device's memory
            root.register_buffer(f"constant_{i}", each.host.clone())
            node = graph.get_attr(f"constant_{i}")
        node.meta["val"] = _meta(each.host)
        nodes.append(node)
    args, kwargs = operands.call(iter(nodes))
    node = graph.call_function(operands.op, args, kwargs)
    graph.output(tuple(_results(graph, node, [_meta(t) for t in exact])))
    return GraphModule(root, graph)


def _meta(tensor: torch.Tensor) -> torch.Tensor:
    """Shape, strides and type. A fake tensor would do, and import Dynamo for seconds."""
    return torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device="meta")


def _results(graph: Graph, node: Node, values: Sequence[torch.Tensor]) -> list[Node]:
    """The nodes of an operator's results, their meta data set."""
    if len(node.target._schema.returns) == 1 and len(values) == 1:
        node.meta["val"] = values[0]
        return [node]
    node.meta["val"] = tuple(values)
    found = []
    for i, value in enumerate(values):
        part = graph.call_function(getitem, (node, i))
        part.meta["val"] = value
        found.append(part)
    return found

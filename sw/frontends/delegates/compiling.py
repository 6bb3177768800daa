"""A region of a framework's graph as a program of the NPU, or the nodes that prevent it."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.fx import GraphModule, Node

from sw.compiler.errors import CompileError
from sw.compiler.frontend.capture import Captured, capture
from sw.compiler.frontend.quantization.calibrate import fixed_nodes
from sw.compiler.frontend.sources import module_of
from sw.compiler.tosa.graph import Graph
from sw.frontends.delegates.compiled import payload_of
from sw.frontends.delegates.payload import Payload
from sw.frontends.delegates.regions import Region
from sw.torch_backend.compiled_part import Part
from sw.torch_backend.fallback import PartitionedModule, partition_captured
from sw.torch_backend.options import Options
from sw.torch_backend.partition import IDLE, works
from sw.torch_backend.variant import all_reasons

Calls = Iterable[Sequence[torch.Tensor]]
Refused = dict[int, str]
"""Why nodes cannot run on the NPU, by position in the graph."""

_ALL = "the region around it does not become one program"


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """A region as a module, a call of it, and the names of what it takes and returns.

    Each submodule that is a node has its position in the graph as `position`.
    """

    module: torch.nn.Module
    example: tuple[torch.Tensor, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


Load = Callable[[Region], Loaded | Refused]


@dataclass(frozen=True, slots=True, kw_only=True)
class Compiled:
    """A region's program. inputs, outputs: names of values, in the order of the payload's.

    graph: what the program was compiled of.
    """

    region: Region
    payload: Payload
    graph: Graph
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]

    def named(self, name: str) -> "Compiled":
        """The same by another name."""
        return replace(self, payload=replace(self.payload, name=name))


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """A region as a module and as a graph of ATen, before it is compiled."""

    region: Region
    loaded: Loaded
    captured: Captured

    @property
    def inputs(self) -> tuple[str, ...]:
        """The region's inputs that the graph reads."""
        return tuple(self.loaded.inputs[i] for i in self.captured.used)


def loaded_region(region: Region, load: Load) -> Attempt | Refused:
    """The region's graph, if every operator of it has a rule."""
    loaded = load(region)
    if isinstance(loaded, dict):
        return loaded
    try:
        captured = capture(loaded.module, loaded.example, whole=False)
    except CompileError as error:
        return dict.fromkeys(region.own, _first_line(error))
    attempt = Attempt(region=region, loaded=loaded, captured=captured)
    fixed = fixed_nodes(captured.graph)
    why = all_reasons(captured.graph, fixed)
    if not any(works(n) for n in why if n not in fixed):
        return dict.fromkeys(region.own, IDLE)
    return _refused(attempt, {module_of(n): r for n, r in why.items() if r and n not in fixed}) or (
        attempt
    )


def compiled_region(attempt: Attempt, options: Options, calls: Calls) -> Compiled | Refused:
    """The region's program. calls: values of `attempt.inputs`, which calibrate it."""
    partitioned = partition_captured(attempt.captured, replace(options, fallback=True), calls)
    rows = [row for row in partitioned.variant.nodes if row.where == "cpu"]
    if rows:
        return _refused(attempt, {row.module: row.reason for row in rows})
    found = _single(attempt, partitioned)
    if found is None:
        return dict.fromkeys(attempt.region.own, _ALL)
    part, inputs, outputs = found
    return Compiled(
        region=attempt.region,
        payload=payload_of(part),
        graph=part.compiled.imported.graph,
        inputs=inputs,
        outputs=outputs,
    )


def _refused(attempt: Attempt, modules: dict[str, str]) -> Refused:
    """By position in the whole graph: reasons that are given by the path of a submodule."""
    found: Refused = {}
    for path, reason in modules.items():
        step = getattr(attempt.loaded.module, path.split(".")[0], None) if path else None
        position = getattr(step, "position", None)
        if position not in attempt.region.own:
            return dict.fromkeys(attempt.region.own, reason)
        found[position] = reason
    return found


def _single(
    attempt: Attempt, partitioned: PartitionedModule
) -> tuple[Part, tuple[str, ...], tuple[str, ...]] | None:
    """(the only part, the names of what it takes, and of what it gives)."""
    graph: GraphModule = partitioned.variant.assembled
    nodes = list(graph.graph.nodes)
    calls = [n for n in nodes if n.op == "call_module"]
    placeholders = [n for n in nodes if n.op == "placeholder"]
    (output,) = (n for n in nodes if n.op == "output")
    results = torch.utils._pytree.tree_leaves(output.args[0])
    if len(calls) != 1 or not all(_is_item(n, calls[0]) for n in results):
        return None
    (call,) = calls
    names = dict(zip(placeholders, attempt.inputs, strict=True))
    if not set(call.args) <= set(names):
        return None
    given = {int(n.args[1]): name for n, name in zip(results, attempt.loaded.outputs, strict=True)}
    part: Part = getattr(graph, str(call.target))
    if len(given) != len(results) or sorted(given) != list(range(len(part.results))):
        return None
    inputs = tuple(names[n] for n in call.args)
    return part, inputs, tuple(given[i] for i in range(len(given)))


def _is_item(node: Any, call: Node) -> bool:
    return isinstance(node, Node) and node.op == "call_function" and node.args[0] is call


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]

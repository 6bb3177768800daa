"""A graph for one set of shapes and parameters: partitioned, calibrated, compiled."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import GraphModule, Node

from spec.errors import SystolaError
from sw.compiler.frontend.capture import capture
from sw.compiler.frontend.operator_sets import aten
from sw.compiler.frontend.quantization.calibrate import constant_values, fixed_nodes
from sw.compiler.frontend.quantization.policy import choose
from sw.compiler.frontend.sources import line_of, line_or_module, module_of
from sw.compiler.frontend.support import dtypes, reasons
from sw.torch_backend.compiled_part import Part, PartError
from sw.torch_backend.extract import (
    Extract,
    assemble,
    extract,
    values_of,
)
from sw.torch_backend.kernel_part import KernelPart, kernel_parts
from sw.torch_backend.options import Options
from sw.torch_backend.partition import Partition, computes, partition
from sw.torch_backend.partition import whole as all_of

Inputs = Sequence[torch.Tensor]

_PATIENCE = 32
"""Nodes that may be found guilty one by one; then it is all of a part."""

KERNEL = "a kernel: a part of its own"

_TRAINING = (
    aten._native_batch_norm_legit_functional.default,
    aten._native_batch_norm_legit.default,
    aten.native_dropout.default,
)


class NotCompiledError(SystolaError):
    """A part of a model that the NPU cannot run, where the user allows no fallback."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRow:
    """An operator of the graph: where it ran (`npu 0` … or `cpu`), why not on the NPU.

    module: path of its submodule ("layers.3.conv"). source: its line, '' inside PyTorch's own.
    """

    name: str
    target: str
    where: str
    reason: str
    module: str
    source: str


class Variant:
    """`run` computes what the graph does for inputs like `samples[0]`.

    bound: the graph as a function of its tensors (`bind.py`). samples: calls that calibrate it.
    `CompileError` where it cannot be captured.
    """

    def __init__(self, bound: GraphModule, samples: Sequence[Inputs], options: Options) -> None:
        self._options = options
        self.shapes = [list(t.shape) for t in samples[0]]
        captured = capture(bound, [t.detach() for t in samples[0]], convert=False)
        self._whole, self._used = captured.graph, captured.used
        self.choice = choose(self._whole, options.policy)
        self.training = any(_trains(n) for n in self._whole.graph.nodes)
        self._fixed = fixed_nodes(self._whole)
        self._built: dict[tuple[Node, ...], Part] = {}
        self.parts: list[Part | KernelPart] = []
        self._compile([[call[i] for i in self._used] for call in samples])

    def run(self, *inputs: torch.Tensor) -> Any:
        """What the graph returns for these inputs."""
        return self._run(*(inputs[i] for i in self._used))

    @property
    def assembled(self) -> GraphModule:
        """The graph with its parts as submodules: a function of the inputs that are read."""
        return self._run

    def _compile(self, samples: Sequence[Inputs]) -> None:
        whole, fixed = self._whole, self._fixed
        why = all_reasons(whole, fixed)
        kernels, refused = kernel_parts(whole, self._options)
        why.update(dict.fromkeys(kernels, KERNEL) | refused)
        patience = _PATIENCE
        nodes = list(whole.graph.nodes)
        attempt = all_of(nodes, fixed, why)
        while True:
            split = attempt or partition(nodes, fixed, why)
            extracts = [extract(whole, nodes, fixed) for nodes in split.parts]
            try:
                parts = self._build(extracts, samples)
                break
            except PartError as error:
                if attempt is not None:  # not as a whole: without what only moves values
                    attempt = None
                    continue
                patience -= 1
                guilty = error.nodes
                if patience < 0:
                    guilty = next(p for p in split.parts if set(guilty) & set(p))
                why.update({node: str(error) for node in guilty})
        anchor = next((p for p in whole.parameters() if p.requires_grad), None)
        for part in parts:
            part.anchor = anchor
        self._join(split, extracts, parts, kernels)

    def _join(
        self,
        split: Partition,
        extracts: Sequence[Extract],
        parts: Sequence[Part],
        kernels: Mapping[Node, KernelPart],
    ) -> None:
        """Put the parts, and kernels behind them, into the graph that calls them."""
        for number, kernel in enumerate(kernels.values(), len(parts)):
            kernel.title = f"npu_{number}"
        self.parts = [*parts, *kernels.values()]
        names = {node: part.title for node, part in kernels.items()}
        self.nodes = self._rows(split, names)
        self._require_npu()
        runners = {part.title: part for part in self.parts}
        self._run = assemble(self._whole, split, extracts, runners, self._fixed, names)

    def release(self) -> None:
        """Give up what it takes to run; rows and figures stay."""
        del self._run, self._whole, self._built
        for part in self.parts:
            part.release()

    def _build(self, extracts: Sequence[Extract], samples: Sequence[Inputs]) -> list[Part]:
        new = [made for made in extracts if tuple(made.nodes.values()) not in self._built]
        wanted = {n for made in new for n in made.inputs}
        calls = [values_of(self._whole, wanted, inputs) for inputs in samples] if wanted else []
        parts: list[Part] = []
        for i, made in enumerate(extracts):
            key = tuple(made.nodes.values())
            if key not in self._built:
                part = Part(made, self._options, f"npu_{i}", self.choice.policy)
                part.build([[seen[n] for n in made.inputs] for seen in calls])
                self._built[key] = part
            self._built[key].title = f"npu_{i}"
            parts.append(self._built[key])
        return parts

    def _rows(self, split: Partition, kernels: Mapping[Node, str]) -> list[NodeRow]:
        where = {n: f"npu {i}" for i, part in enumerate(split.parts) for n in part}
        where |= {n: title.replace("_", " ") for n, title in kernels.items()}
        return [
            NodeRow(
                name=n.name,
                target=str(n.target) if not callable(n.target) else _name(n),
                where=where.get(n, "cpu"),
                reason="" if n in kernels else split.why.get(n, ""),
                module=module_of(n),
                source=line_of(n),
            )
            for n in self._whole.graph.nodes
            if n in split.why
        ]

    def _require_npu(self) -> None:
        if self._options.fallback:
            return
        named = {n.name: n for n in self._whole.graph.nodes}
        for row in self.nodes:
            if row.where == "cpu" and computes(named[row.name]):
                place = line_or_module(named[row.name])
                if row.module and row.module not in place:
                    place = f"{place} (module {row.module})"
                raise NotCompiledError(
                    f"{row.name} ({row.target}) cannot run on the NPU: {row.reason}"
                    + (f"\n  at {place}" if place else "")
                    + "\n  hint: fallback=True runs it on the CPU"
                )


def all_reasons(whole: GraphModule, fixed: Collection[Node]) -> dict[Node, str]:
    """Why each operator of a captured graph cannot run on the NPU, '' where it can."""
    why = reasons(whole, constant_values(whole, fixed))
    why.update({n: "an empty tensor" for n in why if _is_empty(n)})
    why.update({n: reason for n in why if n not in fixed and (reason := _complex(n))})
    return why


def _name(node: Node) -> str:
    name = str(node.target)
    return getattr(node.target, "__name__", name) if name.startswith("<") else name


def _is_empty(node: Node) -> bool:
    values = [n.meta.get("val") for n in (node, *node.all_input_nodes)]
    sizes = [s for v in values if isinstance(v, torch.Tensor) for s in v.shape]
    return any(isinstance(s, int) and s == 0 for s in sizes)


def _complex(node: Node) -> str:
    """Why an operator that reads or gives complex numbers runs on the CPU, '' for all others."""
    found = {d for n in (node, *node.all_input_nodes) for d in dtypes(n) if d.is_complex}
    names = sorted(str(dtype).removeprefix("torch.") for dtype in found)
    return f"{', '.join(names)}: the NPU computes real numbers" if names else ""


def _trains(node: Node) -> bool:
    """Whether an operator behaves as in training: random, or with the batch's own statistics."""
    if node.target is aten.dropout.default:
        return bool(node.args[2])
    return node.target in _TRAINING

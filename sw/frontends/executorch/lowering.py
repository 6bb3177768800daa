"""An exported program with its parts for the NPU as `systola::program` operators.

Parts are found, quantized and compiled as `torch.compile` does it (`sw/torch_backend/`).
"""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import torch
from torch.export import ExportedProgram

from sw.compiler.frontend.capture import Captured, capture, tensors_of
from sw.compiler.frontend.dynamic_shapes import dynamic_dims
from sw.frontends.delegates.compiled import payload_of
from sw.frontends.executorch.errors import ExecuTorchError
from sw.frontends.executorch.operator import described, program_operator
from sw.torch_backend.compiled_part import Part
from sw.torch_backend.fallback import PartitionedModule, partition_captured
from sw.torch_backend.options import Options


def lower(
    program: ExportedProgram, options: Options, *, keep_graph: bool = False
) -> tuple[ExportedProgram, PartitionedModule]:
    """(the program with its parts compiled, what became of each operator).

    keep_graph: parts keep the TOSA graphs that they were compiled of.
    `CompileError` where it cannot be captured, `NotCompiledError` without fallback.
    """
    if dynamic_dims(program):
        raise ExecuTorchError(
            f"the program has dynamic shapes ({'; '.join(dynamic_dims(program))}), the NPU's "
            "programs have fixed ones; export it without dynamic_shapes"
        )
    if program.example_inputs is None:
        raise ExecuTorchError(
            "the program has no example inputs; export it again with torch.export"
        )
    args, keywords = program.example_inputs
    captured = capture(program, args, keywords, whole=False)
    partitioned = partition_captured(captured, options, _calibration(captured, options))
    module = _Lowered(captured, partitioned, keep_graph)
    return torch.export.export(module, tuple(args), dict(keywords), strict=False), partitioned


def _calibration(captured: Captured, options: Options) -> Iterable[Sequence[torch.Tensor]] | None:
    """The user's calls as the graph reads them; None: the example's."""
    given = options.calibration
    calls = list(given() if callable(given) else given)
    return [captured.flat(call) for call in calls] or None


class _Lowered(torch.nn.Module):
    """What is exported again: calls like the program's, parts as operators."""

    def __init__(
        self, captured: Captured, partitioned: PartitionedModule, keep_graph: bool
    ) -> None:
        super().__init__()
        self._captured = captured
        self.lowered = partitioned.variant.assembled
        for name, part in self.lowered.named_children():
            if isinstance(part, Part):
                setattr(self.lowered, name, _Operator(part, keep_graph))

    def forward(self, *args: Any, **keywords: Any) -> Any:
        captured = self._captured
        tensors = tensors_of(args, keywords, captured.keywords)
        found = self.lowered(*(_single(tensors[i]) for i in captured.used))
        return captured.returned(torch.utils._pytree.tree_leaves(found))


def _single(tensor: torch.Tensor) -> torch.Tensor:
    """As the graph reads it; export would write down a conversion that changes nothing."""
    wide = tensor.is_floating_point() and tensor.dtype is not torch.float32
    return tensor.float() if wide else tensor


class _Operator(torch.nn.Module):
    """A part as a call of `systola::program`."""

    def __init__(self, part: Part, keep_graph: bool) -> None:
        super().__init__()
        data = np.frombuffer(payload_of(part, keep_graph=keep_graph).to_bytes(), np.uint8)
        self.register_buffer("payload", torch.from_numpy(data.copy()))
        self._results = described(part.results)

    def forward(self, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return tuple(program_operator()(self.payload, list(tensors), self._results))

"""A captured model in parts on NPU and CPU, without Dynamo: `systola run --fallback`.

The graph is split, quantized and run exactly as `torch.compile` does it.
"""

from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

import torch

from spec.config import NpuConfig
from sw.compiler.frontend.capture import Captured
from sw.compiler.frontend.quantization.policy import Policy
from sw.compiler.frontend.quantization.samples import split_calls
from sw.compiler.frontend.threads import one_thread
from sw.runtime.session import DeviceOptions
from sw.torch_backend.options import Options
from sw.torch_backend.report import variant_data
from sw.torch_backend.report_text import variant_lines
from sw.torch_backend.variant import Variant


class PartitionedModule:
    """Runs calls of a model: what the NPU can compute there, the rest in PyTorch on the CPU.

    `variant` has the parts and, for every operator, where it runs and why.
    """

    def __init__(self, captured: Captured, variant: Variant, options: Options) -> None:
        self.captured, self.variant, self.options = captured, variant, options

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        """What the model returns for these arguments."""
        return self.captured.returned(self.run(self.captured.flat((args, keywords))))

    def run(self, tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """The graph's outputs for its inputs."""
        with torch.no_grad(), one_thread():
            return list(torch.utils._pytree.tree_leaves(self.variant.run(*tensors)))

    @property
    def data(self) -> dict[str, Any]:
        """Policy, parts with their figures, and every operator: as JSON has it."""
        return variant_data(self.variant)

    def _repr_html_(self) -> str:
        """What a notebook shows: where each operator runs, and why."""
        return f"<pre>{escape(chr(10).join(self.lines(100)))}</pre>"

    def lines(self, width: int) -> list[str]:
        """The same as text of at most `width` columns."""
        return variant_lines(self.data, width)


def partition_model(
    captured: Captured,
    config: NpuConfig,
    *,
    calibration: Iterable[Sequence[torch.Tensor]] | None = None,
    policy: Policy = "auto",
    device: DeviceOptions | None = None,
    verify: bool = False,
) -> PartitionedModule:
    """Partition a captured model for `config`.

    calibration: the tensors of calls that find the ranges of values (default: the example), as the
    graph reads them. device: what runs the
    programs (default: golden). verify: each program's integers are compared with the reference
    interpreter's, and a difference is a `SystolaError`. `CompileError` where nothing can be
    captured.
    """
    device = device or DeviceOptions(device="golden")
    options = Options(
        config=config,
        device=device.device,
        latency=device.latency,
        stall=device.stall,
        seed=device.seed,
        clock_mhz=device.clock_mhz,
        memory=device.memory,
        policy=policy,
        verify=verify,
    )
    return partition_captured(captured, options, calibration)


def partition_captured(
    captured: Captured,
    options: Options,
    calibration: Iterable[Sequence[torch.Tensor]] | None = None,
) -> PartitionedModule:
    """`partition_model` with all options of `torch.compile`, whose `calibration` is not read."""
    calls = [captured.example] if calibration is None else calibration
    with one_thread():
        variant = Variant(captured.graph, split_calls(calls, captured.example), options)
    return PartitionedModule(captured, variant, options)

"""`systola run --fallback`: a user's model on NPU and CPU, and what ran where."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from rich.console import Console

from spec.config import NpuConfig
from spec.errors import SystolaError
from sw.models.catalog import pcc, pcc_between
from sw.models.supplied import Supplied
from sw.models.user import calls, is_module, user_model
from sw.runtime.session import DeviceOptions
from sw.runtime.timing import Timing
from sw.torch_backend.fallback import PartitionedModule, partition_model
from sw.torch_backend.report import parts_timing


class FallbackError(SystolaError, ValueError):
    """A model that has no PyTorch graph to fall back to."""


@dataclass(frozen=True, kw_only=True)
class PartitionedRun:
    """outputs: of each run, in the model's order. figures: `pcc_fp32` of each output with PyTorch's
    float model over all runs, and between neighbouring runs.
    """

    name: str
    config: NpuConfig
    module: PartitionedModule
    outputs: list[list[NDArray[Any]]]
    figures: dict[str, Any]

    @property
    def timing(self) -> Timing:
        """Of the parts on the NPU alone."""
        return parts_timing(self.module.data["parts"], len(self.outputs), self.module.options)

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "config": self.config.name,
            "config_digest": self.config.digest_hex,
            "device": self.module.options.device,
            "runs": len(self.outputs),
            **self.timing.to_json(),
            **self.figures,
            **self.module.data,
        }

    def print(self, console: Console) -> None:
        """What ran where and why, and how close it is to PyTorch."""
        console.print(f"{self.name} on {self.config.name} ({self.module.options.device})")
        for line in self.module.lines(console.width):
            console.print(line, highlight=False, markup=False, soft_wrap=True)
        for note in self.module.captured.notes:
            console.print(f"note: {note}", highlight=False, markup=False)
        for label, text in self.timing.facts():
            console.print(f"{label} (on the NPU): {text}", highlight=False, markup=False)
        found = self.figures["pcc_fp32"]
        shown = ", ".join("none (other sizes)" if v is None else f"{v:.5f}" for v in found)
        console.print(f"PCC with float {shown} over {len(self.outputs)} runs")
        verified = sum(part["verified"] for part in self.module.data["parts"])
        device = self.module.options.device
        console.print(f"PASS  {device} = reference interpreter: {verified} runs of programs")


def run_partitioned(
    name: str, supplied: Supplied, config: NpuConfig, device: DeviceOptions, limit: int | None
) -> PartitionedRun:
    """Run a user's model on its inputs, with operators that the NPU lacks on the CPU.

    Every run of a program is compared with the reference interpreter; a difference is a
    `SystolaError`. `FallbackError` for what is no PyTorch model.
    """
    if not is_module(name):
        raise FallbackError(
            f"--fallback: {name} has no PyTorch graph; it is for models of your own"
        )
    if not supplied.precision.is_default:
        raise FallbackError("--precision: with --fallback every layer is int8; leave one of both")
    data = user_model(name, supplied)
    module = partition_model(
        data.captured,
        config,
        calibration=calls(data.calibration),
        policy=supplied.policy,
        device=device,
        verify=True,
    )
    tests = calls(data.tests)[: limit or None]
    outputs = [[t.numpy() for t in module.run(call)] for call in tests]
    with torch.no_grad():
        floats = [
            [t.numpy() for t in torch.utils._pytree.tree_leaves(data.captured.graph(*call))]
            for call in tests
        ]
    return PartitionedRun(
        name=data.loaded.name,
        config=config,
        module=module,
        outputs=outputs,
        figures=_figures(outputs, floats),
    )


def _figures(
    outputs: Sequence[Sequence[NDArray[Any]]], floats: Sequence[Sequence[NDArray[Any]]]
) -> dict[str, Any]:
    ours, exact = list(zip(*outputs, strict=True)), list(zip(*floats, strict=True))
    return {
        "pcc_fp32": [_pcc(a, b) for a, b in zip(ours, exact, strict=True)],
        "pcc_between": [
            pcc_between(np.stack(b).reshape(len(b), -1)) if _alike(b) else None for b in exact
        ],
    }


def _pcc(ours: Sequence[NDArray[Any]], exact: Sequence[NDArray[Any]]) -> float | None:
    """PCC of an output over all runs; None where sizes depend on values and came out otherwise."""
    if any(a.shape != b.shape for a, b in zip(ours, exact, strict=True)):
        return None
    return pcc(*(np.concatenate([run.ravel() for run in runs]) for runs in (ours, exact)))


def _alike(runs: Sequence[NDArray[Any]]) -> bool:
    return len({run.shape for run in runs}) == 1


def save_partitioned(run: PartitionedRun, folder: Path) -> None:
    """Each output over all runs as `folder`/output_N.npy; output_N_RUN.npy where sizes differ."""
    from sw.runtime.session import save_outputs

    arrays: dict[str, NDArray[Any]] = {}
    for i, runs in enumerate(zip(*run.outputs, strict=True)):
        if _alike(runs):
            arrays[f"output_{i}"] = np.stack(runs)
        else:
            arrays.update({f"output_{i}_{at}": array for at, array in enumerate(runs)})
    save_outputs(arrays, folder)

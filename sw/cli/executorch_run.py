"""`systola run FILE.pte`: the file in ExecuTorch's runtime, its delegates on a device."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console

from spec.config import NpuConfig
from sw.frontends.delegates.report import DelegateReport
from sw.frontends.executorch.program import load
from sw.models.samples import read_runs
from sw.runtime.session import DeviceOptions, OptionError
from sw.runtime.session import save_outputs as save


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecuTorchRun:
    """outputs: of each run, in the method's order."""

    report: DelegateReport
    outputs: Sequence[Sequence[NDArray[Any]]]

    def to_json(self) -> dict[str, Any]:
        return self.report.to_dict()

    def print(self, console: Console) -> None:
        """Delegates with their figures, and the verdict."""
        for line in str(self.report).splitlines():
            console.print(line, highlight=False, markup=False, soft_wrap=True)
        if self.report.bit_exact:
            runs = self.report.data["totals"]["verified"]
            console.print(f"PASS  rtl = golden: {runs} runs of programs")

    def save_outputs(self, folder: Path) -> None:
        """Each output over all runs as `folder`/output_N.npy."""
        pairs = enumerate(zip(*self.outputs, strict=True))
        save({f"output_{i}": np.stack(runs) for i, runs in pairs}, folder)


def run_executorch(
    path: Path,
    files: Sequence[Path],
    config: NpuConfig | None,
    options: DeviceOptions,
    refused: Mapping[str, object],
) -> ExecuTorchRun:
    """Run method `forward` once for each sample of the files; without files on random numbers.

    files: `.npy` in the order of the method's inputs. config: None, or what the delegates must have
    been compiled for. refused: options of the command that a compiled file has decided, by name.
    The RTL of each run is compared with the golden model; a difference is a `SystolaError`.
    """
    import torch

    for name, value in refused.items():
        if value:
            raise OptionError(f"--{name}: {path} is compiled already; leave it out")
    program = load(
        path,
        device=options.device,
        latency=options.latency,
        stall=options.stall,
        seed=options.seed,
        clock_mhz=options.clock_mhz,
        memory=options.memory,
        verify=options.device == "rtl",
    )
    if config is not None:
        for delegate in program.delegates:
            delegate.payload.image.check_device(config)
    examples = program.random_inputs(options.seed)
    runs = read_runs(files, "--input", examples) if files else [tuple(examples)]
    outputs = [
        [np.asarray(found) for found in program(*map(torch.from_numpy, run))] for run in runs
    ]
    return ExecuTorchRun(report=program.report, outputs=outputs)

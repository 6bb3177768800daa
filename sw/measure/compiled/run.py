"""`systola run FILE.pte`: the file in ExecuTorch's runtime, its delegates on a device."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console

from spec.config import NpuConfig
from sw.frontends.delegates.report import DelegateReport
from sw.measure.compiled.programs import open_file, sample_runs
from sw.runtime.session import DeviceOptions
from sw.runtime.session import save_outputs as save


@dataclass(frozen=True, slots=True, kw_only=True)
class FileRun:
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


def run_file(
    path: Path, files: Sequence[Path], config: NpuConfig | None, options: DeviceOptions
) -> FileRun:
    """Run method `forward` once for each sample of the files; see `open_file`, `sample_runs`."""
    import torch

    program = open_file(path, config, options)
    outputs = [
        [np.asarray(found) for found in program(*map(torch.from_numpy, run))]
        for run in sample_runs(program, files, options.seed)
    ]
    return FileRun(report=program.report, outputs=outputs)

"""How far the timing model is off, as measured: its error for a kernel or a network.

`model_error.yaml` beside this file is made of the rows of `docs/data/calibration.json`, which only
a source tree has: `python -m sw.measure.calibration.error` writes it again.
"""

import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import fmean
from typing import Any

from sw.measure.bench_store import Row, read_rows
from sw.measure.calibration.samples import WORKLOADS
from sw.models.kernels import kernel_names
from sw.results.revision import ROOT

FILE = Path(__file__).with_name("model_error.yaml")
ROWS = ROOT / "docs" / "data" / "calibration.json"
KERNEL, NETWORK = "any kernel", "any network"


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelError:
    """Predicted over measured cycles, less one, in percent: mean and worst of its size."""

    mean_pct: float
    worst_pct: float


def model_error(target: str, memory: str = "ideal") -> ModelError:
    """The measured error for a kernel or network; of one that was not measured, of all its kind."""
    errors = _stored()[memory]
    kind = KERNEL if target in kernel_names() else NETWORK
    return ModelError(**errors.get(target, errors[kind]))


def errors_of(rows: Iterable[Row]) -> dict[str, dict[str, dict[str, float]]]:
    """By memory, then by kernel or network: the fields of `ModelError`."""
    works = {work.name: work for work in WORKLOADS}
    sizes: dict[str, dict[str, list[float]]] = {}
    for row in rows:
        if "cycles" not in row:
            continue
        work = works[str(row["workload"])]
        size = abs(100 * (float(row["predicted_cycles"]) / float(row["cycles"]) - 1))
        groups = sizes.setdefault(str(row["memory"]), {})
        for name in (work.target, KERNEL if work.shape else NETWORK):
            groups.setdefault(name, []).append(size)
    return {
        memory: {
            name: {"mean_pct": round(fmean(found), 1), "worst_pct": round(max(found), 1)}
            for name, found in sorted(groups.items())
        }
        for memory, groups in sizes.items()
    }


@cache
def _stored() -> Mapping[str, Mapping[str, Mapping[str, float]]]:
    import yaml

    found: dict[str, Any] = yaml.safe_load(FILE.read_text(encoding="utf-8"))
    return found


def main() -> int:
    """Write the file of today's rows."""
    import yaml

    head = "# Made by `python -m sw.measure.calibration.error` of docs/data/calibration.json.\n"
    FILE.write_text(head + yaml.safe_dump(errors_of(read_rows(ROWS))), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""What delegates have done so far, as data and as text."""

import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from spec.notebook import summary
from sw.frontends.delegates.delegate import Delegate
from sw.torch_backend.report_text import node_table

_SUMS = ("runs", "bytes_in", "bytes_out", "predicted_cycles", "saturated", "verified")
_NOT_STORED = ("on_cpu", "calibrations", "cached")
"""Figures of parts that a stored program has none of."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DelegateReport:
    """What the delegates of a program did, over all calls so far. `str()` is for people.

    data: as JSON has it: totals, a row of figures for each delegate, and a row for each node of the
    model where the framework's file tells them.
    """

    data: dict[str, Any]

    @property
    def cycles(self) -> int | None:
        """Of all runs; None where the device has no clock."""
        total: int | None = self.data["totals"]["cycles"]
        return total

    @property
    def predicted_cycles(self) -> int:
        """What the compiler predicted for the same runs."""
        return int(self.data["totals"]["predicted_cycles"])

    @property
    def bit_exact(self) -> bool | None:
        """Whether every run equalled the golden model; None where none was compared.

        A run that does not is an error, after which there is no report to ask.
        """
        totals = self.data["totals"]
        return None if not totals["verified"] else totals["verified"] == totals["runs"]

    def to_dict(self) -> dict[str, Any]:
        return self.data

    def to_json(self) -> str:
        return json.dumps(self.data, indent=1)

    def _repr_html_(self) -> str:
        """What a notebook shows: the totals."""
        facts = [(name.replace("_", " "), value) for name, value in self.data["totals"].items()]
        return summary("Delegates", facts)

    def __str__(self) -> str:
        totals = self.data["totals"]
        lines = [
            f"{self.data['file']}: {len(self.data['delegates'])} delegates on device "
            f"{self.data['device']}, {_count(totals['runs'])}"
        ]
        for row in self.data["delegates"]:
            cycles = "" if row["cycles"] is None else f"{row['cycles']:,} cycles, "
            exact = f", {row['verified']} verified" if row["verified"] else ""
            lines.append(
                f"  {row['delegate']}  {row['config']}  {_count(row['runs'])}: {cycles}predicted "
                f"{row['predicted_cycles']:,}{exact}"
            )
        width = shutil.get_terminal_size((100, 24)).columns
        return "\n".join([*lines, *node_table(self.data.get("nodes", ()), width)])


def make_report(
    file: str,
    device: str,
    delegates: Sequence[Delegate],
    nodes: Sequence[Mapping[str, Any]] | None = None,
) -> DelegateReport:
    """The report of these delegates.

    nodes: where each node of the model runs and why, as `node_table` takes them.
    """
    rows = [_row(d) for d in delegates]
    cycles = [row["cycles"] for row in rows if row["cycles"] is not None]
    totals: dict[str, Any] = {name: sum(row[name] for row in rows) for name in _SUMS}
    totals["cycles"] = sum(cycles) if cycles else None
    data = {"file": file, "device": device, "totals": totals, "delegates": rows}
    return DelegateReport(data=data if nodes is None else {**data, "nodes": list(nodes)})


def _count(runs: int) -> str:
    return "1 run" if runs == 1 else f"{runs} runs"


def _row(delegate: Delegate) -> Mapping[str, Any]:
    payload, figures = delegate.payload, delegate.figures.to_json()
    for name in _NOT_STORED:
        del figures[name]
    return {
        "delegate": payload.name,
        "config": payload.image.config.name,
        "policy": payload.policy,
        **figures,
    }

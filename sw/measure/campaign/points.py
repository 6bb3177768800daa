"""What a sweep found, point by point: figures from its rows, as a table and as CSV."""

import csv
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from spec.config import NpuConfig
from sw.measure.campaign.store import Run
from sw.measure.campaign.summary import column
from sw.measure.campaign.task import CampaignError, Kind, Status
from sw.runtime.tables import FittedTable, left, right

_CHANGING = ("rows", "cols", "spad_kib", "acc_kib", "bus_bytes", "banks", "param_entries")


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """One workload on one point. cycles: None unless every run of it passed."""

    workload: str
    status: str
    cycles: int | None
    utilization: float | None
    read_bytes: int | None
    write_bytes: int | None
    bit_exact: bool | None
    reference_exact: bool | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PointResult:
    """One point. config: None where it is illegal, and then `reason` says why."""

    label: str
    config: NpuConfig | None
    reason: str
    verilog_lines: int | None
    build_s: float | None
    results: tuple[Measured, ...]

    @property
    def memory_kib(self) -> float | None:
        """On-chip memory: scratchpad, accumulator, parameters, table; KiB."""
        if self.config is None:
            return None
        small = self.config.param_bytes + self.config.table_bytes
        return self.config.spad_kib + self.config.acc_kib + small / 1024


def point_results(runs: Sequence[Run]) -> list[PointResult]:
    """One result per point, in the order of the space."""
    groups: dict[str, list[Run]] = {}
    for run in runs:
        groups.setdefault(run.task.digest or run.task.label, []).append(run)
    return [_point(members) for members in groups.values()]


def _point(runs: Sequence[Run]) -> PointResult:
    first = runs[0].task
    figures: dict[str, float] = {}
    for run in runs:
        if run.task.kind in (Kind.LINT, Kind.BUILD) and run.outcome is not None:
            figures |= dict(run.outcome.figures)
    lines = figures.get("verilog_lines")
    workloads = dict.fromkeys(r.task.workload for r in runs if r.task.kind is Kind.RUN)
    return PointResult(
        label=first.config_name,
        config=first.config,
        reason=first.reason,
        verilog_lines=None if lines is None else int(lines),
        build_s=figures.get("build_s"),
        results=tuple(_measured(w, [r for r in runs if r.task.workload == w]) for w in workloads),
    )


def _measured(workload: str, runs: Sequence[Run]) -> Measured:
    by_device = {run.task.device: run for run in runs}
    rtl, golden = by_device["rtl"], by_device["golden"]
    passed = all(run.status is Status.PASSED for run in runs)
    bad = next((run for run in (rtl, golden) if run.status is not Status.PASSED), rtl)
    outcome = rtl.outcome if passed else None
    utilization = None
    if outcome is not None and outcome.cycles and outcome.macs and rtl.task.config is not None:
        utilization = outcome.macs / (outcome.cycles * rtl.task.config.pes)
    return Measured(
        workload=workload,
        status=column(bad.status) if bad is rtl else f"{column(bad.status)} on golden",
        cycles=outcome.cycles if outcome else None,
        utilization=utilization,
        read_bytes=outcome.read_bytes if outcome else None,
        write_bytes=outcome.write_bytes if outcome else None,
        bit_exact=_verdict(rtl),
        reference_exact=_verdict(golden),
    )


def _verdict(run: Run) -> bool | None:
    """True or False where a comparison was made."""
    verdicts = {Status.PASSED: True, Status.FAILED: False}
    return verdicts.get(run.status)


def points_table(points: Sequence[PointResult]) -> FittedTable:
    """One line per point: sizes, then the cycles and utilization of each workload."""
    workloads = list(dict.fromkeys(m.workload for p in points for m in p.results))
    columns = [
        left("point", fold=16),
        right("PEs", 3),
        right("memory KiB", 2),
        right("Verilog lines", 4),
        right("build s", 5),
        *(right(name.replace(":", ":\n"), 1) for name in workloads),
        left("illegal", fold=20),
    ]
    if all(point.config is not None for point in points):
        columns.pop()
    table = FittedTable(columns)
    for point in points:
        if point.config is None:
            table.add_row(point.label, *[""] * (4 + len(workloads)), point.reason)
            continue
        found = {m.workload: m for m in point.results}
        table.add_row(
            point.label,
            str(point.config.pes),
            f"{point.memory_kib:.1f}",
            "–" if point.verilog_lines is None else f"{point.verilog_lines:,}",
            "–" if point.build_s is None else f"{point.build_s:.0f}",
            *(_cell(found.get(workload)) for workload in workloads),
        )
    return table


def _cell(measured: Measured | None) -> str:
    if measured is None:
        return "–"
    if measured.cycles is None:
        return measured.status
    share = "" if measured.utilization is None else f" {measured.utilization:.0%}"
    return f"{measured.cycles:,}{share}"


def write_csv(points: Sequence[PointResult], path: Path) -> None:
    """A line per point and workload, illegal points with their reason; `CampaignError`."""
    rows = list(_rows(points))
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("w", newline="", encoding="utf-8") as out:
            writer = csv.DictWriter(out, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)
    except OSError as error:
        raise CampaignError(f"--out {path}: cannot write: {error.strerror}") from None


def _rows(points: Sequence[PointResult]) -> Iterator[Mapping[str, object]]:
    nothing = Measured(
        workload="",
        status="illegal",
        cycles=None,
        utilization=None,
        read_bytes=None,
        write_bytes=None,
        bit_exact=None,
        reference_exact=None,
    )
    for point in points:
        config = point.config
        for measured in point.results or (nothing,):
            yield {
                "point": point.label,
                "digest": config.digest_hex if config else "",
                **{name: getattr(config, name) if config else "" for name in _CHANGING},
                "pes": config.pes if config else "",
                "memory_kib": "" if point.memory_kib is None else f"{point.memory_kib:.2f}",
                "verilog_lines": point.verilog_lines,
                "build_s": point.build_s,
                "workload": measured.workload,
                "status": measured.status,
                "cycles": measured.cycles,
                "utilization": (
                    "" if measured.utilization is None else f"{measured.utilization:.4f}"
                ),
                "dram_read_bytes": measured.read_bytes,
                "dram_write_bytes": measured.write_bytes,
                "bit_exact": measured.bit_exact,
                "reference_exact": measured.reference_exact,
                "reason": point.reason,
            }

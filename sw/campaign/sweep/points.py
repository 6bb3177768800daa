"""What a sweep found, point by point: figures from its rows, as a table and as CSV."""

import csv
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from sw.campaign.summary import column
from sw.campaign.sweep.objectives import Objective
from sw.campaign.sweep.pareto import front
from sw.campaign.sweep.result import Measured, PointResult
from sw.campaign.sweep.tasks import SMOKE
from sw.results.store import Run
from sw.results.task import CampaignError, Kind, Status
from sw.runtime.tables import Column, FittedTable, left, right

_CHANGING = ("rows", "cols", "spad_kib", "acc_kib", "bus_bytes", "banks", "param_entries")
_SYNTH = ("area_ge", "fmax_mhz", "critical_ns", "sram_bits", "luts", "ffs", "dsps", "brams")
_OWN_COLUMN = ("area", "luts", "clock", "pes", "memory")
"""Objectives that the table shows in any case."""
_PREPARING = (Kind.LINT, Kind.BUILD, Kind.SYNTH)


def point_results(runs: Sequence[Run]) -> list[PointResult]:
    """One result per point, in the order of the space."""
    groups: dict[str, list[Run]] = {}
    for run in runs:
        groups.setdefault(run.task.digest or run.task.label, []).append(run)
    # A row that is no workload asked for, as a smoke, makes no result of its own.
    sought = _sought(runs)
    return [_point(members, sought) for members in groups.values()]


def _sought(runs: Sequence[Run]) -> tuple[str, ...]:
    """Workloads of the space: those that golden or the model has; the smoke is on RTL alone."""
    chosen = (r.task for r in runs if r.task.kind is Kind.PREDICT or r.task.device == "golden")
    names = (task.workload for task in chosen)
    return tuple(dict.fromkeys(names))


def _point(runs: Sequence[Run], workloads: Sequence[str]) -> PointResult:
    first = runs[0].task
    figures: dict[str, Any] = {}
    synth = ""
    for run in runs:
        if run.task.kind in _PREPARING and run.outcome is not None:
            figures |= dict(run.outcome.figures)
            synth = run.task.device or synth
    lines = figures.get("verilog_lines")
    here = [w for w in workloads if any(r.task.workload == w for r in runs)]
    return PointResult(
        label=first.config_name,
        config=first.config,
        reason=first.reason,
        verilog_lines=None if lines is None else int(lines),
        build_s=figures.get("build_s"),
        smoke=_smoke(runs),
        synth=synth,
        results=tuple(_measured(w, [r for r in runs if r.task.workload == w]) for w in here),
        **{name: figures.get(name) for name in _SYNTH},
    )


def _smoke(runs: Sequence[Run]) -> bool | None:
    on_rtl = [r for r in runs if r.task.workload in SMOKE and r.task.device == "rtl"]
    if not on_rtl or any(_verdict(run) is None for run in on_rtl):
        return None
    return all(map(_verdict, on_rtl))


def _measured(workload: str, runs: Sequence[Run]) -> Measured:
    found = {run.task.device if run.task.kind is Kind.RUN else run.task.kind: run for run in runs}
    rtl, golden, model = found.get("rtl"), found.get("golden"), found.get(Kind.PREDICT)
    energy = _figures(found.get(Kind.ENERGY))
    source = model or rtl
    compared = [run for run in (rtl, golden, model) if run is not None]
    outcome = source.outcome if source and all(map(_passed, compared)) else None
    figures = dict(outcome.figures) if outcome else {}
    cycles = outcome.cycles if outcome else None
    predicted = figures.get("predicted_cycles")
    return Measured(
        workload=workload,
        status=_status(compared + [run for run in runs if run not in compared]),
        cycles=cycles,
        predicted_cycles=predicted,
        error_pct=figures.get("error_pct"),
        utilization=_utilization(source, cycles or predicted),
        read_bytes=figures.get("read_bytes", outcome.read_bytes if outcome else None),
        write_bytes=figures.get("write_bytes", outcome.write_bytes if outcome else None),
        energy_uj=energy.get("energy_uj"),
        energy_error=energy.get("standard_error"),
        bit_exact=_verdict(rtl),
        reference_exact=_verdict(golden),
    )


def _passed(run: Run) -> bool:
    return run.status is Status.PASSED


def _figures(run: Run | None) -> dict[str, Any]:
    """Of a run that passed."""
    return dict(run.outcome.figures) if run and run.outcome and _passed(run) else {}


def _status(runs: Sequence[Run]) -> str:
    """Of the first that did not pass."""
    bad = next((run for run in runs if not _passed(run)), None)
    if bad is None:
        return Status.PASSED.value
    where = bad.task.kind.value if bad.task.kind is not Kind.RUN else bad.task.device
    return column(bad.status) if where == "rtl" else f"{column(bad.status)} on {where}"


def _utilization(run: Run | None, cycles: int | None) -> float | None:
    """Multiply-accumulates over those that the array could have done."""
    if run is None or run.outcome is None or run.task.config is None:
        return None
    if not cycles or not run.outcome.macs:
        return None
    return run.outcome.macs / (cycles * run.task.config.pes)


def _verdict(run: Run | None) -> bool | None:
    """True or False where a comparison was made."""
    verdicts = {Status.PASSED: True, Status.FAILED: False}
    return verdicts.get(run.status) if run is not None else None


def front_of(points: Sequence[PointResult], objectives: Sequence[Objective]) -> list[PointResult]:
    """Those that no other beats in every objective; none without objectives."""
    found = [(p, [o.cost(p) for o in objectives]) for p in points if p.smoke is not False]
    known = [(p, [c for c in costs if c is not None]) for p, costs in found if None not in costs]
    if not objectives or not known:
        return []
    return [known[number][0] for number in front([costs for _, costs in known])]


def points_table(
    points: Sequence[PointResult], objectives: Sequence[Objective] = ()
) -> FittedTable:
    """One line per point: sizes, area and clock, then cycles and utilization of each workload.

    ● is a point of the front of `objectives`. ≈ is before cycles that are predicted.
    """
    columns = _columns(points, objectives)
    table = FittedTable([column for column, _ in columns])
    for point in points:
        if point.config is None:
            table.add_row(point.label, *[""] * (len(columns) - 2), point.reason)
        else:
            table.add_row(*(cell(point) for _, cell in columns))
    return table


def _columns(
    points: Sequence[PointResult], objectives: Sequence[Objective]
) -> list[tuple[Column, Callable[[PointResult], str]]]:
    """Each column with what it says of a legal point."""
    best = {point.label for point in front_of(points, objectives)}
    columns: list[tuple[Column, Callable[[PointResult], str]]] = [
        (left("point", fold=16), lambda p: p.label)
    ]
    if objectives:
        columns.append((left("front"), lambda p: "●" if p.label in best else ""))
    columns += [
        (right("PEs", 3), lambda p: str(p.config.pes if p.config else 0)),
        (right("memory KiB", 2), lambda p: f"{p.memory_kib:.1f}"),
        (right("Verilog lines", 6), lambda p: number(p.verilog_lines)),
        (right("build s", 7), lambda p: number(p.build_s)),
    ]
    if any(point.luts is not None for point in points):
        columns.append((right("LUTs"), lambda p: number(p.luts)))
    elif any(point.synth for point in points):
        columns.append((right("kGE"), lambda p: number(p.area_kge)))
    if any(point.synth for point in points):
        columns.append((right("MHz"), lambda p: number(p.fmax_mhz)))
    for objective in objectives:
        if objective.name not in _OWN_COLUMN:
            columns.append((right(objective.name, 4), partial(_value, objective)))
    for name in dict.fromkeys(m.workload for p in points for m in p.results):
        columns.append((right(name.replace(":", ":\n"), 1), partial(_cell, name)))
    if any(point.config is None for point in points):
        columns.append((left("illegal", fold=20), lambda _: ""))
    return columns


def number(value: float | None) -> str:
    """Of three digits where it is small; – for none."""
    if value is None:
        return "–"
    return f"{value:,.0f}" if value >= 100 or value == int(value) else f"{value:.3g}"


def _value(objective: Objective, point: PointResult) -> str:
    return number(objective.value(point))


def _cell(workload: str, point: PointResult) -> str:
    measured = next((m for m in point.results if m.workload == workload), None)
    if measured is None:
        return "–"
    if measured.best_cycles is None:
        return measured.status
    share = "" if measured.utilization is None else f" {measured.utilization:.0%}"
    return f"{'≈' if measured.predicted else ''}{measured.best_cycles:,}{share}"


def write_csv(
    points: Sequence[PointResult], path: Path, objectives: Sequence[Objective] = ()
) -> None:
    """A line per point and workload, illegal points with their reason; `CampaignError`."""
    best = {point.label for point in front_of(points, objectives)}
    rows = [row for point in points for row in _rows(point, objectives, point.label in best)]
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("w", newline="", encoding="utf-8") as out:
            writer = csv.DictWriter(out, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)
    except OSError as error:
        raise CampaignError(f"--out {path}: cannot write: {error.strerror}") from None


def _rows(
    point: PointResult, objectives: Sequence[Objective], on_front: bool
) -> Iterator[Mapping[str, object]]:
    nothing = Measured(workload="", status="illegal" if point.config is None else "")
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
            "smoke": point.smoke,
            "synth": point.synth,
            **{name: getattr(point, name) for name in _SYNTH},
            "workload": measured.workload,
            "status": measured.status,
            "cycles": measured.cycles,
            "predicted_cycles": measured.predicted_cycles,
            "predicted": measured.predicted,
            "error_pct": measured.error_pct,
            "utilization": ("" if measured.utilization is None else f"{measured.utilization:.4f}"),
            "dram_read_bytes": measured.read_bytes,
            "dram_write_bytes": measured.write_bytes,
            "energy_uj": measured.energy_uj,
            "energy_error": measured.energy_error,
            "bit_exact": measured.bit_exact,
            "reference_exact": measured.reference_exact,
            **{f"objective_{o.name}": o.value(point) for o in objectives},
            "front": on_front if objectives else "",
            "reason": point.reason,
        }

"""The data as the scripts of the page read them.

Fields without a value are left out, so that a page of ten thousand points stays small.
"""

from collections.abc import Iterable, Mapping
from dataclasses import fields
from typing import Any

from sw.report.advice import default_thresholds
from sw.report.data import MEAN, Point, ReportData
from sw.report.objectives import OBJECTIVES, values


def payload(data: ReportData) -> dict[str, Any]:
    """As the scripts read it; counters as rows of numbers, whose names are there once."""
    workloads = data.workloads
    engines = _names(m.counters for p in data.points for m in p.measurements)
    states = _names(
        states for p in data.points for m in p.measurements for states in m.counters.values()
    )
    points = []
    for point in data.points:
        row = _plain(point)
        for measured in row.get("measurements", ()):
            if found := measured.get("counters"):
                measured["counters"] = [
                    [found.get(engine, {}).get(state, 0) for state in states] for engine in engines
                ]
        row["values"] = values(point, workloads)
        if any(marks := predicted(point, workloads)):
            row["predicted"] = [int(mark) for mark in marks]
        points.append(row)
    return {
        **{name: getattr(data, name) for name in ("title", "made_at", "release")},
        "workloads": [*workloads, MEAN],
        "objectives": [objective.to_json() for objective in OBJECTIVES],
        "bases": _plain(data.bases),
        "engines": engines,
        "states": states,
        "points": points,
        "campaigns": [_plain(campaign) for campaign in data.campaigns],
        "history": [_plain(history) for history in data.history],
        "failures": [_plain(failure) for failure in data.failures],
        "thresholds": default_thresholds(data),
    }


def predicted(point: Point, workloads: list[str]) -> list[bool]:
    """Whether the cycles of each workload, and of the mean of them, are the compiler's."""
    marks = {m.workload: m.predicted for m in point.measurements}
    each = [marks.get(workload, False) for workload in workloads]
    return [*each, any(each)]


def _names(mappings: Iterable[Iterable[str]]) -> list[str]:
    return list(dict.fromkeys(name for mapping in mappings for name in mapping))


def _plain(value: Any) -> Any:
    """Records as mappings, without what is None or empty."""
    if hasattr(value, "__dataclass_fields__"):
        found = {f.name: _plain(getattr(value, f.name)) for f in fields(value)}
        return {name: v for name, v in found.items() if not _is_empty(v)}
    if isinstance(value, Mapping):
        return {name: _plain(v) for name, v in value.items()}
    if isinstance(value, tuple | list):
        return [_plain(v) for v in value]
    return value


def _is_empty(value: Any) -> bool:
    return value is None or value is False or (isinstance(value, str | list | dict) and not value)

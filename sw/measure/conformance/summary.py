"""What a conformance run says: counts by operator for a terminal, and a JSON record."""

import re
from collections import Counter
from collections.abc import Mapping
from typing import Any

from sw.measure.conformance.chunk import Status, Verdict
from sw.measure.conformance.suite import operator_of
from sw.runtime.tables import FittedTable, left, right

_SHOWN = 3


def summary(verdicts: Mapping[str, Verdict]) -> dict[str, dict[str, Any]]:
    """By operator: counts of each status, seconds, cycles, and reasons with their counts."""
    rows: dict[str, dict[str, Any]] = {}
    for verdict in verdicts.values():
        row = rows.setdefault(
            operator_of(verdict.test),
            {**{str(s): 0 for s in Status}, "seconds": 0.0, "cycles": 0, "reasons": Counter()},
        )
        row[verdict.status] += 1
        row["seconds"] += verdict.seconds
        row["cycles"] += verdict.cycles
        if verdict.status is not Status.PASSED:
            row["reasons"][f"{verdict.status}: {_reason(verdict)}"] += 1
    for row in rows.values():
        row["seconds"] = round(row["seconds"], 1)
        row["reasons"] = dict(row["reasons"].most_common())
    return dict(sorted(rows.items()))


def _reason(verdict: Verdict) -> str:
    """The message without names and numbers that differ between tests."""
    text = verdict.message.partition("\n  hint:")[0].replace("UNEXPECTED_FAILURE: ", "")
    text = " ".join(text.split()).removeprefix(f"{verdict.test}: ")
    return re.sub(r"\b\d+\b", "#", text)[:160] or "results differ"


def record(
    name: str, device: str, config: str, wall_s: float, verdicts: Mapping[str, Verdict], source: str
) -> dict[str, Any]:
    """The JSON record of a run; `wall_s` of this invocation."""
    return {
        "suite": name,
        "device": device,
        "config": config,
        "commit": source,
        "wall_s": round(wall_s, 1),
        "tests": len(verdicts),
        "passed": sum(v.status is Status.PASSED for v in verdicts.values()),
        "operators": summary(verdicts),
    }


def table(rows: Mapping[str, Mapping[str, Any]]) -> FittedTable:
    """The counts for a terminal."""
    counted = [right(str(status)) for status in Status]
    out = FittedTable(
        [left("operator", fold=12), *counted, right("seconds", 1), left("why not", 1, 12)]
    )
    for operator, row in rows.items():
        reasons = [f"{n} {text}" for text, n in row["reasons"].items()]
        counts = (str(row[s] or "·") for s in Status)
        out.add_row(operator, *counts, f"{row['seconds']:.1f}", "\n".join(reasons[:_SHOWN]))
    totals = (str(sum(row[s] for row in rows.values())) for s in Status)
    out.add_section()
    out.add_row("all", *totals, f"{sum(row['seconds'] for row in rows.values()):.1f}", "")
    return out

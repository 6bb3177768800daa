"""`docs/calibration.md` from the rows that `systola calibrate --json` wrote."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from statistics import fmean

from rich.table import Table

from sw.measure.bench_store import Row, read_rows
from sw.measure.calibration.samples import WORKLOADS
from sw.measure.pages.markdown import document, heading, prose, table
from sw.runtime.report import ReportError

FAR = 0.08
"""Errors beyond this are listed one by one."""

_INTRO = """
`systola calibrate` draws legal configurations at random, runs the same workloads on the RTL of each
with every memory of [The simulated memory](memory.md), and compares the cycles with those that the
compiler predicts. Every result is compared with the golden model's, bit for bit. The error is
predicted over measured cycles, less one; means are of its size.
"""
_FAR = f"""
Every run whose prediction is more than {FAR:.0%} off, networks first.
"""
_REFUSED = """
A configuration may lack what a workload needs. The compiler says so, and nothing runs.
"""


def render(files: Sequence[Path]) -> str:
    """The page of the rows in `files`; `ReportError` if a result was wrong."""
    return page([row for path in files for row in read_rows(path)])


def page(rows: Sequence[Row]) -> str:
    """The whole page."""
    for row in rows:
        if "error" in row:
            raise ReportError(f"{row['config']}, {row['name']}: {row['error']}")
    run = [row for row in rows if "cycles" in row]
    blocks = [heading(1, "Calibration"), prose(_INTRO), _counts(rows, run)]
    blocks += [heading(2, "By workload and memory"), table(*_cells(run), "lr")]
    blocks += _far(run)
    refused = {(row["config"], row["workload"]) for row in rows if "refused" in row}
    if refused:
        blocks += [heading(2, "Refused"), prose(f"{_REFUSED} {len(refused)} pairs.")]
    return document("systola pages calibration", "docs/data/", *blocks)


def summary(rows: Sequence[Row]) -> Table:
    """Errors by workload and memory, for a terminal."""
    head, cells = _cells([row for row in rows if "cycles" in row])
    found = Table(title="predicted over measured cycles: mean size of the error, and the worst")
    for number, name in enumerate(head):
        found.add_column(name, justify="right" if number else "left")
    for cell in cells:
        found.add_row(*cell)
    return found


def _error(row: Row) -> float:
    return float(row["predicted_cycles"]) / float(row["cycles"]) - 1


def _counts(rows: Sequence[Row], run: Sequence[Row]) -> str:
    configs = len({row["config_digest"] for row in rows})
    text = f"{configs} configurations, {len(run)} runs."
    for name, chosen in (("Networks", [r for r in run if _is_network(r)]), ("All", run)):
        sizes = [abs(_error(row)) for row in chosen]
        if sizes:
            text += f" {name}: mean error {fmean(sizes):.1%}, worst {max(sizes):.1%}."
    return prose(text)


def _is_network(row: Row) -> bool:
    return any(work.name == row["workload"] and work.shape is None for work in WORKLOADS)


def _cells(run: Sequence[Row]) -> tuple[list[str], list[list[str]]]:
    memories = list(dict.fromkeys(str(row["memory"]) for row in run))
    head = ["workload", *(f"{m}, {what}" for m in memories for what in ("mean", "worst"))]
    names = list(dict.fromkeys(str(row["workload"]) for row in run))
    groups: list[tuple[str, Callable[[Row], bool]]] = [
        (name, lambda row, name=name: row["workload"] == name)  # type: ignore[misc]
        for name in names
    ]
    groups += [("networks", _is_network), ("all", lambda _: True)]
    cells = []
    for name, belongs in groups:
        errors = [[_error(r) for r in run if belongs(r) and r["memory"] == m] for m in memories]
        if any(errors):
            cells.append([name, *(text for found in errors for text in _texts(found))])
    return head, cells


def _texts(errors: Sequence[float]) -> tuple[str, str]:
    if not errors:
        return "", ""
    return f"{fmean(map(abs, errors)):.1%}", f"{max(errors, key=abs):+.1%}"


def _far(run: Iterable[Row]) -> Iterator[str]:
    far = [row for row in run if abs(_error(row)) > FAR]
    if not far:
        return
    yield heading(2, f"More than {FAR:.0%} off")
    yield prose(_FAR)
    far.sort(key=lambda row: (not _is_network(row), -abs(_error(row))))
    yield table(
        ["configuration", "workload", "memory", "measured", "predicted", "error"],
        [
            [
                *(f"`{row['config']}`", row["workload"], row["memory"]),
                *(f"{row['cycles']:,}", f"{row['predicted_cycles']:,}", f"{_error(row):+.1%}"),
            ]
            for row in far
        ],
        "lllr",
    )

"""docs/conformance.md from the records that `systola conformance --json` wrote."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from sw.measure.conformance.chunk import Status
from sw.measure.pages.markdown import bullets, code, document, heading, prose, table
from sw.runtime.report import ReportError, read_json

Record = Mapping[str, Any]
_INTRO = """
This page has the verdicts of the official PRO-INT tests of TOSA 1.0.2
(`tosa_verif_conformance_generator` of tosa-tools). The official runner (`tosa_verif_run_tests`)
judges: it compares each result with the reference model bit for bit. A positive test passes if
every element is equal, a negative one (ERROR_IF) if the importer refuses the graph.

The system under test is the NPU. No operator runs on the host, and constant folding is off. Each
result is read from device memory after a run that executed compute or move instructions. Constant
operands are written to memory like run-time inputs. Only what TOSA wants at compile time stays
constant (zero points, multipliers, shifts, tables, shapes, padding values), and constant weights
and biases, which programs carry in memory.
"""
_COMMANDS = """
make conformance DEVICE=golden
make conformance DEVICE=rtl CONFIG=small JOBS=2
make conformance OPS="clamp table" NEGATIVE=1
make conformance RANDOM=100 SEED=11 OPS="matmul rescale" DEVICE=rtl
"""
_RUNS = """
The same command goes on after an interruption. Verdicts count only for the sources, the
configuration and the device that they were measured with. The exit code is 1 unless every test
passes. An operator's seconds are those of compiling and running its tests, without generating and
judging them.
"""


def render(files: Sequence[Path]) -> str:
    """The page of the records in `files`; `ReportError` if one is none."""
    title = heading(1, "TOSA conformance")
    sections = [block for path in files for block in _section(_read(path))]
    intro = (prose(_INTRO), code(_COMMANDS), prose(_RUNS))
    return document("systola pages conformance", "docs/data/", title, *intro, *sections)


def _read(path: Path) -> Record:
    entry: Record = read_json(path)
    if not isinstance(entry, dict) or not {"operators", "passed"} <= set(entry):
        raise ReportError(f"{path}: no record of systola conformance")
    return entry


def _section(entry: Record) -> Iterator[str]:
    rows = entry["operators"]
    yield heading(2, f"{entry['suite']} on {entry['device']}, configuration {entry['config']}")
    yield prose(
        f"{entry['passed']} of {entry['tests']} pass. {entry['wall_s']:.0f} s, commit "
        f"{entry['commit'] or 'unknown'}."
    )
    cells = [
        (operator, *(row[status] for status in Status), f"{row['seconds']:.1f}")
        for operator, row in rows.items()
    ]
    yield table(("operator", *Status, "seconds"), cells, "lr")
    reasons = [
        f"{operator}: {count} {text}"
        for operator, row in rows.items()
        for text, count in row["reasons"].items()
    ]
    if reasons:
        yield "Why tests do not pass:"
        yield bullets(reasons)

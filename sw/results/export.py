"""Runs as a file for other programs: CSV, Parquet or JSON."""

import contextlib
import csv
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sw.results.schema import RUNS, Json
from sw.results.task import CampaignError

KINDS = (".csv", ".parquet", ".json")
_JSON_COLUMNS = frozenset(c.name for c in RUNS.columns if isinstance(c.type, Json))


def check_export(path: Path) -> None:
    """`CampaignError` unless `path` is of a kind that can be written here: before the query."""
    if path.suffix not in KINDS:
        raise CampaignError(f"--to {path}: must end in {', '.join(KINDS[:-1])} or {KINDS[-1]}")
    if path.suffix == ".parquet":
        try:
            import pyarrow.parquet  # noqa: F401  (the question is whether it is there)
        except ImportError:
            raise CampaignError(
                f"--to {path}: Parquet needs the package pyarrow: pip install 'systola[parquet]'"
            ) from None


def export_runs(rows: Sequence[Mapping[str, Any]], path: Path) -> None:
    """Write every column of `rows`; objects are JSON texts in CSV and Parquet.

    The file is there whole or not at all. `CampaignError` if it cannot be written.
    """
    check_export(path)
    part = path.with_name(f"{path.name}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _WRITERS[path.suffix](rows, part)
        part.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)
        raise CampaignError(f"--to {path}: cannot write: {error.strerror or error}") from None


def _flat(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    return [
        {
            name: json.dumps(value) if name in _JSON_COLUMNS and value is not None else value
            for name, value in row.items()
        }
        for row in rows
    ]


def _csv(rows: Sequence[Mapping[str, Any]], path: Path) -> None:
    names = list(rows[0]) if rows else [column.name for column in RUNS.columns]
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, names)
        writer.writeheader()
        writer.writerows(_flat(rows))


def _json(rows: Sequence[Mapping[str, Any]], path: Path) -> None:
    path.write_text(json.dumps([dict(row) for row in rows], indent=1) + "\n")


def _parquet(rows: Sequence[Mapping[str, Any]], path: Path) -> None:
    import pyarrow
    from pyarrow import parquet

    kinds = {int: pyarrow.int64(), float: pyarrow.float64()}
    columns = [
        (c.name, pyarrow.string() if isinstance(c.type, Json) else kinds.get(_python(c)))
        for c in RUNS.columns
    ]
    more = [name for name in (rows[0] if rows else ()) if name not in RUNS.columns]
    fields = [(name, kind or pyarrow.string()) for name, kind in columns]
    schema = pyarrow.schema([*fields, *((name, pyarrow.string()) for name in more)])
    parquet.write_table(pyarrow.Table.from_pylist(_flat(rows), schema=schema), path)


def _python(column: Any) -> type:
    kind: type = column.type.python_type
    return kind


_WRITERS = {".csv": _csv, ".json": _json, ".parquet": _parquet}

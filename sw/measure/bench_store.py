"""Where measured rows are kept: a JSON list that is whole after every row."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from spec.config import NpuConfig
from sw.results.revision import commit, source_digest
from sw.runtime.report import ReportError, read_json, write_json

Row = dict[str, Any]
Record = Callable[[Row, NpuConfig], None]


class Store:
    """Rows in `path`, by name and configuration.

    A row is found again if it was measured without error on the same sources, configuration and
    memory (`conditions`). Rows of other entries and configurations stay as they are. record: hears
    of every row that is added.
    """

    def __init__(
        self,
        path: Path,
        config: NpuConfig,
        conditions: dict[str, Any],
        *,
        fresh: bool = False,
        record: Record = lambda _row, _config: None,
    ) -> None:
        self.path = path
        self._record = record
        self._config = config
        self._marks = {**conditions, "sources": source_digest()}
        self._fresh = fresh
        self.rows = read_rows(path) if path.exists() and path.stat().st_size else []

    def find(self, name: str, config: NpuConfig | None = None) -> Row | None:
        """The row of entry `name`, if it still holds; config: of an entry with hardware of its
        own.
        """
        row = next((r for r in self.rows if self._is(r, name, config)), None)
        if row is None or self._fresh or row.get("error"):
            return None
        return row if all(row.get(key) == value for key, value in self._marks.items()) else None

    def add(self, name: str, facts: Row, config: NpuConfig | None = None) -> Row:
        """Put the row of entry `name` in place of an older one and write the file."""
        row = {**facts, **self._marks, "commit": commit()}
        self.rows = [r for r in self.rows if not self._is(r, name, config)] + [row]
        temporary = self.path.with_name(self.path.name + ".part")
        write_json(self.rows, temporary)
        temporary.replace(self.path)
        self._record(row, config or self._config)
        return row

    def _is(self, row: Row, name: str, config: NpuConfig | None) -> bool:
        digest = (config or self._config).digest_hex
        return row["name"] == name and row["config_digest"] == digest


def read_rows(path: Path) -> list[Row]:
    """The rows of a file that `systola bench --json` wrote; `ReportError` if it is none."""
    rows = read_json(path)
    good = isinstance(rows, list) and all(
        isinstance(row, dict) and {"name", "config_digest"} <= set(row) for row in rows
    )
    if not good:
        raise ReportError(f"{path}: no list of benchmark rows (systola bench --json writes them)")
    return rows

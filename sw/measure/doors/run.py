"""What is measured: rows in a file, each stored as it comes."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from spec.config import NpuConfig
from sw.measure.bench_store import Row, Store

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A row to be measured. name: by which it is found again; facts: what the row always has."""

    name: str
    facts: Row
    measure: Callable[[], Row]


def run(entries: Sequence[Entry], config: NpuConfig, path: Path, say: Say) -> list[Row]:
    """The rows, of which `path` is asked first; one that could not be measured has `error`."""
    store = Store(path, config, {})
    rows = []
    for entry in entries:
        row = store.find(entry.name)
        if row is None:
            say(f"{entry.name}…")
            start = time.monotonic()
            row = store.add(entry.name, _row(entry, config))
            say(f"{entry.name}: {row.get('error', 'done')}, {time.monotonic() - start:.0f} s")
        rows.append(row)
    return rows


def _row(entry: Entry, config: NpuConfig) -> Row:
    facts = {
        "name": entry.name,
        "config": config.name,
        "config_digest": config.digest_hex,
        **entry.facts,
    }
    try:
        return facts | entry.measure()
    except (
        Exception
    ) as error:  # frameworks raise anything; the other rows are measured all the same
        first = (str(error).strip().splitlines() or [""])[0]
        return facts | {"error": f"{type(error).__name__}: {first}"}

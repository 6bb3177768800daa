"""Rows of `systola bench` in the database of results, beside the JSON."""

import json
from pathlib import Path

import pytest
from campaign_helpers import systola
from postgres_server import look
from results_helpers import TINY

from sw.measure.bench import problems
from sw.measure.bench_record import Recorder
from sw.results.task import CampaignError

MEMORY = {"latency": 100, "stall": 0.0, "seed": 0, "memory": "ideal", "clock_mhz": None}


def recorder(where: str, file: Path) -> Recorder:
    return Recorder(where, "nets", TINY, MEMORY, title="nets", file=file, problems=problems)


def test_each_row_has_its_figures_and_its_verdict(where: str, tmp_path: Path) -> None:
    good = {"name": "vww", "device": "rtl", "cycles": 900, "predicted_cycles": 880, "pcc": 0.99}
    exact = {"bit_exact": True, "reference_exact": True, "macs": 5, "counters": {"load": {"a": 1}}}
    file = tmp_path / "rows.json"
    with recorder(where, file) as record:
        record.add({**good, **exact}, TINY)
        record.add({**good, **exact, "name": "ad", "bit_exact": False}, TINY)
        record.add({"name": "kws", "error": "too large"}, TINY)
        record.add({**good, **exact, "cycles": 901}, TINY)  # measured again: in its place
        with pytest.raises(CampaignError, match="is being run by process"):
            recorder(where, file)
        assert record.count == 4
    rows = look(
        where,
        "SELECT workload, status, cycles, predicted_cycles, pcc, message FROM runs ORDER BY id",
    )
    assert rows == [
        ("vww", "passed", 901, 880, 0.99, None),
        ("ad", "failed", 900, 880, 0.99, "bit_exact is False"),
        ("kws", "error", None, None, None, "too large"),
    ]
    assert look(where, "SELECT kind, name, finished_at IS NULL FROM campaigns") == [
        ("bench", "nets", False)
    ]


def test_bench_records_what_it_measured_and_nothing_twice(tmp_path: Path) -> None:
    database, rows = tmp_path / "r.sqlite", tmp_path / "rows.json"
    arguments = (
        *("bench", "--predict", "--only", "matmul_64x64x64", "-c", "tiny"),
        *("--json", rows, "--db", database),
    )
    code, text = systola(*arguments)
    assert code == 0 and f"{database}, campaign 1: 1 rows recorded" in text
    (row,) = json.loads(rows.read_text())
    assert look(database, "SELECT workload, device, predicted_cycles, cycles FROM runs") == [
        ("matmul_64x64x64", "none", row["predicted_cycles"], None)
    ]
    code, text = systola(*arguments)
    assert code == 0 and f"{database}, campaign 1: 0 rows recorded" in text
    assert look(database, "SELECT count(*) FROM runs") == [(1,)]

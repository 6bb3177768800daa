"""docs/benchmarks.md: generated from committed rows, peers told apart from measurements."""

from pathlib import Path

import pytest
from test_bench import GOOD

from sw.measure.bench import problems
from sw.measure.bench_store import read_rows
from sw.measure.bench_suites import SUITES
from sw.measure.pages.bench import PEERS, page, read_peers, render
from sw.runtime.report import ReportError

DOCS = Path(__file__).resolve().parent.parent / "docs"
FILES = sorted((DOCS / "data").glob("benchmarks-*.json"))
MARKS = {"latency": 100, "commit": "c0ffee", "sources": "5eed"}
ROW = {"name": "matmul_64x64x64", **GOOD, **MARKS, "config": "default", "cycles": 2000}


def test_the_page_is_what_its_rows_say():
    assert FILES
    text = render(FILES)
    for row in (row for path in FILES for row in read_rows(path)):
        assert problems(row) == []
        assert f"| {row['name']} |" in text and f"**{row['cycles']:,}**" in text


def test_every_peers_figure_has_a_source_and_an_entry():
    peers = read_peers(PEERS)
    sources = {source["id"] for source in peers["sources"]}
    names = {entry.name for suite in SUITES.values() for entry in suite}
    assert all(s["provenance"] and s["kind"] != "measured" for s in peers["sources"])
    for name, figures in peers["figures"].items():
        assert name in names
        assert set(figures) <= sources


def test_columns_say_what_was_measured_and_what_was_not():
    text = page([ROW], read_peers(PEERS))
    (head,) = [line for line in text.splitlines() if "Systola, measured" in line]
    assert head == (
        "|  | MMAC | **Systola, measured** | utilization | Gemmini 16×16, quoted "
        "| SCALE-Sim 16×16, model | every tensor once, estimate |"
    )
    assert "| **2,000** | 50.0% | 2,597 (1.30×) | 1,504 (0.75×) | 1,024 (0.51×) |" in text
    assert "Ethos" not in text


def test_peers_of_another_size_are_not_put_beside():
    text = page([{**ROW, "config": "tiny"}], read_peers(PEERS))
    assert "2,597" not in text and "**2,000**" in text


def test_networks_are_shown_with_both_correlations():
    net = {**ROW, "name": "ad", "compile_s": 1.25, "pcc": 0.99951, "pcc_between_images": 0.512}
    text = page([net], read_peers(PEERS))
    assert "## Networks: `default` (16×16)" in text
    assert "| 1.2 s | 0.99951 | 0.512 |" in text


def test_transformers_are_shown_with_their_bar_and_what_ran_elsewhere():
    row = {**ROW, "name": "gpt2_decode_s16", "cycles": 8_000_000, "compile_s": 3.0, "pcc": 0.9991}
    row |= {"pcc_between_images": 0.2, "operators": 1695, "elsewhere": 0}
    text = page([row], read_peers(PEERS))
    assert "## Transformers: `default` (16×16)" in text
    assert "| 7,739,184 (0.97×) | 8,599,093 (1.07×) |" in text
    assert "| PCC to the float network | PCC between two inputs | operators on the NPU |" in text
    assert "| 0.99910 | 0.200 | 1695 | 0 |" in text


def test_rows_that_do_not_count_are_not_published():
    with pytest.raises(ReportError) as caught:
        page([{**ROW, "reference_exact": None}], read_peers(PEERS))
    assert str(caught.value) == "matmul_64x64x64 on default: reference_exact is None"


def test_the_wide_suite_is_shown_against_its_bound_also_where_nothing_ran():
    ran = {**ROW, "name": "vgg", "compile_s": 1.0, "pcc": 0.999, "pcc_between_images": 0.5}
    ran |= {"operators": 9, "elsewhere": 0, "policy": "pt2e: because", "layer_bound": 1800.4}
    ran |= {"predicted_cycles": 1990, "share": 0.9}
    told = {**MARKS, **{k: GOOD[k] for k in ("config_digest", "macs")}, "name": "alexnet"}
    told |= {"config": "default", "device": "none", "cycles": None, "layer_bound": 40.0}
    told |= {"predicted_cycles": 100, "share": 0.4}
    text = page([ran, told], read_peers(PEERS))
    assert "## Networks of more families: `default` (16×16)" in text
    assert (
        "Geometric mean of the shares of 2 networks: **60.0%**. Predictions were 0.5% off" in text
    )
    line = (
        "| vgg | plain stack, large FC | pt2e | 0.008 | **2,000** | 50.0% | 1,990 | 1,800 | 90.0% |"
    )
    assert line in text
    assert "| alexnet | plain stack, large FC |  | 0.008 |  |  | 100 | 40 | 40.0% |" in text


def test_small_shares_are_explained_by_what_the_engines_did():
    net = {**ROW, "name": "swin", "compile_s": 1.0, "pcc": 0.999, "pcc_between_images": 0.5}
    net |= {"operators": 9, "elsewhere": 0, "policy": "wide", "layer_bound": 900.0}
    states = {"busy": 0, "semaphore": 0, "memory": 0, "bank": 0, "pipeline": 0, "idle": 2000}
    net["counters"] = {
        **dict.fromkeys(("fetch", "load", "store"), states),
        "matrix": {**states, "busy": 800},
        "vector": {**states, "busy": 1500, "bank": 100, "pipeline": 40},
    }
    net |= {"predicted_cycles": 2000, "share": 0.45}
    text = page([net], read_peers(PEERS))
    assert "| swin | 45.0% | 0% | 0% | 40% | 75% | 7% | 60% |" in text
    assert "Networks below 70%" not in page([{**net, "share": 0.7}], read_peers(PEERS))

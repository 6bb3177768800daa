"""`systola bench --npus`: what is refused, rows, and what makes them count."""

import json
import re

import pytest
from test_cli_commands import refused

from spec.config import preset
from sw.measure import bench_npus
from sw.measure.bench_npus import NpusOptions, npus_problems, npus_summary, run_suite_npus
from sw.measure.bench_store import Store
from sw.measure.bench_suites import Entry
from sw.runtime.npus.report import NpuShare, SystemResult
from sw.runtime.npus.system import NpuSystem, NpuSystemError
from sw.runtime.session import DeviceOptions
from sw.runtime.simulator.build import Kind, npu_recipe
from sw.runtime.simulator.generated import generator_sources

TINY = preset("tiny")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--npus 0", "--npus 0: must be 1…16"),
        ("--npus 2 --predict", "--predict: nothing is predicted for --npus"),
        ("--samples 3", "--samples 3: goes with --npus"),
    ],
)
def test_the_command_refuses_options_that_make_no_sense(tmp_path, options, message):
    out = ["--json", str(tmp_path / "rows.json")]
    assert message in refused("bench", "--only", "matmul_64x64x64", *options.split(), *out)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"npus": 4, "samples": 3}, "--samples 3: fewer than the 4 NPUs"),
        ({"npus": 4, "samples": 0}, "--samples 0: must be 1 or more"),
        ({"npus": 2, "partition": "pipline"}, "one of batch, pipeline (did you mean 'pipeline'"),
        ({"npus": 2, "shared_memory": "wied"}, "one of narrow, wide (did you mean 'wide'"),
        ({"npus": 16, "shared_memory": "wide"}, "words of 128 bytes; the simulated memory has 64"),
    ],
)
def test_systems_that_make_no_sense_are_refused(options, message):
    with pytest.raises(NpuSystemError, match=re.escape(message)):
        NpusOptions(**options).system(TINY)


def share(**changes):
    facts = {"runs": 2, "busy": 100, "waited": 0, "read_words": 50, "write_words": 10}
    return NpuShare(**facts, read_waits=0, write_waits=0, **changes)


def test_fairness_is_one_where_all_get_the_same_and_less_otherwise():
    facts = {"cycles": 200, "samples": 4, "memory_reads": 100, "memory_writes": 20}
    facts |= {"word_bytes": 8, "wall_s": 0.001}
    even = SystemResult(shares=(share(), share()), **facts)
    assert (even.fairness, even.read_use, even.khz) == (1.0, 0.5, 200.0)
    none = NpuShare(
        runs=1, busy=100, waited=0, read_words=0, write_words=0, read_waits=0, write_waits=0
    )
    assert SystemResult(shares=(share(), none), **facts).fairness == pytest.approx(0.5)


def test_a_row_counts_only_if_it_is_bit_exact():
    row = {"name": "x", "bit_exact": True, "samples": 4, "cycles": 1000, "speedup": 1.5}
    row |= {"read_use": 0.25, "difference": ""}
    assert npus_problems(row) == []
    assert npus_summary(row) == (
        "x: 4 samples in 1,000 cycles, 1.50 times one NPU, memory reads 25%, bit_exact"
    )
    wrong = row | {"bit_exact": False, "difference": "y[0]"}
    assert npus_problems(wrong) == ["bit_exact is False"]
    assert npus_summary(wrong).endswith("FAIL: y[0]")
    assert npus_problems({"name": "x", "error": "no"}) == ["no"]


def test_a_single_npu_has_nothing_of_several():
    """Its simulators and its Verilog depend on no file of rtl/npus or sw/runtime/npus."""
    recipe = npu_recipe(TINY, Kind.PERF, [])
    files = [*recipe.verilog, *recipe.controls, *recipe.cpp, *generator_sources()]
    assert files
    assert [path for path in files if "npus" in (path.name, path.parent.name)] == []


def test_memory_of_the_interconnect_holds_the_largest_burst():
    for words in (1, 2, 4, 8):
        for burst in (1, 16, 256):
            config = TINY.with_settings({"max_burst": str(burst)})
            system = NpuSystem(config=config, npus=2, words=words)
            most = 1 + (burst + words - 2) // words
            assert system.read_words >= most and system.write_words >= 2 * most
            assert system.read_words & (system.read_words - 1) == 0


@pytest.mark.rtl
def test_a_kernel_on_two_npus_gives_a_row_that_is_stored(tmp_path, monkeypatch):
    several = NpusOptions(npus=2, samples=4, shared_memory="wide")
    entry = Entry(name="small", target="matmul", shape="16x16x16")
    path, heard = tmp_path / "rows.json", []

    def rows():
        store = Store(path, TINY, several.conditions())
        return run_suite_npus([entry], TINY, DeviceOptions(), several, store, heard.append)

    (row,) = rows()
    assert npus_problems(row) == []
    assert row["elements"] == (4 + 2) * 16 * 16
    assert 1.3 < row["speedup"] <= 2.1
    assert json.loads(path.read_text())[0]["npus"] == 2
    monkeypatch.setattr(bench_npus, "measure_graph", None)
    assert json.loads(json.dumps(rows())) == json.loads(json.dumps([row]))
    assert heard[-1].endswith("(stored)")


@pytest.mark.rtl
def test_a_network_that_cannot_be_cut_gives_a_row_with_the_reason(tmp_path):
    several = NpusOptions(npus=8, partition="pipeline")
    entry = Entry(name="small", target="matmul", shape="16x16x16")
    store = Store(tmp_path / "rows.json", TINY, several.conditions())
    (row,) = run_suite_npus([entry], TINY, DeviceOptions(), several, store, lambda text: None)
    assert "cannot be cut into 8 stages" in row["error"]

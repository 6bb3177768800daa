"""Comparisons and reports: a run that compared nothing never passes."""

import io
import json

import numpy as np
import pytest
from cli_helpers import systola
from rich.console import Console

from spec.config import preset
from sw.compiler import compile_graph
from sw.models.kernels import kernel, parse_shape
from sw.runtime.golden import GoldenDevice
from sw.runtime.report import Comparison, Report, ReportError, compare, write_json
from sw.runtime.session import DeviceOptions, OptionError, run_image
from sw.runtime.timing import Timing

KEYS = {
    "name", "config", "config_digest", "shape", "device", "cycles", "macs", "utilization",
    "bit_exact", "reference_exact", "mismatches", "wall_s", "sim_cycles_per_s", "counters",
    "dram_read_bytes", "dram_write_bytes",
}  # fmt: skip
TIMED = {
    "predicted_cycles", "layer_bound", "share", "clock_mhz", "ms", "inferences_per_s",
    "program_bytes", "constant_bytes", "peak_dram_bytes", "memory", "predicted_with",
}  # fmt: skip
"""Of reports of what the compiler compiled."""
EXACT = Comparison(elements=10, mismatches=0)
WRONG = Comparison(elements=10, mismatches=2, first="y[1]: expected 3, got 4")
NOTHING = Comparison(elements=0, mismatches=0)
COUNTERS = {
    "load": {"busy": 500, "idle": 500},
    "matrix": {"busy": 900, "idle": 100},
}


def report(**changes):
    facts = {
        "name": "matmul",
        "config": preset("tiny"),
        "shape": "8x8x8",
        "device": "rtl",
        "macs": 512,
        "cycles": 1000,
        "counters": COUNTERS,
        "wall_s": 0.5,
        "dram_read_bytes": 256,
        "dram_write_bytes": 64,
        "comparison": EXACT,
    }
    return Report(**{**facts, **changes})


def printed(made):
    out = io.StringIO()
    made.print(Console(file=out, width=120))
    return out.getvalue()


def test_first_difference_is_named_with_index_and_both_values():
    want = {"y": np.arange(12, dtype=np.int8).reshape(3, 4)}
    got = {"y": want["y"].copy()}
    got["y"][1, 2] = 100
    got["y"][2, 0] = -1
    found = compare(want, got)
    assert found == Comparison(elements=12, mismatches=2, first="y[1, 2]: expected 6, got 100")
    assert not found.exact


def test_equal_tensors_are_exact_and_none_at_all_are_not():
    ones = {"a": np.ones(3, np.int8), "b": np.ones((2, 2), np.int32)}
    assert compare(ones, ones) == Comparison(elements=7, mismatches=0)
    assert compare(ones, ones).exact
    assert not compare({}, {}).exact
    assert not compare({"a": np.ones(0)}, {"a": np.ones(0)}).exact


@pytest.mark.parametrize(
    ("got", "message"),
    [
        ({}, r"^outputs \[\] are not those expected, \['y'\]$"),
        ({"y": np.ones(3, np.int8), "z": np.ones(1)}, r"^outputs \['y', 'z'\] are not those"),
        (
            {"y": np.ones((3, 1), np.int8)},
            r"^output y: int8\[3, 1\] cannot be compared with the expected int8\[3\]$",
        ),
        (
            {"y": np.ones(3, np.int32)},
            r"^output y: int32\[3\] cannot be compared with the expected int8\[3\]$",
        ),
    ],
)
def test_tensors_that_do_not_match_cannot_be_compared(got, message):
    with pytest.raises(ReportError, match=message):
        compare({"y": np.ones(3, np.int8)}, got)


def test_json_has_the_promised_keys_and_figures():
    facts = report().to_json()
    assert set(facts) == KEYS
    assert json.loads(json.dumps(facts)) == facts
    assert facts["utilization"] == 512 / (16 * 1000)
    assert facts["sim_cycles_per_s"] == 2000
    assert (facts["bit_exact"], facts["reference_exact"], facts["mismatches"]) == (True, None, 0)
    assert facts["config_digest"] == preset("tiny").digest_hex


@pytest.mark.parametrize(
    ("changes", "bit_exact", "reference_exact", "mismatches", "failed"),
    [
        ({}, True, None, 0, False),
        ({"comparison": WRONG}, False, None, 2, True),
        ({"comparison": NOTHING}, False, None, 0, True),
        ({"comparison": None}, None, None, None, False),
        ({"comparison": None, "reference": EXACT}, None, True, 0, False),
        ({"reference": WRONG}, True, False, 2, True),
        ({"reference": NOTHING}, True, False, 0, True),
    ],
)
def test_claims(changes, bit_exact, reference_exact, mismatches, failed):
    made = report(**changes)
    facts = made.to_json()
    assert facts["bit_exact"] is bit_exact
    assert facts["reference_exact"] is reference_exact
    assert facts["mismatches"] == mismatches
    assert made.failed is failed


def test_golden_alone_has_no_cycles_and_says_that_nothing_was_compared():
    made = report(device="golden", cycles=None, counters={}, comparison=None)
    facts = made.to_json()
    assert (facts["cycles"], facts["utilization"], facts["sim_cycles_per_s"]) == (None, None, None)
    assert "nothing was compared" in printed(made)
    assert "PASS" not in printed(made)


def test_printed_report_has_shape_cycles_utilization_speed_and_stalls():
    text = printed(report())
    for part in ("matmul  8x8x8", "tiny  4×4", "1,000", "3.2%", "2,000 cycles/s", "90.0%"):
        assert part in text
    assert "PASS  RTL = golden model: 10 elements, 0 differences" in text


def test_printed_failure_names_the_first_difference():
    text = printed(report(comparison=WRONG))
    assert "FAIL  RTL = golden model: 2 of 10 elements differ; first: y[1]: expected 3, got 4" in (
        text
    )
    assert "PASS" not in text
    assert "FAIL  RTL = golden model: nothing was compared" in printed(report(comparison=NOTHING))


def test_waves_are_said_where_they_lie(tmp_path):
    assert str(tmp_path / "w.vcd") in printed(report(waves=tmp_path / "w.vcd"))


def test_json_file_that_cannot_be_written_is_said(tmp_path):
    write_json(report().to_json(), tmp_path / "new" / "r.json")
    assert json.loads((tmp_path / "new" / "r.json").read_text())["cycles"] == 1000
    with pytest.raises(ReportError, match=r"^--json .*: cannot write: Is a directory$"):
        write_json(report().to_json(), tmp_path)


def timing(**changes):
    facts = {"predicted_cycles": 900, "layer_bound": 450.0, "program_bytes": 1}
    return Timing(**{**facts, "constant_bytes": 2, "peak_dram_bytes": 3, **changes})


def test_a_report_has_what_was_predicted_and_the_time_at_a_clock():
    made = report(timing=timing(clock_mhz=100))
    facts = made.to_json()
    assert (facts["predicted_cycles"], facts["layer_bound"], facts["share"]) == (900, 450.0, 0.45)
    assert (facts["ms"], facts["inferences_per_s"], facts["memory"]) == (0.01, 1e5, "ideal")
    text = printed(made)
    assert "predicted cycles  900" in text and "450 cycles, 45.0%" in text
    assert "time (measured)" in text and "0.010 ms at 100 MHz, 100,000.0 inferences" in text


def test_without_a_run_the_prediction_is_the_time():
    facts = report(device="golden", cycles=None, timing=timing(clock_mhz=9, samples=2)).to_json()
    assert facts["share"] == 0.5 and facts["ms"] == pytest.approx(0.05)


def test_without_a_clock_there_is_no_time():
    facts = report(timing=timing()).to_json()
    assert facts["clock_mhz"] is facts["ms"] is facts["inferences_per_s"] is None


def test_a_clock_must_tick():
    for mhz in (0.0, -1.0, float("inf"), float("nan")):
        with pytest.raises(OptionError, match=r"^--clock .*: must be more than 0 MHz$"):
            DeviceOptions(clock_mhz=mhz)


def test_every_device_says_what_was_predicted():
    work = kernel("matmul", parse_shape("8x8x8", "matmul"), 0)
    image = compile_graph(work.graph, preset("tiny"))
    _, result = run_image(image, work.inputs, GoldenDevice(preset("tiny")))
    assert result.cycles is None
    assert result.predicted_cycles == image.info["predicted_cycles"] > 0


@pytest.mark.parametrize(
    "command",
    [
        ("run", "ad", "-d", "golden", "--limit", "1"),
        ("bench", "ad", "--predict"),
        ("sim", "matmul", "--shape", "8x8x8", "-d", "golden"),
    ],
    ids=lambda command: command[0],
)
def test_the_prediction_is_that_of_the_memory_that_was_asked_for(tmp_path, command):
    found = {}
    for memory in ("ideal", "lpddr4"):
        out = tmp_path / f"{memory}.json"
        said = systola(*command, "-c", "tiny", "--memory", memory, "--json", out)
        assert said[0] == 0, said
        facts = json.loads(out.read_text())
        found[memory] = facts[0] if isinstance(facts, list) else facts
        assert found[memory]["memory"] == found[memory]["predicted_with"] == memory
    assert found["lpddr4"]["predicted_cycles"] != found["ideal"]["predicted_cycles"]

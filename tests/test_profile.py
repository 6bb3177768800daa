"""`systola profile` on the RTL: figures that add up, and the trace."""

import json

import numpy as np
import pytest
from cli_helpers import systola
from test_cli_commands import refused
from trace_helpers import recording

from spec import preset
from spec.isa import Engine
from spec.memmap import Stall
from sw.compiler import compile_graph
from sw.measure.profile.layers import analyse
from sw.measure.profile.run import profile_target
from sw.measure.profile.trace import LAYERS_TRACK, trace_events, tracks
from sw.models.kernels import kernel
from sw.runtime.device import RunResult
from sw.runtime.session import DeviceOptions
from sw.runtime.simulator.errors import SimulationError

TINY = preset("tiny")


@pytest.fixture(scope="module")
def digits():
    """A network of four layers on the RTL."""
    return profile_target("digits", None, TINY, DeviceOptions())


@pytest.mark.rtl
def test_layers_account_for_every_cycle_byte_and_mac(digits):
    found, report = digits.profile, digits.report
    assert report.comparison.exact
    assert sum(layer.cycles for layer in found.layers) == report.cycles
    assert sum(layer.macs for layer in found.layers) == report.macs
    assert all(layer.cycles > 0 and layer.predicted_cycles > 0 for layer in found.layers)
    assert sum(layer.write_bytes for layer in found.layers) == report.dram_write_bytes
    words = -(-found.image.program.size // TINY.bus_bytes) * TINY.bus_bytes
    assert report.dram_read_bytes == words + sum(layer.read_bytes for layer in found.layers)


@pytest.mark.rtl
def test_states_sum_to_the_layers_cycles_and_to_the_counters(digits):
    found = digits.profile
    for layer in found.layers:
        assert set(layer.states) == {e.name.lower() for e in Engine}
        assert all(sum(row.values()) == layer.cycles for row in layer.states.values())
    for engine, row in found.result.counters.items():
        for state, cycles in row.items():
            assert sum(layer.states[engine][state] for layer in found.layers) == cycles


@pytest.mark.rtl
def test_layers_are_named_after_the_users_modules(digits):
    found = [(layer.name, layer.module) for layer in digits.profile.layers]
    assert ("conv2d", "features.0") in found
    assert ("linear", "classifier") in found
    assert all("digits.py:" in layer.source for layer in digits.profile.layers)


@pytest.mark.rtl
def test_the_cost_model_is_within_a_tenth_in_total(digits):
    assert digits.to_json()["predicted_over_measured"] == pytest.approx(1.0, abs=0.1)


@pytest.mark.rtl
def test_the_trace_has_a_named_track_per_engine_and_its_events_nest(digits):
    events = list(trace_events(digits.profile, digits.notes))
    names = tracks(events)
    assert sorted(names.values()) == sorted(["layers", *(e.name.lower() for e in Engine)])
    complete = [e for e in events if e["ph"] == "X"]
    assert {e["ph"] for e in events} == {"M", "X"}
    for thread in names:
        open_events = []
        mine = [e for e in complete if e["tid"] == thread]
        # Outer events come first where several begin at the same time.
        assert mine == sorted(mine, key=lambda e: e["ts"])
        for event in mine:
            start, stop = event["ts"], event["ts"] + event["dur"]
            while open_events and open_events[-1][1] <= start:
                open_events.pop()
            assert not open_events or stop <= open_events[-1][1], event
            if event["dur"]:
                open_events.append((start, stop))
    assert max(e["ts"] + e["dur"] for e in complete) == digits.profile.cycles


@pytest.mark.rtl
def test_busy_time_of_the_trace_equals_the_counters(digits):
    events = list(trace_events(digits.profile, digits.notes))
    names = tracks(events)
    for thread, name in names.items():
        mine = [e for e in events if e.get("tid") == thread and e["ph"] == "X"]
        if thread == LAYERS_TRACK:
            assert sum(e["dur"] for e in mine) == digits.profile.cycles
            continue
        for kind in ("layer", "instruction"):
            busy = sum(e["tdur"] for e in mine if e["cat"] == kind)
            assert busy == digits.profile.result.counters[name]["busy"], (name, kind)
        for event in (e for e in mine if e["cat"] == "instruction"):
            states = [event["args"][state.name.lower()] for state in Stall]
            assert sum(states) == event["dur"]
            assert event["tdur"] == states[Stall.BUSY]


@pytest.mark.rtl
def test_instructions_lie_inside_their_layers_and_waits_inside_instructions(digits):
    events = [e for e in trace_events(digits.profile, digits.notes) if e["ph"] == "X"]
    owners = {layer.name: 0 for layer in digits.profile.layers}
    for thread in range(1, len(Engine) + 1):
        layer = instruction = None
        for event in (e for e in events if e["tid"] == thread):
            stop = event["ts"] + event["dur"]
            if event["cat"] == "layer":
                layer = event
                assert event["name"] in owners
                continue
            outer = layer if event["cat"] == "instruction" else instruction
            assert outer["ts"] <= event["ts"] and stop <= outer["ts"] + outer["dur"]
            if event["cat"] == "instruction":
                instruction = event
                named = event["name"] in ("begin", "end")
                assert named or event["name"].startswith(f"{layer['name']}: ")


@pytest.mark.rtl
def test_command_prints_and_writes_everything(tmp_path):
    code, out, err = systola(
        *("profile", "matmul", "--shape", "9x10x7", "-c", "tiny", "--latency", "50"),
        *("--trace", tmp_path / "t.json", "--json", tmp_path / "p.json"),
        *("--picture", tmp_path / "p.png", "--html", tmp_path / "p.html"),
    )
    assert code == 0, err
    assert "PASS  RTL = golden model: 63 elements, 0 differences" in out
    assert "cost model: " in out and "bound by" in out
    trace = json.loads((tmp_path / "t.json").read_text())
    assert f"t.json: {len(trace['traceEvents'])} events" in out
    assert "p.png: 1 layers" in out
    assert f"p.html: {(tmp_path / 'p.html').stat().st_size:,} bytes (open in a browser)" in out
    assert (tmp_path / "p.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    facts = json.loads((tmp_path / "p.json").read_text())
    (layer,) = facts["layers"]
    assert layer["cycles"] == facts["cycles"]
    assert layer["predicted_cycles"] == facts["predicted_cycles"]
    assert layer["utilization"] == facts["utilization"]
    assert layer["macs"] == 630


def test_profile_refuses_what_it_cannot_do(tmp_path):
    assert refused("profile", "matmul", "--picture", tmp_path / "p.doc", "-c", "tiny") == (
        f"--picture {tmp_path / 'p.doc'}: must end in .png, .svg or .pdf"
    )
    assert refused("profile", "add", "-d", "golden", "--latency", "50", "-c", "tiny") == (
        "--latency 50: a prediction is for 100 cycles; use --device rtl"
    )
    assert refused("profile", "add", "-d", "golden", "--stall", "0.1", "-c", "tiny") == (
        "--stall 0.1: a prediction has none; use --device rtl"
    )
    assert refused("profile", "nothing").startswith("'nothing': no such kernel or model")
    file = tmp_path / "file"
    file.write_text("")
    assert refused("profile", "add", "--trace", file / "t.json").startswith(f"--trace {file}")
    assert refused("profile", "add", "--html", file / "p.html").startswith(f"--html {file}")


def test_a_record_that_contradicts_the_counters_is_refused():
    work = kernel("matmul", {"m": 2, "k": 3, "n": 4})
    image = compile_graph(work.graph, TINY, name="matmul")
    last = len(image.instructions()) - 1
    made = recording(10, {Engine.FETCH: [(0, Stall.BUSY, 0), (5, Stall.BUSY, last)]})
    counters = {e.name.lower(): made.tracks[e].counters() for e in Engine}
    assert analyse(image, RunResult(cycles=10, counters=counters), made).cycles == 10
    counters["load"] = {**counters["load"], "busy": 1, "idle": 9}
    with pytest.raises(SimulationError, match="the NPU counted 10 and"):
        analyse(image, RunResult(cycles=10, counters=counters), made)
    short = recording(10, {Engine.FETCH: [(0, Stall.BUSY, last - 1)]})
    counters = {e.name.lower(): short.tracks[e].counters() for e in Engine}
    with pytest.raises(SimulationError, match=f"ends at instruction {last - 1} of {last + 1}"):
        analyse(image, RunResult(cycles=10, counters=counters), short)


@pytest.mark.rtl
def test_recording_changes_neither_cycles_nor_results(tmp_path):
    from sw.runtime.rtl import RtlDevice
    from sw.runtime.session import run_image

    work = kernel("conv2d", {"h": 5, "w": 6, "c": 3, "oc": 5}, seed=4)
    image = compile_graph(work.graph, TINY, name="conv2d")
    got = []
    for events in (None, tmp_path / "events.bin"):
        with RtlDevice(TINY, stall=0.2, events=events) as device:
            runs = [run_image(image, work.inputs, device) for _ in range(2)]
        got += [(out["y"], result.cycles, result.counters) for out, result in runs]
    for y, cycles, counters in got[1:]:
        assert np.array_equal(y, got[0][0]) and (cycles, counters) == got[0][1:]
    # The file holds the last run only.
    assert analyse(image, runs[1][1], _read(tmp_path / "events.bin")).cycles == cycles


def _read(path):
    from sw.measure.profile.trace_records import read_recording

    return read_recording(path)

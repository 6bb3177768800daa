"""Arrows and counters of a profile's trace, by the rules of the trace-event format."""

import json
from collections import Counter, defaultdict

import pytest

from spec import preset
from spec.isa import Engine
from spec.memmap import Stall
from sw.measure.profile.run import profile_target
from sw.measure.profile.trace import tracks
from sw.measure.profile.waits import covered, waits
from sw.runtime.session import DeviceOptions

TINY = preset("tiny")


@pytest.fixture(
    scope="module", params=["golden", pytest.param("rtl", marks=pytest.mark.rtl)], ids=str
)
def run(request):
    return profile_target("digits", None, TINY, DeviceOptions(device=request.param))


@pytest.fixture(scope="module")
def events(run, tmp_path_factory):
    path = tmp_path_factory.mktemp("trace") / "t.json"
    assert run.write_trace(path) == len(json.loads(path.read_text())["traceEvents"])
    return json.loads(path.read_text())


def test_every_arrow_has_a_start_and_an_end_in_slices_of_their_tracks(events):
    by_thread = defaultdict(list)
    for event in events["traceEvents"]:
        if event["ph"] == "X":
            by_thread[event["tid"]].append((event["ts"], event["ts"] + event["dur"], event["name"]))
    pairs = defaultdict(list)
    for event in events["traceEvents"]:
        if event["ph"] in "sf":
            pairs[event["id"]].append(event)
            start, stop = event["ts"], event["ts"] + 1
            assert any(a <= start and stop <= max(b, a + 1) for a, b, _ in by_thread[event["tid"]])
    assert len(pairs) == events["otherData"]["arrows"] > 10
    for first, second in pairs.values():
        assert (first["ph"], second["ph"], second["bp"]) == ("s", "f", "e")
        assert first["name"] == second["name"] and first["cat"] == second["cat"]
        assert first["ts"] <= second["ts"]


def test_waits_name_semaphore_engines_and_tensor(run, events):
    found = waits(run.compilation, run.profile)
    program = run.compilation.program
    names = {buffer for i in program.instructions for a in i.accesses for buffer in [a.buffer.name]}
    channels = {
        f"s{sem} {engine.name} {point.name.lower()} → {waiting}"
        for (engine, point, waiting), sem in program.semaphores.items()
    }
    for wait in found:
        channel, _, what = wait.label.partition(": ")
        assert channel in channels
        assert what == "order" or set(what.removeprefix("frees ").split(", ")) <= names
        assert wait.producer < wait.index and wait.posted < wait.stop
        # It is one of the semaphores that the instruction takes.
        semaphore = int(channel.split()[0][1:])
        slots = program.waits[program.instructions[wait.index - 1]]
        assert semaphore in {slot.sem for slot in slots}
    slices = [e["name"] for e in events["traceEvents"] if e.get("cat") == "wait"]
    assert any(" → " in name for name in slices)


def test_most_cycles_of_waiting_are_explained(run, events):
    share = covered(waits(run.compilation, run.profile), run.profile)
    assert share == events["otherData"]["waits_explained"]
    assert 0.8 < share <= 1


def test_counters_integrate_to_what_the_run_moved(run, events):
    cycles = run.profile.cycles
    series = defaultdict(list)
    for event in events["traceEvents"]:
        if event["ph"] == "C":
            series[event["name"]].append((event["ts"], event["args"]["value"]))
    sums = {}
    for name, values in series.items():
        assert [at for at, _ in values] == sorted({at for at, _ in values})
        ends = [at for at, _ in values[1:]] + [cycles]
        sums[name] = sum(value * (end - at) for (at, value), end in zip(values, ends))
    read = sum(layer.read_bytes for layer in run.profile.layers)
    written = sum(layer.write_bytes for layer in run.profile.layers)
    assert sums["LOAD bytes a cycle"] == pytest.approx(read, rel=0.01)
    assert sums["STORE bytes a cycle"] == pytest.approx(written, rel=0.01)
    for engine, row in run.profile.result.counters.items():
        if row["busy"]:
            assert sums[f"{engine} busy %"] == pytest.approx(100 * row["busy"], rel=0.01), engine
    depths = [value for name in series if name.endswith("queue") for _, value in series[name]]
    assert min(depths) >= 0 and 1 < max(depths) <= TINY.queue_depth + 2


def test_tracks_and_phases(events):
    every = events["traceEvents"]
    assert Counter(e["ph"] for e in every).keys() == {"M", "X", "s", "f", "C"}
    assert set(tracks(every).values()) == {"layers", *(e.name.lower() for e in Engine)}
    states = {e["args"]["state"] for e in every if e.get("cat") == "wait"}
    assert states <= {state.name.lower() for state in Stall} - {"busy"}

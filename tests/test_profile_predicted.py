"""Profiles without a run: the prediction as a recording, bins of it, and what lies in memory."""

import numpy as np
import pytest
from cli_helpers import systola

from spec import preset
from spec.isa import Engine, Opcode
from spec.memmap import Stall
from sw.measure.profile.bins import NO_LAYER, bins_of
from sw.measure.profile.memory_map import memory_maps
from sw.measure.profile.page.graph import layer_edges, layout
from sw.measure.profile.run import profile_target
from sw.runtime.session import DeviceOptions

TINY = preset("tiny")
GOLDEN = DeviceOptions(device="golden")


@pytest.fixture(scope="module")
def found():
    """A network of four layers, predicted."""
    return profile_target("digits", None, TINY, GOLDEN)


def test_layers_have_the_cycles_of_the_prediction(found):
    for layer in found.profile.layers:
        # Both are rounded: one each layer, the other each instruction.
        assert abs(layer.cycles - layer.predicted_cycles) <= 2
    assert sum(layer.cycles for layer in found.profile.layers) == found.profile.cycles
    assert found.predicted and found.to_json()["predicted"]
    assert found.report.comparison is None and not found.report.failed


def test_a_memory_of_another_speed_is_predicted_as_such():
    image = profile_target("digits", None, TINY, GOLDEN).compilation.image
    dram = profile_target("digits", None, TINY, DeviceOptions(device="golden", memory="ddr4"))
    wanted = image.info["predicted_cycles_with"]["ddr4"]
    assert wanted != image.info["predicted_cycles"]
    assert abs(dram.profile.cycles - wanted) <= len(dram.profile.layers)


def test_states_of_every_engine_sum_to_the_run(found):
    for track in found.profile.recording.tracks.values():
        assert track.start[0] == 0 and track.stop[-1] == found.profile.cycles
        assert (track.start[1:] == track.stop[:-1]).all()
        assert (track.stop > track.start).all()


@pytest.mark.rtl
def test_predicted_work_is_that_of_the_hardware(found):
    measured = profile_target("digits", None, TINY, DeviceOptions()).profile
    for engine in ("load", "store", "matrix", "vector"):
        ours = found.profile.result.counters[engine]["busy"]
        row = measured.result.counters[engine]
        # The prediction counts a bank or a full pipeline that slows an engine down as its work.
        most = row["busy"] + row["bank"] + row["pipeline"]
        assert 0.8 * row["busy"] - 20 <= ours <= 1.2 * most + 20, engine
    assert found.profile.result.read_bytes == pytest.approx(measured.result.read_bytes, rel=0.05)
    assert found.profile.result.write_bytes == measured.result.write_bytes


def test_bins_hold_every_cycle_of_every_engine(found):
    profile = found.profile
    bins = bins_of(profile, 100)
    assert bins.count <= 100 and bins.width * bins.count >= profile.cycles
    assert bins.width & (bins.width - 1) == 0
    for engine, states in bins.states.items():
        row = profile.result.counters[engine.name.lower()]
        assert {s.name.lower(): states[:, s].sum() for s in Stall} == row
    exact = bins_of(profile, profile.cycles)
    assert exact.width == 1
    for number, layer in enumerate(profile.layers):
        assert np.count_nonzero(exact.charged == number) == layer.cycles
    for engine, spans in profile.spans.items():
        inside = sum(span.stop - span.start for span in spans)
        assert np.count_nonzero(exact.layers[engine] != NO_LAYER) == inside


def test_lives_lie_in_their_memories_and_apart_from_each_other(found):
    maps = {each.name: each for each in memory_maps(found.compilation, found.profile)}
    assert set(maps) >= {"scratchpad", "accumulator", "DRAM constants", "DRAM inputs"}
    assert maps["scratchpad"].size == TINY.spad_bytes
    assert maps["accumulator"].size == TINY.acc_vectors
    for each in maps.values():
        for life in each.lives:
            assert 0 <= life.low < life.high <= each.size, (each.name, life)
            assert 0 <= life.start < life.stop <= found.profile.cycles, (each.name, life)
    # Two tiles are never in the same bytes at the same time: a write waits for the last read.
    for name in ("scratchpad", "accumulator"):
        lives = maps[name].lives
        assert len(lives) > 5
        for i, a in enumerate(lives):
            for b in lives[i + 1 :]:
                apart = a.stop <= b.start or b.stop <= a.start
                assert apart or a.high <= b.low or b.high <= a.low, (name, a, b)
    inputs, outputs = maps["DRAM inputs"].lives, maps["DRAM outputs"].lives
    assert {life.start for life in inputs} == {0}
    assert {life.stop for life in outputs} == {found.profile.cycles}


def test_constants_are_read_by_the_layers_that_have_them(found):
    maps = {each.name: each for each in memory_maps(found.compilation, found.profile)}
    loads = {
        instruction.layer
        for instruction in found.compilation.program.instructions
        if instruction.opcode is Opcode.LOAD
        and any(access.buffer.name == "constants" for access in instruction.accesses)
    }
    assert {life.layer for life in maps["DRAM constants"].lives} == loads


def test_many_lives_of_a_buffer_become_one(found, monkeypatch):
    every = memory_maps(found.compilation, found.profile)[0]
    monkeypatch.setattr("sw.measure.profile.memory_map.MAX_LIVES", 2)
    merged = memory_maps(found.compilation, found.profile)[0]
    assert len(merged.lives) < len(every.lives)
    assert sum(life.count for life in merged.lives) == len(every.lives)
    assert min(x.start for x in merged.lives) == min(x.start for x in every.lives)


def test_edges_lead_from_writers_to_readers(found):
    layers = found.compilation.layers.layers
    edges = layer_edges(layers)
    assert edges and all(a < b for a, b in edges)
    assert {b for _, b in edges} == set(range(1, len(layers)))


def test_a_graph_is_laid_out_by_ranks():
    # 0 → 1 → 2 → 3, and an edge around 1 and 2.
    found = layout(4, [(0, 1), (1, 2), (2, 3), (0, 3)])
    assert found.ranks == [0, 1, 2, 3]
    assert [len(way) for _, _, way in found.edges] == [0, 0, 0, 2]
    (around,) = (way for a, b, way in found.edges if (a, b) == (0, 3))
    assert around[0] != found.columns[1] and around[1] != found.columns[2]
    assert layout(2, []).ranks == [0, 0] and layout(0, []).columns == []
    assert len(set(layout(3, [(0, 1), (0, 2)]).columns[1:])) == 2


def test_command_predicts_and_says_so(tmp_path):
    code, out, err = systola(
        *("profile", "matmul", "--shape", "9x10x7", "-c", "tiny", "-d", "golden"),
        *("--trace", tmp_path / "t.json"),
    )
    assert code == 0, err
    assert "none: cycles are predicted" in out
    assert "cycles and states are the compiler's prediction; --device rtl measures them" in out
    assert "PASS" not in out and "cost model" not in out
    assert (tmp_path / "t.json").stat().st_size > 1000


def test_fetch_reaches_every_instruction(found):
    track = found.profile.recording.tracks[Engine.FETCH]
    assert track.index.max() == len(found.profile.owners) - 1
    assert (np.diff(track.index) >= 0).all()

"""Parts of a batch in turn: fewer cycles, banks of their own, the same bits."""

import numpy as np
import pytest
from compiler_graphs import bottlenecks, random_inputs

from golden_model import Machine
from spec import preset
from spec.isa import Engine
from sw.compiler import pipeline
from sw.compiler.compilation import Compilation
from sw.compiler.kernels.budget import Overlap
from sw.compiler.pipeline import run_stages
from sw.compiler.tosa.interpreter import run_graph

CASES = (
    ("tiny", (4, 12, 4, 16, 2)),
    ("small", (4, 12, 8, 32, 2)),
    ("small", (3, 16, 7, 25, 2)),
    ("odd", (8, 12, 12, 48, 1)),
    ("default", (4, 14, 16, 64, 2)),
    ("large", (2, 28, 32, 128, 1)),
)
"""Samples, size, channels between and outside, blocks."""


def one_after_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline, "take_turns", lambda program, config, predict: program)


def turning(name: str, shape: tuple[int, int, int, int, int]) -> Compilation:
    done = run_stages(bottlenecks(*shape), preset(name))
    assert done.layers.in_turn
    return done


@pytest.mark.parametrize(("name", "shape"), CASES)
def test_parts_that_take_turns_are_exact(name, shape):
    done = turning(name, shape)
    inputs = random_inputs(done.source, 3)
    got = Machine(done.config).run(done.image, inputs)
    for port, want in run_graph(done.source, inputs).items():
        assert np.array_equal(got[port], want)


@pytest.mark.parametrize(("name", "shape"), CASES)
def test_turns_take_fewer_cycles(name, shape, monkeypatch):
    done = turning(name, shape)
    one_after_another(monkeypatch)
    before = run_stages(bottlenecks(*shape), preset(name))
    assert not before.layers.in_turn
    assert sum(done.predicted) < 0.95 * sum(before.predicted)


def test_the_array_works_while_sums_are_finished():
    done = turning("default", (4, 14, 16, 64, 1))
    layers = [x.layer for x in done.scheduled if x.engine is Engine.MATRIX]
    assert layers != sorted(layers)
    assert {budget.overlap for budget in done.residency.budgets} == {Overlap.TURNS}


def test_layers_that_take_turns_have_banks_of_their_own():
    done = turning("default", (4, 14, 16, 64, 1))
    bank = done.config.acc_bank
    for x in done.scheduled:
        other = done.residency.budgets[x.layer].other_banks
        for access in x.accesses:
            if access.buffer.name == "acc":
                assert access.start // bank % 2 == (access.stop - 1) // bank % 2 == int(other)


def test_an_engine_takes_first_what_others_work_on_for_longer():
    done = turning("default", (4, 14, 16, 64, 1))
    long_epilogues = [i for i, b in enumerate(done.residency.budgets) if b.other_banks]
    assert [done.layers.layers[i].residual is not None for i in long_epilogues] == [True, True]
    starts = [x.layer for x in done.scheduled if x.engine is Engine.VECTOR]
    # Sums of the first part wait for results that the array needs for the second.
    first = [i for i, layer in enumerate(starts) if layer == long_epilogues[0]]
    assert any(layer > long_epilogues[0] for layer in starts[first[0] : first[-1]])


@pytest.mark.parametrize(
    "shape",
    [
        # One sample; products as long as their epilogues; small ones.
        (1, 14, 16, 64, 1),
        (4, 14, 64, 64, 1),
        (2, 4, 16, 16, 1),
    ],
)
def test_others_stay_whole(shape):
    done = run_stages(bottlenecks(*shape), preset("default"))
    assert not done.layers.in_turn
    assert len(done.layers.layers) == 3


def test_without_tensors_on_chip_nothing_takes_turns():
    graph = bottlenecks(4, 14, 16, 64, 1)
    assert not run_stages(graph, preset("default"), on_chip=False).layers.in_turn

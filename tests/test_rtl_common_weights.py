"""Weights that stay on chip, and gates that share a TABLE, on the RTL of `default` with stalls."""

from collections.abc import Iterator

import numpy as np
import pytest
from compiler_graphs import random_inputs
from recurrent_graphs import gates, random_steps, steps

from spec import preset
from sw.compiler.pipeline import run_stages
from sw.compiler.tosa.graph import Graph
from sw.compiler.tosa.interpreter import run_graph
from sw.runtime.rtl import RtlDevice

pytestmark = [pytest.mark.rtl, pytest.mark.timeout(900)]

CONFIG = preset("default")
GRAPHS = [steps(6, 48), gates(4, 24), *(random_steps(seed) for seed in range(6))]


@pytest.fixture(scope="module")
def device() -> Iterator[RtlDevice]:
    with RtlDevice(CONFIG) as opened:
        yield opened


@pytest.mark.parametrize("number", range(len(GRAPHS)))
def test_steps_on_the_rtl_are_exact(device: RtlDevice, number: int) -> None:
    g: Graph = GRAPHS[number]
    inputs = random_inputs(g, number)
    want = run_graph(g, inputs)
    made = run_stages(g, CONFIG)
    for stall in (0.0, 0.3):
        device.set_memory(stall=stall, seed=number)
        device.load(made.image)
        for name, data in inputs.items():
            device.write(name, data)
        device.run()
        for name in g.outputs:
            np.testing.assert_array_equal(device.read(name), want[name])


def test_weights_of_some_stay_on_chip() -> None:
    kept = [run_stages(g, CONFIG).residency.address for g in GRAPHS]
    assert any(name.startswith("weights ") for address in kept for name in address)

"""Weights that stay on chip, and gates that share a TABLE, on the RTL of `default` with stalls."""

from collections.abc import Iterator

import pytest
from recurrent_graphs import gates, random_steps, steps
from rtl_graphs import assert_runs_exactly

from spec import preset
from sw.compiler.pipeline import run_stages
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
    assert_runs_exactly(device, CONFIG, GRAPHS[number], number)


def test_weights_of_some_stay_on_chip() -> None:
    kept = [run_stages(g, CONFIG).residency.address for g in GRAPHS]
    assert any(name.startswith("weights ") for address in kept for name in address)

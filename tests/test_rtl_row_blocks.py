"""Rows that pass in blocks, on the RTL of `tiny` with a small accumulator, its memory stalling."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from compiler_graphs import random_inputs
from random_rows import attention, random_rows

from spec import preset
from sw.compiler.kernels.fused.tiles import FusedPlan
from sw.compiler.pipeline import run_stages
from sw.compiler.tosa.graph import Graph
from sw.compiler.tosa.interpreter import run_graph
from sw.runtime.rtl import RtlDevice

pytestmark = [pytest.mark.rtl, pytest.mark.timeout(900)]

CONFIG = replace(preset("tiny"), acc_kib=1)


@pytest.fixture(scope="module")
def device() -> Iterator[RtlDevice]:
    with RtlDevice(CONFIG) as opened:
        yield opened


def check(device: RtlDevice, g: Graph, seed: int) -> bool:
    """Run `g`, without stalls and with; every output equals the interpreter's. Whether its rows
    pass in blocks.
    """
    inputs = random_inputs(g, seed)
    want = run_graph(g, inputs)
    made = run_stages(g, CONFIG)
    for stall in (0.0, 0.3):
        device.set_memory(stall=stall, seed=seed)
        device.load(made.image)
        for name, data in inputs.items():
            device.write(name, data)
        device.run()
        for name, value in want.items():
            assert np.array_equal(device.read(name), value), f"{name}, seed {seed}, {stall}"
    return any(isinstance(plan, FusedPlan) and plan.blocks for plan in made.plans)


def test_softmax_of_long_rows_on_the_rtl_is_exact(device: RtlDevice) -> None:
    for late, mask in ((True, False), (True, True), (False, False)):
        assert check(device, attention((2, 21, 130, 19), late=late, mask=mask), 3)


def test_random_rows_on_the_rtl_are_exact(device: RtlDevice) -> None:
    assert sum(check(device, random_rows(seed), seed) for seed in range(16)) >= 3

"""Rows that pass in blocks, on the RTL of `tiny` with a small accumulator, its memory stalling."""

from collections.abc import Iterator
from dataclasses import replace

import pytest
from random_rows import attention, random_rows
from rtl_graphs import assert_runs_exactly

from spec import preset
from sw.compiler.kernels.fused.tiles import FusedPlan
from sw.compiler.tosa.graph import Graph
from sw.runtime.rtl import RtlDevice

pytestmark = [pytest.mark.rtl, pytest.mark.timeout(900)]

CONFIG = replace(preset("tiny"), acc_kib=1)


@pytest.fixture(scope="module")
def device() -> Iterator[RtlDevice]:
    with RtlDevice(CONFIG) as opened:
        yield opened


def check(device: RtlDevice, g: Graph, seed: int) -> bool:
    """Whether rows of `g` pass in blocks, which the RTL computes exactly."""
    made = assert_runs_exactly(device, CONFIG, g, seed)
    return any(isinstance(plan, FusedPlan) and plan.blocks for plan in made.plans)


def test_softmax_of_long_rows_on_the_rtl_is_exact(device: RtlDevice) -> None:
    for late, mask in ((True, False), (True, True), (False, False)):
        assert check(device, attention((2, 21, 130, 19), late=late, mask=mask), 3)


def test_random_rows_on_the_rtl_are_exact(device: RtlDevice) -> None:
    assert sum(check(device, random_rows(seed), seed) for seed in range(16)) >= 3

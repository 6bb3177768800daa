"""Chains on the RTL of `tiny`: several results, parameters in turns, products inside."""

from collections.abc import Iterator

import numpy as np
import pytest
from chain_graphs import norm, norms_and_products, scores
from compiler_graphs import random_inputs
from random_chains import random_chain

from spec import preset
from sw.compiler import compile_graph
from sw.compiler.tosa.graph import Graph
from sw.compiler.tosa.interpreter import run_graph
from sw.runtime.rtl import RtlDevice

pytestmark = [pytest.mark.rtl, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def device() -> Iterator[RtlDevice]:
    with RtlDevice(preset("tiny")) as opened:
        yield opened


def check(device: RtlDevice, g: Graph, seed: int) -> None:
    """Run `g`; every output equals the interpreter's."""
    inputs = random_inputs(g, seed)
    want = run_graph(g, inputs)
    assert want
    device.load(compile_graph(g, preset("tiny")))
    for name, data in inputs.items():
        device.write(name, data)
    device.run()
    for name, value in want.items():
        assert np.array_equal(device.read(name), value), f"{name}, seed {seed}"


def test_norms_on_the_rtl_are_exact(device: RtlDevice) -> None:
    for size in (16, 37, 96):
        check(device, norm(9, size), size)


def test_softmax_of_products_on_the_rtl_is_exact(device: RtlDevice) -> None:
    for rows, keys, depth, mask in ((20, 37, 19, False), (33, 16, 24, True)):
        check(device, scores(rows, keys, depth, mask=mask), rows)


def test_norms_and_products_that_follow_one_another_are_exact(device: RtlDevice) -> None:
    for rows, size, wide in ((64, 16, 32), (50, 13, 20)):
        check(device, norms_and_products(rows, size, wide), rows)


def test_random_chains_on_the_rtl_are_exact(device: RtlDevice) -> None:
    for seed in range(12):
        check(device, random_chain(seed), seed)

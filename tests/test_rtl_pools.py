"""Random pools on the RTL: golden's bits, whatever memory does and however windows are taken."""

import os

import numpy as np
import pytest
from compiler_graphs import random_inputs
from pool_cases import max_pool, random_pool
from rtl_kernel_cases import QUIET, Memory, same

from golden_model import Machine
from spec import preset
from sw.compiler import compile_graph
from sw.compiler.pipeline import run_stages
from sw.runtime.rtl import RtlDevice

pytestmark = [pytest.mark.rtl, pytest.mark.timeout(900)]  # with a build on a busy machine

COUNT = int(os.environ.get("SYSTOLA_RANDOM_COUNT", "20"))


@pytest.mark.parametrize("name", ["tiny", "small", "odd", "default"])
def test_random_pools(name: str) -> None:
    rng = np.random.default_rng(list(name.encode()))
    config = preset(name)
    with RtlDevice(config) as device:
        for seed in range(COUNT):
            graph, memory = random_pool(rng), Memory.random(rng)
            image, inputs = compile_graph(graph, config), random_inputs(graph, seed)
            want = Machine(config).run(image, inputs)
            same(device, image, inputs, want, memory, f"pool {seed} on {name}, {memory}")


@pytest.mark.parametrize(
    ("shape", "kernel", "stride"),
    [
        ((1, 55, 55, 64), 3, 2),
        ((1, 57, 57, 96), 3, 2),
        ((1, 32, 32, 10), 2, 1),
        ((1, 35, 35, 64), 5, 2),
    ],
)
def test_cycles_of_maxima_are_predicted(
    shape: tuple[int, int, int, int], kernel: int, stride: int
) -> None:
    """Both elements of a step seldom lie in one bank, whatever the shape."""
    config = preset("default")
    graph = max_pool(shape, (kernel,) * 2, (stride,) * 2, (0, 0, 0, 0))
    image, predicted = compile_graph(graph, config), run_stages(graph, config).predicted
    inputs = {"x": np.zeros(shape, np.int8)}
    with RtlDevice(config) as device:
        result = same(device, image, inputs, Machine(config).run(image, inputs), QUIET, str(shape))
    vector = result.counters["vector"]
    assert vector["bank"] < vector["busy"] / 2
    assert result.cycles == pytest.approx(sum(predicted), rel=0.06)

"""Copies of short runs on the RTL: golden's bits, and many times the bytes a cycle of DMA."""

import numpy as np
import pytest
from compiler_graphs import random_inputs
from rtl_kernel_cases import QUIET, Memory, same
from test_compiler_transposes import transposed

from golden_model import Machine
from spec import preset
from sw.compiler import compile_graph
from sw.compiler.kernels.layers import TransposeLayer
from sw.compiler.pipeline import run_stages
from sw.runtime.rtl import RtlDevice

pytestmark = [pytest.mark.rtl, pytest.mark.timeout(900)]  # with a build on a busy machine

PLANES = [
    ((2, 192, 32), (1, 2, 0), "int16"),
    ((192, 32, 2), (2, 0, 1), "int16"),
    ((3, 2048), (1, 0), "int8"),
    ((128, 3, 24), (0, 2, 1), "int8"),
]
"""Shape, perms, type: planes that become neighbours, and neighbours that become planes."""


@pytest.mark.parametrize("name", ["tiny", "small", "odd", "default"])
def test_planes_and_neighbours(name: str) -> None:
    rng, config = np.random.default_rng(list(name.encode())), preset(name)
    with RtlDevice(config) as device:
        for seed, (shape, perms, dtype) in enumerate(PLANES):
            graph, memory = transposed(shape, perms, dtype), Memory.random(rng)
            image, inputs = compile_graph(graph, config), random_inputs(graph, seed)
            want = Machine(config).run(image, inputs)
            same(device, image, inputs, want, memory, f"{shape} on {name}, {memory}")


@pytest.mark.parametrize(("shape", "perms", "dtype"), PLANES)
def test_cycles_are_those_of_bytes_and_not_of_elements(
    shape: tuple[int, ...], perms: tuple[int, ...], dtype: str
) -> None:
    config, graph = preset("default"), transposed(shape, perms, dtype)
    done = run_stages(graph, config)
    assert [type(layer) for layer in done.layers.layers] == [TransposeLayer]
    image, inputs = compile_graph(graph, config), random_inputs(graph, 1)
    with RtlDevice(config) as device:
        result = same(device, image, inputs, Machine(config).run(image, inputs), QUIET, str(shape))
    elements = int(np.prod(shape))
    nbytes = elements * np.dtype(dtype).itemsize
    # Two turns of all bytes, and the start and the end.
    assert result.cycles < 2.5 * nbytes / config.cols + 1000
    assert result.cycles == pytest.approx(sum(done.predicted), rel=0.15)

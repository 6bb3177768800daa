"""Every operator of the integer profile on the RTL of `tiny`: the interpreter's bits.

`SYSTOLA_RANDOM=100` runs 100 times as many; `SYSTOLA_RANDOM_FIRST=7` begins at seed 7.
"""

import os
import zlib
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pytest
from attention_graphs import attention
from compiler_graphs import random_inputs
from epilogue_graphs import by_row, gelu, products, residual
from numpy.typing import NDArray
from random_ops import BUILDERS
from random_tosa import CASES, random_graph

from spec import preset
from sw.compiler import compile_graph
from sw.compiler.tosa.graph import Graph
from sw.compiler.tosa.interpreter import run_graph
from sw.runtime.rtl import RtlDevice

pytestmark = [pytest.mark.rtl, pytest.mark.timeout(900)]

FIRST = int(os.environ.get("SYSTOLA_RANDOM_FIRST", "0"))
COUNT = int(os.environ.get("SYSTOLA_RANDOM", "1"))
KINDS = sorted({*CASES, *(name.upper() for name in BUILDERS)})


@pytest.fixture(scope="module")
def device() -> Iterator[RtlDevice]:
    with RtlDevice(preset("tiny")) as opened:
        yield opened


@pytest.mark.parametrize("kind", KINDS)
def test_operator_on_the_rtl_is_exact(device: RtlDevice, kind: str) -> None:
    for seed in range(FIRST, FIRST + COUNT):
        rng = np.random.default_rng([seed, zlib.crc32(kind.encode())])
        if kind in CASES:
            g, inputs = random_graph(kind, rng, 1)
        else:
            g = BUILDERS[kind.lower()](rng)
            inputs = random_inputs(g, seed)
        check(device, g, inputs, seed, f"{kind}, seed {seed}")


def test_attention_in_place_is_exact(device: RtlDevice) -> None:
    for seed in range(FIRST, FIRST + 4 * COUNT):
        rng = np.random.default_rng(seed)
        sizes = [int(n) for n in rng.integers(1, (3, 4, 20, 20, 20))]
        g = attention(rng, *sizes)
        check(device, g, random_inputs(g, seed), seed, f"attention {sizes}, seed {seed}")


@pytest.mark.parametrize("kind", ["pointwise", "conv", "matmul"])
def test_several_passes_behind_a_product_are_exact(device: RtlDevice, kind: str) -> None:
    g = Graph()
    g.outputs = [gelu(g, products(g, kind, 11, 20, 37))]
    check(device, g, random_inputs(g), 1, kind)


def test_a_sum_of_int32_behind_a_product_is_exact(device: RtlDevice) -> None:
    g = residual(reshaped=True)
    check(device, g, random_inputs(g), 2, "sum")


@pytest.mark.parametrize("bias", [False, True])
def test_a_factor_of_each_row_behind_a_product_is_exact(device: RtlDevice, bias: bool) -> None:
    g = by_row("matmul", bias=bias, reshaped=True)
    check(device, g, random_inputs(g), 3, "factor")


def check(
    device: RtlDevice, g: Graph, inputs: Mapping[str, NDArray[Any]], seed: int, what: str
) -> None:
    """The graph's outputs from the RTL, with a random memory, are the interpreter's."""
    rng = np.random.default_rng(seed)
    device.set_memory(latency=int(rng.integers(1, 200)), stall=0.2, seed=seed)
    device.load(compile_graph(g, device.config, fold=bool(seed % 2)))
    for name, array in inputs.items():
        device.write(name, array)
    device.run()
    for name, want in run_graph(g, inputs).items():
        np.testing.assert_array_equal(device.read(name), want, f"{what}: {name}")

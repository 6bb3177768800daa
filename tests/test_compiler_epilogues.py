"""Several VECTORs behind a product, in the accumulator: bit-identical to their TOSA operators."""

from typing import Any

import numpy as np
import pytest
from compiler_graphs import assert_compiles_exactly, random_inputs, rescale
from epilogue_graphs import by_row, gelu, products, residual, scales
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from spec import PRESETS, preset
from spec.isa import Table
from sw.compiler.kernels.layers import ConvLayer, DepthwiseLayer, Layer, MoveLayer, RowFactor
from sw.compiler.pipeline import run_stages
from sw.compiler.tosa.graph import Graph


def layers_of(g: Graph, config: str = "default") -> tuple[Layer, ...]:
    return run_stages(g, preset(config)).layers.layers


@pytest.mark.parametrize("config", [c.name for c in PRESETS.values() if c.table_int16])
@pytest.mark.parametrize("kind", ["pointwise", "conv", "matmul"])
def test_table_of_int16_and_its_rescale_are_part_of_the_product(kind: str, config: str) -> None:
    g = Graph()
    g.outputs = [gelu(g, products(g, kind, 11, 20, 37))]
    (layer,) = layers_of(g, config)
    assert isinstance(layer, ConvLayer)
    first, last = layer.epilogue.passes
    assert first.lookup is Table.I16 and last.lookup is Table.OFF
    assert len(layer.epilogue.param_passes) == 2
    assert assert_compiles_exactly(g, preset(config), random_inputs(g)) >= 2 * 11 * 37


@pytest.mark.parametrize("config", [c.name for c in PRESETS.values() if c.table_int16])
@pytest.mark.parametrize("kind", ["depthwise", "transposed"])
def test_passes_follow_every_kind_of_product(kind: str, config: str) -> None:
    g = Graph()
    g.outputs = [gelu(g, products(g, kind, 11, 20, 37))]
    computed = [x for x in layers_of(g, config) if not isinstance(x, MoveLayer)]
    assert all(isinstance(x, ConvLayer | DepthwiseLayer) for x in computed)
    assert all(x.ops[1:] == ("RESCALE", "TABLE", "RESCALE") for x in computed)
    assert isinstance(computed[0], DepthwiseLayer) == (
        kind == "depthwise" and preset(config).depthwise
    )
    assert assert_compiles_exactly(g, preset(config), random_inputs(g)) >= 2 * 11 * 37


def test_more_channels_than_parameter_entries_hold_twice() -> None:
    config = preset("tiny")
    g = Graph()
    channels = config.cols * (config.param_entries // 2 + 9)
    g.outputs = [gelu(g, products(g, "pointwise", 3, 8, channels))]
    assert_compiles_exactly(g, config, random_inputs(g))
    g = Graph()
    g.outputs = [gelu(g, products(g, "depthwise", 3, 8, channels))]
    assert_compiles_exactly(g, config, random_inputs(g))


@st.composite
def _chains(draw: Any) -> tuple[Graph, str, int]:
    def one(*values: Any) -> Any:
        return draw(st.sampled_from(values))

    g, kind = Graph(), one("pointwise", "conv", "matmul", "depthwise", "transposed")
    y = products(g, kind, one(1, 5, 40), one(3, 16, 50), one(1, 9, 33))
    zp, passes = 0, one(1, 2, 3, 4)
    for i in range(passes):
        wide = g.tensors[y].dtype == "int32"
        low = (
            one(0.01, 0.3)
            if wide and not i
            else one(0.004, 0.9, 2.0**-14, 2.0**-15)
            if wide
            else one(0.02, 1.3, 40.0)
        )
        dtype, many = one("int8", "int16", "int32"), one(True, False)
        new = one(-128, 9, 0) if dtype == "int8" else 0
        y, zp = rescale(g, y, scales(g, y, low, many), new, dtype, zp), new
        if dtype != "int32" and one(True, False):
            y = g.add_op("CLAMP", [y], {"min_val": one(-90, 0), "max_val": one(0, 77)})
        after = one("nothing", "nothing", "table")
        if after == "table" and dtype != "int32":
            rng = np.random.default_rng(i)
            size, limit = (256, 127) if dtype == "int8" else (513, 32767)
            entries = rng.integers(-limit, limit, size)
            y, zp = g.add_op("TABLE", [y, g.add_constant("table", entries, dtype)]), 0
    if one(True, False):
        shape = g.tensors[y].shape
        flat = (1, int(np.prod(shape[:-1])), shape[-1])
        y = g.add_op("RESHAPE", [y, g.add_constant("shape", flat, "shape")])
    g.outputs = [y]
    return g, one("tiny", "odd", "default"), passes


@given(_chains())
@settings(max_examples=80, deadline=None, suppress_health_check=list(HealthCheck))
def test_random_chains_are_exact(case: tuple[Graph, str, int]) -> None:
    g, config, _ = case
    assert_compiles_exactly(g, preset(config), random_inputs(g))


@pytest.mark.parametrize("config", list(PRESETS))
@pytest.mark.parametrize("reshaped", [False, True])
@pytest.mark.parametrize("turned", [False, True])
def test_sum_of_int32_is_part_of_the_product(reshaped: bool, turned: bool, config: str) -> None:
    g = residual(reshaped=reshaped, turned=turned)
    (layer,) = layers_of(g, config)
    assert isinstance(layer, ConvLayer) and layer.residual is not None
    assert layer.ops == ("CONV2D", "RESCALE", "ADD", "RESCALE")
    assert assert_compiles_exactly(g, preset(config), random_inputs(g)) == 12 * 2 * 24


@pytest.mark.parametrize("config", list(PRESETS))
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("kind", ["pointwise", "matmul"])
def test_factor_of_a_row_is_part_of_the_product(kind: str, bias: bool, config: str) -> None:
    g = by_row(kind, bias=bias, reshaped=kind == "matmul")
    *_, layer = layers_of(g, config)
    assert isinstance(layer, ConvLayer) and isinstance(layer.residual, RowFactor)
    assert len(layer.epilogue.passes) == 1 + bias
    assert assert_compiles_exactly(g, preset(config), random_inputs(g)) == 2 * 11 * 37


def test_factor_that_comes_later_is_not_fused() -> None:
    """It is made from the product's own results."""
    g = Graph()
    y = products(g, "matmul", 6, 9, 8)
    rows = g.add_op("REDUCE_MAX", [y], {"axis": 2})
    g.outputs = [g.add_op("MUL", [y, rows, g.add_constant("shift", [20], "int8")])]
    assert not any(isinstance(getattr(x, "residual", None), RowFactor) for x in layers_of(g))
    assert_compiles_exactly(g, preset("tiny"), random_inputs(g))


def test_int32_operand_with_another_reader_is_not_fused() -> None:
    g = residual(reshaped=False, reads=2)
    first, *_ = layers_of(g)
    assert isinstance(first, ConvLayer) and first.residual is None
    assert_compiles_exactly(g, preset("tiny"), random_inputs(g))

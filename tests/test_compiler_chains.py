"""Chains of elementwise operators and reductions: one layer, the interpreter's bits."""

import numpy as np
import pytest
from chain_graphs import norm, norms_in_a_row, scores
from compiler_graphs import assert_compiles_exactly, random_inputs, rescale, zero_point
from hypothesis import example, given, settings
from hypothesis import strategies as st
from random_chains import random_chain

from spec.config import preset
from spec.isa import Scale
from sw.compiler.kernels.fused.layer import FusedLayer
from sw.compiler.pipeline import run_stages
from sw.compiler.program.cycles import step_cycles
from sw.compiler.tosa.graph import Graph


@example(seed=26064, name="tiny")
@given(seed=st.integers(0, 1 << 30), name=st.sampled_from(["tiny", "odd", "default"]))
@settings(max_examples=25, deadline=None)
def test_random_chains_are_exact(seed: int, name: str) -> None:
    g = random_chain(seed)
    assert assert_compiles_exactly(g, preset(name), random_inputs(g, seed)) > 0


def _softmax_like(rows: int, size: int, packed: bool) -> Graph:
    """x − max, a TABLE, and the sum of each row, whose inverse scales the row."""
    g = Graph(name="rows")
    x = g.add_input("x", (1, rows, size), "int32")
    most = g.add_op("REDUCE_MAX", [x], {"axis": 2})
    narrow = rescale(g, g.add_op("SUB", [x, most]), 2.0**-13, 0, "int8")
    table = g.add_constant("table", np.arange(-128, 128), "int8")
    wide = g.add_op("CAST", [g.add_op("TABLE", [narrow, table])], out_dtype="int32")
    total = g.add_op("REDUCE_SUM", [wide], {"axis": 2})
    if packed:
        total = g.add_op("RESHAPE", [total, g.add_constant("s", [1, 1, rows], "shape")])
    total = g.add_op("CLZ", [g.add_op("ABS", [total])])
    if packed:
        total = g.add_op("RESHAPE", [total, g.add_constant("s", [1, rows, 1], "shape")])
    shift = g.add_constant("shift", [0], "int8")
    g.outputs = [rescale(g, g.add_op("MUL", [wide, total, shift]), 0.25, 0, "int16")]
    g.verify()
    return g


def test_rows_are_one_layer_whatever_form_their_statistics_have() -> None:
    for packed in (False, True):
        g = _softmax_like(9, 32, packed)
        config = preset("default")
        layers = run_stages(g, config).layers.layers
        assert [type(layer) for layer in layers] == [FusedLayer]
        for name in ("tiny", "odd", "default"):
            assert_compiles_exactly(g, preset(name), random_inputs(g, 1))


def test_chain_that_fits_nowhere_is_cut() -> None:
    g = _softmax_like(3, 4096, False)
    assert len(run_stages(g, preset("tiny")).layers.layers) > 1
    assert_compiles_exactly(g, preset("tiny"), random_inputs(g, 1))


def _means(side: int, channels: int, *, squared: bool = False, scaled: bool = False) -> Graph:
    """The mean of an image, of its squares if `squared`, by one axis and the other; the image times
    a function of the means of all channels if `scaled`.
    """
    g = Graph(name="means")
    x = g.add_input("x", (1, side, side, channels), "int16")
    wide = g.add_op("CAST", [x], out_dtype="int32")
    shift = g.add_constant("none", [0], "int8")
    if squared:
        square = rescale(g, g.add_op("MUL", [wide, wide, shift]), 2.0**-16, 0, "int16")
        wide = g.add_op("CAST", [square], out_dtype="int32")
    total = g.add_op("REDUCE_SUM", [g.add_op("REDUCE_SUM", [wide], {"axis": 1})], {"axis": 2})
    mean = rescale(g, total, 1 / side**2, 0, "int16")
    if scaled:
        means = g.add_op("CAST", [mean], out_dtype="int32")
        all_of = g.add_op("REDUCE_SUM", [means], {"axis": 3})
        for _ in range(5):
            all_of = g.add_op("CLZ", [g.add_op("ABS", [all_of])])
        whole = g.add_op("ADD", [means, all_of])
        around = g.add_op("CAST", [x], out_dtype="int32")
        mean = rescale(g, g.add_op("MUL", [around, whole, shift]), 2.0**-5, 0, "int16")
    g.outputs = [mean]
    g.verify()
    return g


@pytest.mark.parametrize(
    ("side", "squared", "layers"), [(64, False, 2), (32, True, 2), (8, False, 1)]
)
def test_sums_of_a_plane_that_crowds_the_scratchpad_are_two_layers(
    side: int, squared: bool, layers: int
) -> None:
    g, config = _means(side, 24, squared=squared), preset("default")
    assert len(run_stages(g, config).layers.layers) == layers
    for name in ("default", "odd"):
        assert_compiles_exactly(g, preset(name), random_inputs(g, 1))


def test_what_takes_long_for_few_elements_is_not_computed_with_many() -> None:
    g, config = _means(32, 160, scaled=True), preset("default")
    few, many = run_stages(g, config).layers.layers[-2:]
    assert isinstance(few, FusedLayer) and isinstance(many, FusedLayer)
    assert few.shape[-1] == 160 and len(few.steps) > len(many.steps)
    assert_compiles_exactly(g, config, random_inputs(g, 1))
    one = _means(8, 16, scaled=True)
    assert len(run_stages(one, config).layers.layers) == 1


def test_rows_of_whole_vectors_and_one_element() -> None:
    for size in (5, 9, 17):
        g = _softmax_like(6, size, False)
        for name in ("tiny", "default"):
            assert_compiles_exactly(g, preset(name), random_inputs(g, size))


def test_norm_and_its_narrow_copy_are_one_layer() -> None:
    for size in (16, 37, 96):
        g = norm(9, size)
        (layer,) = run_stages(g, preset("default")).layers.layers
        assert isinstance(layer, FusedLayer)
        assert len(layer.outputs) == 2 and len(layer.steps) <= 17
        for name in ("tiny", "odd", "default"):
            assert assert_compiles_exactly(g, preset(name), random_inputs(g, size)) > 0


def test_parameters_that_do_not_fit_take_turns() -> None:
    config = preset("tiny")
    size = config.cols * (config.param_entries + 3)
    g = Graph(name="wide")
    x = g.add_input("x", (3, size), "int16")
    wide = g.add_op("CAST", [x], out_dtype="int32")
    total = g.add_op("REDUCE_SUM", [wide], {"axis": 1})
    centred = rescale(g, g.add_op("SUB", [wide, total]), 2.0**-8, 0, "int16")
    rng = np.random.default_rng(1)
    scales = [list(rng.uniform(0.1, 0.9, size)) for _ in range(2)]
    g.outputs = [rescale(g, centred, s, 0, "int8") for s in scales]
    g.verify()
    compilation = run_stages(g, config)
    assert len(compilation.layers.layers) == 1
    loads = [n for n in compilation.program.instructions if "params" in n.note]
    assert len(loads) > 4
    assert assert_compiles_exactly(g, config, random_inputs(g, 2)) > 0


def test_softmax_of_a_product_leaves_the_accumulator_as_its_result_only() -> None:
    for rows, keys, depth, mask in ((20, 37, 19, False), (33, 16, 24, True), (16, 48, 16, True)):
        g = scores(rows, keys, depth, mask=mask)
        for name in ("tiny", "odd", "default"):
            assert assert_compiles_exactly(g, preset(name), random_inputs(g, rows)) > 0
        (layer,) = run_stages(g, preset("default")).layers.layers
        assert isinstance(layer, FusedLayer) and layer.product is not None


def test_exponentials_take_two_cycles_a_vector_as_table_does() -> None:
    config = preset("default")
    for mask in (False, True):
        (layer,) = run_stages(scores(20, 37, 19, mask=mask), config).layers.layers
        assert isinstance(layer, FusedLayer)
        exponentials = next(step for step in layer.steps if "table" in step.values)
        assert step_cycles({**exponentials.values}, config, config.cols) == 2


def test_rescale_by_one_is_no_rescale() -> None:
    g = Graph(name="one")
    x = g.add_input("x", (1, 9, 48), "int32")
    most = g.add_op("REDUCE_MAX", [x], {"axis": 2})
    g.outputs = [rescale(g, g.add_op("SUB", [x, most]), 1.0, 7, "int8")]
    (layer,) = run_stages(g, preset("default")).layers.layers
    assert isinstance(layer, FusedLayer)
    assert not any("o_scale" in step.values for step in layer.steps)
    for name in ("tiny", "odd", "default"):
        assert assert_compiles_exactly(g, preset(name), random_inputs(g, 3)) > 0


def test_a_product_that_others_read_too_is_a_layer_of_its_own() -> None:
    g = scores(20, 37, 19, mask=False)
    g.outputs.append(next(op for op in g.ops if op.kind == "RESHAPE").outputs[0])
    assert len(run_stages(g, preset("default")).layers.layers) > 1
    assert assert_compiles_exactly(g, preset("default"), random_inputs(g, 1)) > 0


def test_operators_beside_a_chain_join_it_with_their_reader() -> None:
    g = Graph(name="gate")
    x, y = (g.add_input(name, (1, 24, 48), "int16") for name in "xy")
    wide = [g.add_op("CAST", [v], out_dtype="int32") for v in (x, y)]
    product = g.add_op("MUL", [*wide, zero_point(g, 0)])
    g.outputs = [rescale(g, product, 2.0**-12, 0, "int16")]
    g.verify()
    (layer,) = run_stages(g, preset("default")).layers.layers
    assert isinstance(layer, FusedLayer) and len(layer.steps) == 1
    for name in ("tiny", "odd", "default"):
        assert assert_compiles_exactly(g, preset(name), random_inputs(g, 3)) > 0


def test_cast_that_another_layer_reads_is_computed_there() -> None:
    """What a chain writes for others is narrow; they widen it as they read it."""
    g = Graph(name="cast")
    x = g.add_input("x", (1, 6, 5, 37), "int16")
    y = g.add_op("ABS", [g.add_op("CAST", [x], out_dtype="int32")])
    narrow = rescale(g, y, 0.9, 0, "int16")
    wide = g.add_op("CAST", [narrow], out_dtype="int32")
    mean = g.add_op("MAX_POOL2D", [narrow], {"kernel": (6, 5), "stride": (1, 1), "pad": (0,) * 4})
    factor = g.add_op("CAST", [mean], out_dtype="int32")
    product = g.add_op("MUL", [wide, factor, g.add_constant("shift", [0], "int8")])
    g.outputs = [rescale(g, product, 2.0**-9, 0, "int8")]
    first, *_ = run_stages(g, preset("default")).layers.layers
    assert [view.dtype for view in first.outputs] == ["int16"]
    for name in ("tiny", "odd", "default"):
        assert assert_compiles_exactly(g, preset(name), random_inputs(g, 3)) > 0


def test_table_of_int16_is_rescaled_where_it_is_looked_up() -> None:
    g = Graph(name="tanh")
    x = g.add_input("x", (1, 7, 5, 37), "int16")
    entries = np.rint(np.tanh(np.linspace(-4, 4, 513)) * 32000).astype(np.int16)
    y = g.add_op("TABLE", [x, g.add_constant("tanh", entries, "int16")])
    g.outputs = [rescale(g, y, 2.0**-15, 3, "int8")]
    (layer,) = run_stages(g, preset("default")).layers.layers
    assert [view.dtype for view in layer.outputs] == ["int8"]
    for name in ("tiny", "odd", "default"):
        assert assert_compiles_exactly(g, preset(name), random_inputs(g, 3)) > 0


def test_sum_and_its_narrow_copy_are_one_layer() -> None:
    g = Graph(name="sum")
    a, b = (g.add_input(name, (1, 7, 5, 37), "int16") for name in "ab")
    total = g.add_op("ADD", [rescale(g, a, 300.0, 0, "int32"), rescale(g, b, 200.0, 0, "int32")])
    y = rescale(g, total, 0.002, 0, "int16")
    g.outputs = [y, rescale(g, y, 0.004, 5, "int8")]
    (layer,) = run_stages(g, preset("default")).layers.layers
    assert isinstance(layer, FusedLayer) and len(layer.outputs) == 2
    for name in ("tiny", "odd", "default"):
        assert assert_compiles_exactly(g, preset(name), random_inputs(g, 3)) > 0


@given(
    st.sampled_from([0, 1, 2, 5, 31, 62]),
    st.sampled_from([100, 1 << 20, (1 << 29) - 1, (1 << 31) - 1]),
    st.booleans(),
    st.sampled_from(["tiny", "odd", "default"]),
)
@settings(max_examples=30, deadline=None)
def test_factors_of_channels_are_parameters(shift: int, most: int, turned: bool, name: str) -> None:
    """RESCALE has the bits of MUL, those of products that wrap too."""
    g, rng = Graph(name="factors"), np.random.default_rng(most)
    x = g.add_input("x", (1, 3, 5, 37), "int16" if shift < 2 else "int32")
    wide = g.add_op("CAST", [x], out_dtype="int32") if shift < 2 else x
    limit = most if shift > 1 else min(most, (1 << 31) // 40000)
    factors = g.add_constant("f", rng.integers(-limit, limit, (1, 1, 1, 37)), "int32")
    operands = [factors, wide] if turned else [wide, factors]
    y = g.add_op("MUL", [*operands, g.add_constant("shift", [shift], "int8")])
    offset = g.add_constant("o", rng.integers(-99, 99, (1, 1, 1, 37)), "int32")
    g.outputs = [rescale(g, g.add_op("ADD", [y, offset]), 2.0**-9, 3, "int8")]
    (layer,) = run_stages(g, preset("default")).layers.layers
    assert isinstance(layer, FusedLayer)
    small = limit << max(0, 2 - shift) < 1 << 31
    assert any(s.values.get("a_scale") is Scale.CHANNEL for s in layer.steps) or not small
    inputs = random_inputs(g, 3)
    if shift > 1:
        inputs = {k: v >> 12 for k, v in inputs.items()}
    assert assert_compiles_exactly(g, preset(name), inputs) > 0


@pytest.mark.parametrize("value", [-1, 0, 1])
@pytest.mark.parametrize("factor", [0, 1, 32766])
def test_channels_with_neutral_constants(factor: int, value: int) -> None:
    """A factor and an offset that are equal for all channels, and perhaps change nothing."""
    g = Graph(name="neutral")
    wide = g.add_op("CAST", [g.add_input("x", (1, 6, 7, 12), "int16")], out_dtype="int32")
    factors = g.add_constant("f", np.full((1, 1, 1, 12), factor), "int32")
    y = g.add_op("MUL", [wide, factors, g.add_constant("shift", [0], "int8")])
    y = g.add_op("ADD", [y, g.add_constant("o", np.full((1, 1, 1, 12), value), "int32")])
    g.outputs = [rescale(g, y, 2.0**-15, 0, "int16")]
    assert assert_compiles_exactly(g, preset("default"), random_inputs(g)) > 0


def test_norms_in_a_row_are_one_layer() -> None:
    g = norms_in_a_row(32, 48)
    assert len(g.ops) > 50
    assert [type(x) for x in run_stages(g, preset("default")).layers.layers] == [FusedLayer]
    for name in ("tiny", "odd", "default"):
        assert_compiles_exactly(g, preset(name), random_inputs(g, 1))


@pytest.mark.parametrize("per_channel", [False, True])
def test_many_small_samples_are_rows_of_few_tiles(per_channel: bool) -> None:
    g = Graph(name="samples")
    x = g.add_input("x", (64, 1, 3, 4, 12), "int16")
    parts = [[0, 0, 1, 0, 0], [64, 1, 1, 4, 12]]
    names = [g.add_constant(n, v, "shape") for n, v in zip(("start", "size"), parts, strict=True)]
    y = g.add_op("SLICE", [x, *names])
    g.outputs = [rescale(g, y, [0.01 + i / 1e4 for i in range(12)] if per_channel else 0.01)]
    done = run_stages(g, preset("default"))
    assert len(done.program.instructions) < 40
    for name in ("tiny", "odd", "default"):
        assert_compiles_exactly(g, preset(name), random_inputs(g, 1))

"""Chains of elementwise operators and reductions: one layer, the interpreter's bits."""

import numpy as np
from compiler_graphs import assert_compiles_exactly, random_inputs, rescale
from hypothesis import given, settings
from hypothesis import strategies as st
from random_chains import random_chain

from spec.config import preset
from sw.compiler.map_layer import MapLayer
from sw.compiler.pipeline import run_stages
from sw.compiler.tosa import Graph


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
        assert [type(layer) for layer in layers] == [MapLayer]
        for name in ("tiny", "odd", "default"):
            assert_compiles_exactly(g, preset(name), random_inputs(g, 1))


def test_chain_that_fits_nowhere_is_cut() -> None:
    g = _softmax_like(3, 4096, False)
    assert len(run_stages(g, preset("tiny")).layers.layers) > 1
    assert_compiles_exactly(g, preset("tiny"), random_inputs(g, 1))


def test_rows_of_whole_vectors_and_one_element() -> None:
    for size in (5, 9, 17):
        g = _softmax_like(6, size, False)
        for name in ("tiny", "default"):
            assert_compiles_exactly(g, preset(name), random_inputs(g, size))

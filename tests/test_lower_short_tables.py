"""TABLE of int16 with a RESCALE to int8 behind it: one lookup, bit-identical to the two."""

from typing import Any

import numpy as np
import pytest
from compiler_graphs import assert_compiles_exactly, random_inputs, rescale
from epilogue_graphs import products, scales
from hypothesis import given, settings
from hypothesis import strategies as st

from spec import PRESETS, preset
from spec.isa import TABLE_SHIFT, Table
from spec.numerics import apply_scale, interpolate
from sw.compiler.compilation import Compilation
from sw.compiler.lower.fusion.short_tables import shortened
from sw.compiler.pipeline import run_stages
from sw.compiler.program.records import Vector
from sw.compiler.tosa.graph import Graph, Op

WIDE = [c.name for c in PRESETS.values() if c.table_int16]
EVERY = np.arange(-(1 << 15), 1 << 15)


def behind(
    entries: Any, scale: float | list[float], zp: int = 0, dtype: str = "int8", izp: int = 0
) -> tuple[Graph, Op]:
    """A TABLE with these entries, and the RESCALE that reads it."""
    g = Graph()
    x = g.add_op(
        "TABLE", [g.add_input("x", (1, 4), "int16"), g.add_constant("t", entries, "int16")]
    )
    g.outputs = [rescale(g, x, scale, zp, dtype, izp)]
    return g, g.ops[-1]


@given(st.integers(0, 99), st.integers(1, TABLE_SHIFT), st.integers(-128, 127))
@settings(max_examples=60, deadline=None)
def test_every_index_gives_what_both_operators_do(seed: int, shift: int, zp: int) -> None:
    unit = 1 << shift - 7 if shift > 7 else 1
    low, high = ((end - zp) * unit for end in (-128, 127))
    rng = np.random.default_rng(seed)
    entries = np.clip(rng.integers(low, high + 1, 513), -32768, 32767)
    g, op = behind(entries, 2.0**-shift, zp)
    short = shortened(g, entries, op)
    wide = interpolate(entries, EVERY)
    multiplier, by = (int(g.constant(name)[0]) for name in op.inputs[1:3])
    want = np.clip(apply_scale(wide, multiplier, by) + zp, -128, 127)
    if short is None:
        assert want.min() == -128 or want.max() == 127
        return
    got = interpolate(short.astype(np.int64), EVERY) >> TABLE_SHIFT
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize(
    ("scale", "dtype", "zp", "izp"),
    [
        (0.0001, "int8", 0, 0),  # no power of two
        ([2.0**-14] * 4, "int8", 0, 0),  # per channel
        (2.0**-14, "int16", 0, 0),
        (2.0**-16, "int8", 0, 0),  # int16 would lose bits of the entries
        (2.0**-7, "int8", 0, 0),  # saturates
        (2.0**-14, "int8", 120, 0),  # saturates behind the zero point
        (2.0**2, "int8", 0, 0),
    ],
)
def test_other_rescales_stay(scale: Any, dtype: str, zp: int, izp: int) -> None:
    entries = np.linspace(-16000, 16000, 513).astype(np.int64)
    g, op = behind(entries, scale, zp, dtype, izp)
    assert shortened(g, entries, op) is None


def tables(made: Compilation) -> set[Table]:
    records = [each.record for each in made.scheduled]
    return {r.table for r in records if isinstance(r, Vector)} - {Table.OFF}


def activation(g: Graph, x: str, zp: int) -> str:
    entries = np.linspace(-100, 100 - zp, 513) * 128
    y = rescale(g, x, scales(g, x, 0.4, True), 0, "int16")
    y = g.add_op("TABLE", [y, g.add_constant("table", np.rint(entries), "int16")])
    return rescale(g, y, 2.0**-14, zp)


@pytest.mark.parametrize("config", WIDE)
@pytest.mark.parametrize("kind", ["pointwise", "conv", "matmul", "depthwise", "transposed"])
def test_one_pass_behind_a_product(kind: str, config: str) -> None:
    g = Graph()
    g.outputs = [activation(g, products(g, kind, 11, 20, 37), -28)]
    made = run_stages(g, preset(config))
    for layer in made.layers.layers:
        epilogue = getattr(layer, "epilogue", None)
        assert epilogue is None or len(epilogue.passes) == 1
    assert tables(made) == {Table.I16_I8}
    assert assert_compiles_exactly(g, preset(config), random_inputs(g)) >= 2 * 11 * 37


@pytest.mark.parametrize("config", WIDE)
@pytest.mark.parametrize("reads", ["once", "twice", "other"])
def test_one_step_of_a_chain(reads: str, config: str) -> None:
    """A second reader needs the lower bits; another table stays as it is."""
    g = Graph()
    x = g.add_input("x", (1, 5, 33), "int16")
    wide = g.add_op("CAST", [x], out_dtype="int32")
    y = activation(g, g.add_op("ADD", [wide, wide]), 11)
    table = g.ops[-2].outputs[0]
    back = rescale(g, y, 1.0, 0, "int32", 11)
    g.outputs = [g.add_op("REDUCE_SUM", [back], {"axis": 2})]
    found = {Table.I16_I8}
    if reads == "twice":
        g.outputs.append(g.add_op("REDUCE_MAX", [table], {"axis": 2}))
        found = {Table.I16}
    if reads == "other":
        entries = np.arange(513) * 3
        other = g.add_op("TABLE", [x, g.add_constant("other", entries, "int16")])
        g.outputs.append(g.add_op("SUB", [other, back]))
        found = {Table.I16_I8, Table.I16}
    assert tables(run_stages(g, preset(config))) == found
    assert_compiles_exactly(g, preset(config), random_inputs(g))

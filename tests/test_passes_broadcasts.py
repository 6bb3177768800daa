"""A TILE before elementwise operators is their own broadcast."""

import pytest
from compiler_graphs import assert_compiles_exactly, random_inputs, rescale
from test_passes_transposes import passed, turn

from spec import preset
from sw.compiler.kernels.layers import MoveLayer
from sw.compiler.pipeline import run_stages
from sw.compiler.tosa.graph import Graph


def tiled(g: Graph, x: str, *times: int) -> str:
    return g.add_op("TILE", [x, g.add_constant("times", list(times), "shape")])


def scaled(g: Graph, x: str, factor: str) -> str:
    """x times a factor, as int8."""
    wide = [g.add_op("CAST", [name], out_dtype="int32") for name in (x, factor)]
    return rescale(g, g.add_op("MUL", [*wide, g.add_constant("s", [0], "int8")]), 2.0**-16)


def test_a_factor_of_each_channel_is_written_once() -> None:
    g = Graph(name="expand")
    x = g.add_input("x", (1, 9, 7, 20))
    y = tiled(g, g.add_input("y", (1, 20, 1, 1), "int16"), 1, 1, 9, 7)
    g.outputs = [scaled(g, x, turn(g, y, 0, 2, 3, 1))]
    assert "TILE" not in passed(g)
    layers = run_stages(g, preset("default")).layers.layers
    assert len(layers) == 1 and not isinstance(layers[0], MoveLayer)
    for name in ("default", "tiny", "odd"):
        assert_compiles_exactly(g, preset(name), random_inputs(g))


@pytest.mark.parametrize("order", ["first", "second"])
@pytest.mark.parametrize("kind", ["ADD", "SUB", "MAXIMUM", "GREATER"])
def test_each_operand_may_be_the_small_one(kind: str, order: str) -> None:
    g = Graph(name="rows")
    x = g.add_input("x", (1, 6, 5, 8), "int32")
    y = tiled(g, g.add_input("y", (1, 6, 1, 8), "int32"), 1, 1, 5, 1)
    z = g.add_op(kind, [y, x] if order == "first" else [x, y])
    g.outputs = [z if kind == "GREATER" else rescale(g, z, 2.0**-14)]
    assert "TILE" not in passed(g)
    assert_compiles_exactly(g, preset("default"), random_inputs(g))


@pytest.mark.parametrize("why", ["two rows", "no other", "itself", "an output", "channels"])
def test_a_tile_stays_where_its_elements_are_wanted(why: str) -> None:
    g = Graph(name="stays")
    rows = 2 if why == "two rows" else 1
    y = g.add_input("y", (1, rows, 1, 6), "int32")
    if why == "channels":
        y = g.add_input("z", (1, 4, 5, 1), "int32")
        y = tiled(g, y, 1, 1, 1, 6)
        g.outputs = [rescale(g, y, [2.0**-14 * (1 + i / 9) for i in range(6)])]
    else:
        y = tiled(g, y, 1, 4 // rows, 5, 1)
        other = g.add_input("x", (1, 1, 5, 6) if why == "no other" else (1, 4, 5, 6), "int32")
        z = g.add_op("ADD", [y, y if why == "itself" else other])
        g.outputs = [rescale(g, z, 2.0**-14)]
        if why == "an output":
            g.outputs.append(y)
    assert "TILE" in passed(g)
    assert_compiles_exactly(g, preset("default"), random_inputs(g))

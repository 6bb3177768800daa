"""TRANSPOSE by the array: exact for any order, shape and type; chosen where it is faster."""

import math

import pytest
from compiler_graphs import assert_compiles_exactly, conv, random_inputs
from hypothesis import given, settings
from hypothesis import strategies as st

from golden_model import Machine
from spec import preset
from spec.isa import Engine
from sw.compiler.kernels.layers import Layer, MoveLayer, TransposeLayer
from sw.compiler.pipeline import run_stages
from sw.compiler.tosa.graph import Graph
from sw.compiler.tosa.interpreter import run_graph

presets = st.sampled_from(["tiny", "small", "rect", "odd", "default", "large", "micro"])

Case = tuple[tuple[int, ...], tuple[int, ...], str]

FEW: list[tuple[str, tuple[int, ...], tuple[int, ...], str]] = [
    ("once", (37, 41), (1, 0), "int8"),
    ("once", (37, 41), (1, 0), "int16"),
    ("once", (60, 2, 58), (2, 1, 0), "int8"),
    ("twice", (150, 3, 20), (0, 2, 1), "int8"),
    ("twice", (60, 3, 20), (0, 2, 1), "int16"),
    ("twice", (60, 3, 20), (0, 2, 1), "int32"),
    ("twice", (4, 16, 32, 2, 2), (0, 3, 1, 4, 2), "int8"),
    ("twice", (2, 192, 32), (1, 2, 0), "int16"),
    ("twice", (192, 32, 2), (2, 0, 1), "int16"),
    ("twice", (2, 1024), (1, 0), "int16"),
    ("twice", (3, 768), (1, 0), "int8"),
]
"""Turns, shape, perms, type: every form of a product."""


def transposed(shape: tuple[int, ...], perms: tuple[int, ...], dtype: str = "int8") -> Graph:
    g = Graph(name="transposed")
    x = g.add_input("x", shape, dtype)
    g.outputs = [g.add_op("TRANSPOSE", [x], {"perms": perms})]
    g.verify()
    return g


@st.composite
def cases(draw: st.DrawFn) -> Case:
    rank = draw(st.integers(2, 5))
    most = {2: 120, 3: 40, 4: 16, 5: 9}[rank]
    shape = tuple(draw(st.integers(1, most)) for _ in range(rank))
    perms = tuple(draw(st.permutations(range(rank))))
    return shape, perms, draw(st.sampled_from(["int8", "int16", "int32"]))


@given(name=presets, case=cases())
@settings(max_examples=25, deadline=None)
def test_any_order_is_exact(name: str, case: Case) -> None:
    shape, perms, dtype = case
    g = transposed(shape, perms, dtype)
    assert assert_compiles_exactly(g, preset(name), random_inputs(g, sum(shape))) > 0


@pytest.mark.parametrize(("turns", "shape", "perms", "dtype"), FEW)
def test_every_form_is_exact(
    turns: str, shape: tuple[int, ...], perms: tuple[int, ...], dtype: str
) -> None:
    g = transposed(shape, perms, dtype)
    made = run_stages(g, preset("default"))
    assert [type(layer) for layer in made.layers.layers] == [TransposeLayer]
    assert str(made.plans[0]).startswith(turns)
    inputs = random_inputs(g, 3)
    got, want = Machine(preset("default")).run(made.image, inputs), run_graph(g, inputs)
    for name, array in want.items():
        assert (got[name] == array).all()


def kinds(g: Graph, name: str = "default") -> list[type[Layer]]:
    return [type(layer) for layer in run_stages(g, preset(name)).layers.layers]


def test_long_runs_and_a_few_bytes_are_copied() -> None:
    assert kinds(transposed((30, 20, 64), (1, 0, 2))) == [MoveLayer]
    assert kinds(transposed((12, 10), (1, 0))) == [MoveLayer]


def test_without_transposed_weights_dma_gathers() -> None:
    g = transposed((128, 64), (1, 0))
    assert kinds(g, "micro") == [MoveLayer]
    assert assert_compiles_exactly(g, preset("micro"), random_inputs(g)) > 0


@pytest.mark.parametrize("dtype", ["int8", "int16", "int32"])
def test_a_shuffle_takes_less_than_a_cycle_for_five_bytes(dtype: str) -> None:
    g = transposed((1024, 3, 40), (0, 2, 1), dtype)
    size = 1024 * 120 * {"int8": 1, "int16": 2, "int32": 4}[dtype]
    assert sum(run_stages(g, preset("default")).predicted) < size / 5


def between_products(shape: tuple[int, ...], perms: tuple[int, ...]) -> Graph:
    """A TRANSPOSE of what a convolution makes, which another one reads."""
    g = Graph(name="between")
    size, last = math.prod(shape), shape[-1]
    x = g.add_input("x", (1, 1, size // last, 8))
    y = g.add_op("RESHAPE", [conv(g, x, last, 1), g.add_constant("s", shape, "shape")])
    y = g.add_op("TRANSPOSE", [y], {"perms": perms})
    channels = math.prod(shape[p] for p in perms[1:])
    rows = g.add_constant("r", (1, 1, size // channels, channels), "shape")
    g.outputs = [conv(g, g.add_op("RESHAPE", [y, rows]), 8, 1, seed=1)]
    g.verify()
    return g


@pytest.mark.parametrize(
    ("shape", "perms"),
    [
        ((96, 64), (1, 0)),
        ((150, 3, 20), (0, 2, 1)),
        ((60, 4, 24), (2, 1, 0)),
        ((7, 90, 16), (2, 0, 1)),
    ],
)
def test_tensors_on_chip_are_turned_where_they_lie(
    shape: tuple[int, ...], perms: tuple[int, ...]
) -> None:
    g = between_products(shape, perms)
    made = run_stages(g, preset("default"))
    (at,) = (i for i, x in enumerate(made.layers.layers) if isinstance(x, TransposeLayer))
    layer = made.layers.layers[at]
    assert {layer.inputs[0].tensor, layer.output.tensor} <= set(made.residency.address)
    moved = [i for i in made.virtual.instructions if i.layer == at and i.engine is Engine.STORE]
    assert not moved
    in_memory = run_stages(g, preset("default"), on_chip=False)
    assert sum(made.predicted) < sum(in_memory.predicted)
    assert assert_compiles_exactly(g, preset("default"), random_inputs(g)) > 0


@given(name=presets, shape=st.lists(st.integers(2, 24), min_size=2, max_size=4), data=st.data())
@settings(max_examples=25, deadline=None)
def test_any_order_between_products_is_exact(
    name: str, shape: list[int], data: st.DataObject
) -> None:
    perms = tuple(data.draw(st.permutations(range(len(shape)))))
    g = between_products(tuple(shape), perms)
    assert assert_compiles_exactly(g, preset(name), random_inputs(g, 5)) > 0

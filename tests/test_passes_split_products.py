"""A convolution whose channels go different ways is one convolution for each way."""

import numpy as np
import pytest
from attention_graphs import self_attention
from compiler_graphs import assert_compiles_exactly, random_inputs, rescale, zero_point
from test_passes_transposes import part, passed, reshape

from spec import preset
from sw.compiler.kernels.layers import ConvLayer
from sw.compiler.passes import run_passes
from sw.compiler.pipeline import run_stages
from sw.compiler.tosa.graph import Graph

DEFAULT = preset("default")


def gates(channels: tuple[int, ...], *, inner: int = 32, bias: bool = True) -> tuple[Graph, str]:
    """A 1×1 convolution to int16 of so many channels in all, as rows of [1, 64, channels]."""
    g, rng, wide = Graph(name="gates"), np.random.default_rng(2), sum(channels)
    x = g.add_input("x", (1, 8, 8, inner))
    weight = g.add_constant("weight", rng.integers(-100, 101, (wide, 1, 1, inner)), "int8")
    values = rng.integers(-3000, 3000, wide) if bias else [0]
    inputs = [x, weight, g.add_constant("bias", values, "int32")]
    y = g.add_op("CONV2D", [*inputs, zero_point(g, 3), zero_point(g, 0)])
    y = rescale(g, y, list(rng.uniform(0.1, 0.3, wide)), 0, "int16")
    return g, reshape(g, y, 1, 64, wide)


def cut(g: Graph, y: str, channels: tuple[int, ...]) -> list[str]:
    ends = np.cumsum(channels).tolist()
    sizes = zip(ends, channels, strict=True)
    return [part(g, y, [0, 0, end - size], [1, 64, size]) for end, size in sizes]


def look_up(g: Graph, x: str) -> str:
    """A smooth TABLE of int16, and its int8."""
    table = np.round(30000 * np.tanh(np.linspace(-4, 4, 513))).astype(np.int16)
    return rescale(g, g.add_op("TABLE", [x, g.add_constant("table", table, "int16")]), 2.0**-15)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("channels", [(32, 32), (48, 16, 32)])
def test_an_activation_of_some_channels_is_in_the_epilogue(
    channels: tuple[int, ...], bias: bool
) -> None:
    g, y = gates(channels, bias=bias)
    first, *others = cut(g, y, channels)
    g.outputs = [look_up(g, first), *(rescale(g, x, 0.01) for x in others)]
    kinds = passed(g)
    assert kinds.count("CONV2D") == len(channels) and "SLICE" not in kinds
    layers = run_stages(g, DEFAULT).layers.layers
    assert [type(layer) for layer in layers] == [ConvLayer] * len(channels)
    assert "TABLE" in layers[0].ops
    for name in ("default", "tiny", "small", "odd"):
        assert_compiles_exactly(g, preset(name), random_inputs(g))


def test_channels_that_nobody_reads_are_not_computed() -> None:
    g, y = gates((16, 32, 16))
    first, _, last = cut(g, y, (16, 32, 16))
    g.outputs = [look_up(g, first), rescale(g, last, 0.01)]
    made = run_passes(g, DEFAULT)
    convs = [op for op in made.ops if op.kind == "CONV2D"]
    assert [made.tensors[op.outputs[0]].shape[-1] for op in convs] == [16, 16]
    assert_compiles_exactly(g, DEFAULT, random_inputs(g))


@pytest.mark.parametrize(
    "why", ["more blocks", "much to read again", "no epilogue", "overlap", "rows", "an output"]
)
def test_a_convolution_stays_whole_where_that_is_better(why: str) -> None:
    channels = (24, 24) if why == "more blocks" else (32, 32)
    g, y = gates(channels, inner=320 if why == "much to read again" else 32)
    parts = cut(g, y, channels)
    if why == "overlap":
        parts[1] = part(g, y, [0, 0, 16], [1, 64, 48])
    if why == "rows":
        parts[1] = part(g, y, [0, 0, 32], [1, 32, 32])
    g.outputs = [rescale(g, x, 0.01) for x in parts]
    if why == "no epilogue":
        g.outputs = [g.add_op("CONCAT", parts[::-1], {"axis": 2})]
    if why == "an output":
        g.outputs.append(y)
    assert passed(g).count("CONV2D") == 1


def test_queries_keys_and_values_have_a_product_each() -> None:
    """A RESHAPE makes three times so many heads of the channels, and SLICEs cut them apart."""
    g = self_attention(2, 2, 24, 16, 32)
    made = run_passes(g, DEFAULT)
    convs = [op for op in made.ops if op.kind == "CONV2D"]
    assert [made.tensors[op.outputs[0]].shape[-1] for op in convs] == [32, 32, 32]
    assert "SLICE" not in [op.kind for op in made.ops]
    for name in ("default", "tiny", "small", "odd"):
        assert_compiles_exactly(g, preset(name), random_inputs(g))


@pytest.mark.parametrize("why", ["one is added to", "heads of half a block"])
def test_they_stay_one_product_where_that_is_better(why: str) -> None:
    g = self_attention(2, 2, 24, 4 if why == "heads of half a block" else 16, 32)
    if why == "one is added to":
        values = [op for op in g.ops if op.kind == "SLICE"][2].outputs[0]
        g.outputs.append(g.add_op("ADD", [g.add_op("CAST", [values], out_dtype="int32")] * 2))
    assert [op.kind for op in run_passes(g, DEFAULT).ops].count("CONV2D") == 1

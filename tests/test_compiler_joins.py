"""CONCATs cost nothing: layers of every kind write their results where they are joined."""

from typing import Any

import numpy as np
import pytest
from compiler_graphs import assert_compiles_exactly, conv, random_inputs, rescale, zero_point
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from spec.config import preset
from sw.compiler.kernels.layers import GatherLayer, MoveLayer
from sw.compiler.pipeline import run_stages
from sw.compiler.tosa.graph import Graph

CONFIGS = ["tiny", "odd", "rect", "default"]


def _pool(g: Graph, x: str) -> str:
    return g.add_op("MAX_POOL2D", [x], {"kernel": (3, 3), "stride": (1, 1), "pad": (1,) * 4})


def _average(g: Graph, x: str) -> str:
    operands = [x, zero_point(g, 0), zero_point(g, 0)]
    attributes = {"kernel": (3, 3), "stride": (1, 1), "pad": (1,) * 4}
    return g.add_op("AVG_POOL2D", operands, attributes)


def _scaled(g: Graph, x: str) -> str:
    return rescale(g, x, 0.7, 3)


def _gate(g: Graph, x: str) -> str:
    """x · x, a chain."""
    wide = g.add_op("CAST", [x], out_dtype="int32")
    product = g.add_op("MUL", [wide, wide, g.add_constant("shift", [0], "int8")])
    return rescale(g, product, 2.0**-8)


def _depthwise(g: Graph, x: str) -> str:
    c = g.tensors[x].shape[3]
    weight = g.add_constant("w", np.random.default_rng(c).integers(-9, 9, (3, 3, c, 1)), "int8")
    operands = [x, weight, g.add_constant("b", np.zeros(c), "int32")]
    operands += [zero_point(g, 1), zero_point(g, 0)]
    attributes = {"pad": (1,) * 4, "stride": (1, 1)}
    return rescale(g, g.add_op("DEPTHWISE_CONV2D", operands, attributes), 0.02)


def _transposed(g: Graph, x: str) -> str:
    """A kernel of 2 x 2 with stride 2, and every second pixel of its result."""
    c = g.tensors[x].shape[3]
    weight = g.add_constant("w", np.random.default_rng(c).integers(-9, 9, (7, 2, 2, c)), "int8")
    operands = [x, weight, g.add_constant("b", np.zeros(7), "int32")]
    operands += [zero_point(g, 1), zero_point(g, 0)]
    attributes = {"out_pad": (0,) * 4, "stride": (2, 2)}
    y = rescale(g, g.add_op("TRANSPOSE_CONV2D", operands, attributes), 0.02)
    return g.add_op("MAX_POOL2D", [y], {"kernel": (2, 2), "stride": (2, 2), "pad": (0,) * 4})


def _convolved(g: Graph, x: str) -> str:
    return conv(g, x, 5 + g.tensors[x].shape[3] % 17, 3, pad=1)


def _pointwise(g: Graph, x: str) -> str:
    return conv(g, x, 32, 1)


def _grouped(g: Graph, x: str) -> str:
    """A SLICE of the channels, and a convolution of it."""
    return conv(g, _slice(g, x, max(1, g.tensors[x].shape[3] // 2)), 9, 1)


def _slice(g: Graph, x: str, channels: int) -> str:
    """The last channels of a tensor."""
    n, h, w, c = g.tensors[x].shape
    start = g.add_constant("start", (0, 0, 0, c - channels), "shape")
    return g.add_op("SLICE", [x, start, g.add_constant("size", (n, h, w, channels), "shape")])


def _flat(g: Graph, x: str) -> str:
    """The same in another shape and back, which is a view."""
    n, h, w, c = g.tensors[x].shape
    y = g.add_op("RESHAPE", [_scaled(g, x), g.add_constant("s", (n, h * w, c), "shape")])
    return g.add_op("RESHAPE", [y, g.add_constant("s", (n, h, w, c), "shape")])


def _doubled(g: Graph, x: str, mode: str) -> str:
    scale = (4, 2, 4, 2) if mode == "BILINEAR" else (2, 1, 2, 1)
    steps = [("scale", scale), ("offset", (0, 0)), ("border", scale[1::2])]
    operands = [x, *(g.add_constant(name, values, "shape") for name, values in steps)]
    out_dtype = "int32" if mode == "BILINEAR" else "int8"
    y = g.add_op("RESIZE", operands, {"mode": mode}, out_dtype=out_dtype)
    return rescale(g, y, 1 / 16) if mode == "BILINEAR" else y


@pytest.mark.parametrize("mode", ["NEAREST", "BILINEAR", "PAD"])
def test_copies_and_resized_images_are_joined(mode: str) -> None:
    g = Graph(name="joined")
    x = conv(g, g.add_input("x", (1, 6, 7, 20)), 24, 1)
    if mode == "PAD":
        pads = g.add_constant("pads", (0, 0, 1, 0, 0, 1, 0, 0), "shape")
        y = g.add_op("PAD", [x, pads, zero_point(g, 3)])
    else:
        y = _doubled(g, x, mode)
    parts = [_convolved(g, y), y, _scaled(g, y)]
    g.outputs = [conv(g, g.add_op("CONCAT", parts, {"axis": 3}), 16, 1)]
    layers = run_stages(g, preset("default")).layers.layers
    gathered = any(isinstance(layer, GatherLayer) for layer in layers)
    assert gathered or not any("CONCAT" in layer.ops for layer in layers)
    for config in CONFIGS:
        assert assert_compiles_exactly(g, preset(config), random_inputs(g)) > 0


KINDS = (
    _pool,
    _average,
    _scaled,
    _gate,
    _depthwise,
    _transposed,
    _convolved,
    _pointwise,
    _grouped,
    _flat,
)


@pytest.mark.parametrize("first", KINDS)
def test_layers_of_every_kind_write_into_the_joined_tensor(first: Any) -> None:
    g = Graph(name="joined")
    x = conv(g, g.add_input("x", (1, 6, 7, 20)), 24, 1)
    parts = [_convolved(g, x), first(g, x)]
    g.outputs = [conv(g, g.add_op("CONCAT", parts, {"axis": 3}), 16, 1)]
    layers = run_stages(g, preset("default")).layers.layers
    assert not any("CONCAT" in layer.ops for layer in layers)
    for config in CONFIGS:
        assert assert_compiles_exactly(g, preset(config), random_inputs(g)) > 0


def test_tensors_joined_again_and_again_lie_in_the_last() -> None:
    """Each convolution reads all before it, given as a list or as one tensor."""
    for nested in (False, True):
        g = Graph(name="dense")
        parts = [_convolved(g, g.add_input("x", (1, 6, 7, 20)))]
        for _ in range(3):
            whole = parts[0] if len(parts) < 2 else g.add_op("CONCAT", parts, {"axis": 3})
            parts = [*([whole] if nested else parts), _convolved(g, whole)]
        g.outputs = [_pool(g, g.add_op("CONCAT", parts, {"axis": 3}))]
        layers = run_stages(g, preset("default")).layers.layers
        assert not any(isinstance(layer, MoveLayer) for layer in layers)
        for config in CONFIGS:
            assert assert_compiles_exactly(g, preset(config), random_inputs(g)) > 0


def test_joined_tensor_stays_on_chip() -> None:
    g = Graph(name="fire")
    x = conv(g, g.add_input("x", (1, 12, 12, 16)), 16, 1)
    parts = [conv(g, x, 32, 1), conv(g, x, 32, 3, pad=1)]
    whole = g.add_op("CONCAT", parts, {"axis": 3})
    g.outputs = [conv(g, whole, 16, 1)]
    assert whole in run_stages(g, preset("default")).residency.address


@st.composite
def _networks(draw: Any) -> Graph:
    g = Graph(name="network")
    sizes = (draw(st.integers(2, 6)), draw(st.integers(2, 7)), draw(st.integers(1, 20)))
    values = [g.add_input("x", (1, *sizes))]
    for _ in range(draw(st.integers(3, 9))):
        x = draw(st.sampled_from(values[-4:]))
        join = draw(st.integers(0, 2)) == 0
        others = [v for v in values if g.tensors[v].shape[:3] == g.tensors[x].shape[:3]]
        if join and len(others) > 1:
            parts = draw(st.lists(st.sampled_from(others), min_size=1, max_size=3))
            values.append(g.add_op("CONCAT", parts, {"axis": 3}))
        elif join:
            values.append(g.add_op("CONCAT", [x, x], {"axis": draw(st.integers(1, 3))}))
        else:
            values.append(draw(st.sampled_from(KINDS))(g, x))
    read = {name for op in g.ops for name in op.inputs}
    g.outputs = [v for v in values[1:] if v not in read]
    g.outputs += [v for v in values[1:-1] if v in read and draw(st.integers(0, 5)) == 0]
    return g


@given(_networks(), st.sampled_from(CONFIGS))
@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
def test_random_networks_with_concats_are_exact(g: Graph, config: str) -> None:
    assert_compiles_exactly(g, preset(config), random_inputs(g))


def test_an_operand_of_an_operand_may_be_an_operand_too() -> None:
    g = Graph(name="again")
    x = g.add_input("x", (1, 2, 2, 3))
    inner = g.add_op("CONCAT", [x, x], {"axis": 1})
    again = g.add_op("CONCAT", [inner], {"axis": 3})
    g.outputs = [g.add_op("CONCAT", [again, inner], {"axis": 3})]
    # Along the same axis both would be joined.
    deep = g.add_op("CONCAT", [x, x], {"axis": 3})
    wrapped = g.add_op("CONCAT", [deep], {"axis": 3})
    g.outputs.append(g.add_op("CONCAT", [wrapped, deep], {"axis": 3}))
    assert_compiles_exactly(g, preset("default"), random_inputs(g))


def test_what_is_kept_to_be_looked_at_has_a_place_of_its_own() -> None:
    g = Graph(name="fire")
    x = conv(g, g.add_input("x", (1, 5, 6, 16)), 16, 1)
    parts = [conv(g, x, 32, 1), conv(g, x, 32, 3, pad=1)]
    g.outputs = [conv(g, g.add_op("CONCAT", parts, {"axis": 3}), 16, 1)]
    assert set(parts) <= set(run_stages(g, preset("default"), keep_all=True).tensors)
    assert not set(parts) & set(run_stages(g, preset("default")).tensors)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(
        st.tuples(st.integers(1, 3), st.integers(0, 2), st.booleans()), min_size=2, max_size=4
    ),
    st.sampled_from(["int8", "int16"]),
    st.sampled_from(CONFIGS),
)
def test_joined_along_one_axis_and_then_another(
    joins: list[tuple[int, int, bool]], dtype: str, config: str
) -> None:
    """A piece of a tensor that is itself a piece has the strides of the last one."""
    g = Graph(name="axes")
    y = g.add_input("x", (1, 2, 3, 5), dtype)
    for axis, at, twice in joins:
        size = list(g.tensors[y].shape)
        start = [0] * 4
        start[axis], size[axis] = size[axis] - 1, 1
        operands = [g.add_constant("start", start, "shape"), g.add_constant("size", size, "shape")]
        parts = [g.add_op("SLICE", [y, *operands]) for _ in range(1 + twice)]
        parts.insert(min(at, len(parts)), y)
        y = g.add_op("CONCAT", parts, {"axis": axis})
    g.outputs = [y]
    assert_compiles_exactly(g, preset(config), random_inputs(g))


@pytest.mark.parametrize("piece", ["slice", "input", "constant"])
def test_chains_wait_for_the_copies_of_a_joined_tensor(piece: str) -> None:
    """The chain begins before the CONCAT and reads its result, of which a layer wrote a part."""
    g = Graph(name="gated")
    x = conv(g, g.add_input("x", (1, 6, 7, 20)), 24, 1)
    other = {
        "slice": lambda: _slice(g, x, 16),
        "input": lambda: g.add_input("y", (1, 6, 7, 16)),
        "constant": lambda: g.add_constant("c", np.arange(672).reshape(1, 6, 7, 16) % 99, "int8"),
    }[piece]()
    made = _depthwise(g, _slice(g, x, 8))
    wide = g.add_op("CAST", [x], out_dtype="int32")
    joined = g.add_op("CONCAT", [other, made], {"axis": 3})
    cast = g.add_op("CAST", [joined], out_dtype="int32")
    shift = g.add_constant("shift", [0], "int8")
    g.outputs = [rescale(g, g.add_op("MUL", [wide, cast, shift]), 2.0**-8)]
    for config in CONFIGS:
        assert assert_compiles_exactly(g, preset(config), random_inputs(g)) > 0

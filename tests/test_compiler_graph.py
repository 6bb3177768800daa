"""The graph IR: verification, inference and text; the passes over it."""

from typing import Any

import numpy as np
import pytest
from compiler_graphs import conv, random_inputs, rescale, residual_net, zero_point

from spec import preset
from sw.compiler.errors import GraphError
from sw.compiler.passes import PASSES, run_passes
from sw.compiler.tosa.graph import Graph, Op, Tensor
from sw.compiler.tosa.interpreter import run_graph


def _conv_graph(**changes: Any) -> Graph:
    g = Graph()
    x = g.add_input("x", (1, 8, 8, 3))
    weight = g.add_constant("w", np.ones(changes.pop("weight", (4, 3, 3, 3))), "int8")
    bias = g.add_constant("b", np.zeros(changes.pop("bias", 4)), "int32")
    operands = [x, weight, bias, zero_point(g, 0), zero_point(g, 0)]
    g.outputs = [g.add_op("CONV2D", operands, changes, name="conv", source="model.py:7")]
    return g


def test_convolution_infers_shape_and_prints() -> None:
    g = _conv_graph(pad=[1, 0, 2, 1], stride=[1, 2])
    g.verify()
    assert g.tensors["conv"].shape == (1, 7, 5, 4)
    text = str(g)
    assert "%conv: int32[1,7,5,4] = CONV2D(%x, %w, %b, %zp, %zp_2)" in text
    assert "pad=[1,0,2,1]" in text
    assert "# model.py:7" in text


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"stride": [2, 2]}, "height: 8 - 1 + padding 0 - 2 must be a multiple >= 0 of 2"),
        ({"weight": (4, 3, 3, 5)}, "has 5 input channels, input has 3"),
        ({"bias": 3}, "bias [3] must be [4] or [1]"),
        ({"pad": [1, 1]}, "pad=(1, 1): must be 4 integers of at least 0"),
        ({"dilation": [0, 1]}, "dilation=(0, 1): must be 2 integers of at least 1"),
        ({"acc_type": "int48"}, "acc_type=int48: must be int32"),
        ({"strides": [1, 1]}, "CONV2D has no attribute 'strides'"),
    ],
)
def test_illegal_convolutions_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(GraphError) as caught:
        _conv_graph(**changes)
    assert message in str(caught.value)
    assert "conv: " in str(caught.value)
    assert "model.py:7" in str(caught.value)


def test_unknown_operator_names_the_known_ones() -> None:
    g = Graph()
    x = g.add_input("x", (2, 2))
    with pytest.raises(GraphError, match=r"fft: unknown operator FFT2D(.|\n)*CONV2D, MATMUL"):
        g.add_op("FFT2D", [x], name="fft", source="net.py:3")


def test_constants_are_range_checked() -> None:
    with pytest.raises(GraphError, match=r"values 0…300 do not fit in int8"):
        Graph().add_constant("c", [0, 300], "int8")


def test_verify_finds_reads_before_writes_and_wrong_declarations() -> None:
    g = residual_net()
    broken = g.copy()
    broken.ops.reverse()
    with pytest.raises(GraphError, match="before it is written"):
        broken.verify()
    broken = g.copy()
    name = broken.ops[0].outputs[0]
    broken.tensors[name] = Tensor(name=name, shape=(1, 2), dtype="int32")
    with pytest.raises(GraphError, match=r"CONV2D gives int32\[1, 16, 16, 24\]"):
        broken.verify()
    broken = g.copy()
    broken.outputs = []
    with pytest.raises(GraphError, match="has no outputs"):
        broken.verify()
    broken = g.copy()
    broken.ops.append(Op(kind="IDENTITY", name="again", inputs=["x"], outputs=["x"]))
    with pytest.raises(GraphError, match="again: tensor 'x' is written twice"):
        broken.verify()


def _pad_graph(value: int) -> Graph:
    g = Graph()
    x = g.add_input("x", (1, 5, 5, 2))
    pads = g.add_constant("pads", [0, 0, 1, 2, 0, 1, 0, 0], "shape")
    p = g.add_op("PAD", [x, pads, g.add_constant("value", [value], "int8")])
    # Of fewer channels several pixels would be computed as one.
    g.outputs = [conv(g, p, 16, 3)]
    return g


def test_pad_with_the_zero_point_becomes_padding() -> None:
    after = run_passes(_pad_graph(3), preset("default"))
    assert [op.kind for op in after.ops] == ["CONV2D", "RESCALE"]
    assert after.ops[0].attributes["pad"] == (1, 2, 0, 1)


def test_pad_with_another_value_stays() -> None:
    after = run_passes(_pad_graph(4), preset("default"))
    assert [op.kind for op in after.ops] == ["PAD", "CONV2D", "RESCALE"]


def test_constants_are_folded_and_dead_code_goes() -> None:
    g = Graph()
    x = g.add_input("x", (1, 6))
    c = g.add_constant("c", np.arange(6).reshape(6, 1), "int8")
    t = g.add_op("TRANSPOSE", [c], {"perms": (1, 0)})
    wide = rescale(g, t, 4.0, 0, "int32")
    g.add_op("IDENTITY", [x], name="dead")
    total = g.add_op("ADD", [rescale(g, x, 2.0, 0, "int32"), wide])
    g.outputs = [rescale(g, total, 0.25)]
    after = run_passes(g, preset("default"))
    assert [op.kind for op in after.ops] == ["RESCALE", "ADD", "RESCALE"]
    assert after.tensors[wide].data is not None
    assert "c" not in after.tensors


def test_identities_go_unless_they_are_outputs() -> None:
    g = Graph()
    x = g.add_input("x", (1, 4, 4, 2))
    y = g.add_op("IDENTITY", [x])
    y = g.add_op("CLAMP", [y], {"min_val": -128, "max_val": 127})
    y = g.add_op("RESHAPE", [y, g.add_constant("shape", [1, 4, 4, 2], "shape")])
    g.outputs = [g.add_op("MAX_POOL2D", [y], {"kernel": (2, 2), "stride": (2, 2)})]
    g.outputs.append(g.add_op("IDENTITY", [x]))
    assert [op.kind for op in run_passes(g, preset("default")).ops] == ["MAX_POOL2D", "IDENTITY"]


@pytest.mark.parametrize("rewrite", PASSES, ids=lambda p: p.__name__)
@pytest.mark.parametrize("build", [residual_net, lambda: _pad_graph(3)], ids=["net", "pad"])
def test_each_pass_keeps_the_meaning_and_leaves_its_argument_alone(
    build: Any, rewrite: Any
) -> None:
    g = build()
    before = str(g)
    inputs = random_inputs(g)
    want = run_graph(g, inputs)
    changed = g.copy()
    rewrite(changed)
    changed.verify()
    got = run_graph(changed, inputs)
    for name, array in want.items():
        np.testing.assert_array_equal(got[name], array)
    assert str(g) == before

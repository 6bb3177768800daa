"""ONNX Runtime's own operators: what ONNX Runtime computes, the modules compute."""

import numpy as np
import onnxruntime as ort
import pytest
import torch
from onnx import TensorProto as Types
from onnx_models import array, model, value

from sw.frontends.onnx import OnnxError, load_onnx
from sw.frontends.onnx.microsoft.rewriting import RULES

RNG = np.random.default_rng(7)
_START = RNG.bit_generator.state
DOMAIN = {"domain": "com.microsoft"}


@pytest.fixture(autouse=True)
def same_numbers():
    """Each test draws the same numbers, whichever ran before it."""
    RNG.bit_generator.state = _START


def node(op, inputs, outputs, **attributes):
    return (op, inputs, outputs, {**DOMAIN, **attributes})


def proto(nodes, inputs, arrays=(), outputs=("y",), kinds=None, opset=17):
    """A model with an input for each (name, shape, type)."""
    values = [value(name, shape, kind) for name, shape, kind in inputs]
    results = [value(name, None, (kinds or {}).get(name, Types.FLOAT)) for name in outputs]
    return model(nodes, values, results, arrays, opset=opset, domains={"com.microsoft": 1})


def given(inputs):
    """Random values of the inputs."""
    made = {}
    for name, shape, kind in inputs:
        if kind == Types.FLOAT:
            made[name] = RNG.normal(size=shape).astype(np.float32)
        elif kind == Types.INT8:
            made[name] = RNG.integers(-128, 128, shape).astype(np.int8)
        elif kind == Types.BOOL:
            made[name] = RNG.integers(0, 2, shape).astype(bool)
        elif kind == Types.UINT8:
            made[name] = RNG.integers(0, 256, shape).astype(np.uint8)
        else:
            made[name] = RNG.integers(0, 2, shape).astype(np.int32)
    return made


def both(made, feeds):
    """(what the module computes, what ONNX Runtime does), of every output."""
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = ort.InferenceSession(made.SerializeToString(), options)
    exact = session.run(None, feeds)
    loaded = load_onnx(made)
    found = loaded.module(*[torch.from_numpy(feeds[name]) for name in loaded.inputs])
    found = found if isinstance(found, tuple) else (found,)
    return [t.numpy() for t in found], exact


F, I8, U8, I32 = Types.FLOAT, Types.INT8, Types.UINT8, Types.INT32
X = ("x", (2, 5, 8), F)


def floats(*shape, scale=1.0):
    return (RNG.normal(size=shape) * scale).astype(np.float32)


def conv(activation, *parameters, added=False):
    inputs = [("x", (1, 3, 6, 6), F), *([("z", (1, 4, 6, 6), F)] if added else [])]
    names = ["x", "w", "b", *(["z"] if added else [])]
    attributes = {"activation": activation} if activation else {}
    if parameters:
        attributes["activation_params"] = [float(p) for p in parameters]
    return proto(
        [node("FusedConv", names, ["y"], pads=[1, 1, 1, 1], **attributes)],
        inputs,
        [array("w", floats(4, 3, 3, 3)), array("b", floats(4))],
    ), inputs


def attention(op, inputs, arrays, names, **attributes):
    return proto([node(op, names, ["y"], **attributes)], inputs, arrays), inputs


def few_bits(bits, zeros):
    k, n, size = 40, 6, 16
    blocks, length = 3, 16 * bits // 8
    arrays = [
        array("b", RNG.integers(0, 256, (n, blocks, length)), np.uint8),
        array("s", np.abs(floats(n, blocks)) + 0.1),
    ]
    names = ["x", "b", "s"]
    if zeros:
        arrays.append(array("z", RNG.integers(0, 256, (n, -(-blocks * bits // 8))), np.uint8))
        names.append("z")
    inputs = [("x", (3, k), F)]
    made = node("MatMulNBits", names, ["y"], K=k, N=n, bits=bits, block_size=size)
    return proto([made], inputs, arrays), inputs


def one(op, inputs=(X,), arrays=(), outputs=("y",), **attributes):
    names = [name for name, *_ in inputs] + [a.name for a in arrays]
    wanted = [name for name in outputs if name in ("y", "total")]
    return proto([node(op, names, list(outputs), **attributes)], inputs, arrays, wanted), inputs


CASES = {
    "FusedConv": lambda: conv(""),
    "FusedConv relu": lambda: conv("Relu", added=True),
    "FusedConv leaky": lambda: conv("LeakyRelu", 0.2),
    "FusedConv clip": lambda: conv("Clip", -0.5, 0.7),
    "FusedConv hardsigmoid": lambda: conv("HardSigmoid", 0.3, 0.4),
    "FusedGemm": lambda: one(
        "FusedGemm", [("x", (3, 8), F)], [array("w", floats(4, 8)), array("c", floats(4))],
        transB=1, alpha=0.5, activation="LeakyRelu", activation_alpha=0.1,
    ),
    "FusedMatMul": lambda: one(
        "FusedMatMul", [X, ("b", (2, 5, 7), F)], transA=1, alpha=0.25
    ),
    "FusedMatMul b": lambda: one("FusedMatMul", [X, ("b", (2, 6, 8), F)], transB=1),
    "MatMulNBits 4": lambda: few_bits(4, zeros=False),
    "MatMulNBits 4 zeros": lambda: few_bits(4, zeros=True),
    "MatMulNBits 8": lambda: few_bits(8, zeros=True),
    "Gelu": lambda: one("Gelu"),
    "BiasGelu": lambda: one("BiasGelu", arrays=[array("b", floats(8))]),
    "FastGelu": lambda: one("FastGelu"),
    "FastGelu bias": lambda: one("FastGelu", arrays=[array("b", floats(8))]),
    "QuickGelu": lambda: one("QuickGelu", alpha=1.5),
    "SkipLayerNormalization": lambda: one(
        "SkipLayerNormalization", [X, ("s", (2, 5, 8), F)],
        [array("g", floats(8)), array("b", floats(8)), array("c", floats(8))],
        outputs=("y", "mean", "deviation", "total"), epsilon=1e-5,
    ),
    "SkipSimplifiedLayerNormalization": lambda: one(
        "SkipSimplifiedLayerNormalization", [X, ("s", (2, 5, 8), F)], [array("g", floats(8))],
        outputs=("y", "mean", "deviation", "total"), epsilon=1e-5,
    ),
    "SimplifiedLayerNormalization": lambda: one(
        "SimplifiedLayerNormalization", [X], [array("g", floats(8))], domain="", axis=-1,
        epsilon=1e-5,
    ),
    "Attention": lambda: attention(
        "Attention", [X], [array("w", floats(8, 24, scale=0.3)), array("b", floats(24))],
        ["x", "w", "b"], num_heads=2,
    ),
    "Attention mask": lambda: attention(
        "Attention", [X, ("m", (2, 5), I32)],
        [array("w", floats(8, 24, scale=0.3)), array("b", floats(24))],
        ["x", "w", "b", "m"], num_heads=4,
    ),
    "Attention causal": lambda: attention(
        "Attention", [X], [array("w", floats(8, 24, scale=0.3)), array("b", floats(24))],
        ["x", "w", "b"], num_heads=2, unidirectional=1, scale=0.2,
    ),
    "Attention sizes": lambda: attention(
        "Attention", [X, ("a", (1, 2, 5, 5), F)],
        [array("w", floats(8, 20, scale=0.3)), array("b", floats(20))],
        ["x", "w", "b", "", "", "a"], num_heads=2, qkv_hidden_sizes=[8, 8, 4],
    ),
    "MultiHeadAttention": lambda: attention(
        "MultiHeadAttention", [X, ("k", (2, 7, 8), F), ("v", (2, 7, 8), F)],
        [array("b", floats(24))], ["x", "k", "v", "b"], num_heads=2,
    ),
    "MultiHeadAttention mask": lambda: attention(
        "MultiHeadAttention", [X, ("k", (2, 7, 8), F), ("v", (2, 7, 12), F), ("m", (2, 7), I32)],
        [], ["x", "k", "v", "", "m"], num_heads=4,
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_an_operator_computes_what_onnx_runtime_does(case):
    made, inputs = CASES[case]()
    found, exact = both(made, given(inputs))
    assert len(found) == len(exact)
    for ours, theirs in zip(found, exact, strict=True):
        assert ours.shape == theirs.shape
        assert np.abs(ours - theirs).max() < 2e-5 * max(1.0, np.abs(theirs).max())


def test_embeddings_and_attention_share_the_mask():
    """Of texts that are shorter than the rest: what is behind them does not count."""
    inputs = [("ids", (2, 6), I32), ("kinds", (2, 6), I32), ("m", (2, 6), I32)]
    arrays = [
        array("words", floats(9, 8)), array("places", floats(6, 8)), array("types", floats(2, 8)),
        array("g", floats(8)), array("b", floats(8)),
        array("w", floats(8, 24, scale=0.3)), array("c", floats(24)),
    ]  # fmt: skip
    names = ["ids", "kinds", "words", "places", "types", "g", "b", "m"]
    nodes = [
        node("EmbedLayerNormalization", names, ["e", "mask"], epsilon=1e-5),
        node("Attention", ["e", "w", "c", "mask"], ["y"], num_heads=2),
    ]
    made = proto(nodes, inputs, arrays)
    feeds = given(inputs)
    feeds["m"] = np.array([[1] * 6, [1] * 4 + [0] * 2], np.int32)
    (found,), (exact,) = both(made, feeds)
    assert np.abs(found - exact)[0].max() < 1e-5 and np.abs(found - exact)[1, :4].max() < 1e-5


def test_a_product_of_integers_gives_floats():
    """MatMulIntegerToFloat of integers that come from outside."""
    arrays = [*grids(U8, 1), array("w", RNG.integers(-127, 128, (8, 4)), np.int8)]
    arrays += [array("sw", np.float32(0.013)), array("zw", 3, np.int8), array("c", floats(4))]
    inputs = [("a", (3, 8), U8)]
    names = ["a", "w", "s0", "sw", "z0", "zw", "c"]
    made = proto([node("MatMulIntegerToFloat", names, ["y"])], inputs, arrays)
    (found,), (exact,) = both(made, given(inputs))
    assert np.abs(found - exact).max() < 1e-4


# Integers -----------------------------------------------------------------------------------------


def grids(kind, count):
    """Scale and zero point of `count` tensors, as arrays."""
    dtype = np.int8 if kind == I8 else np.uint8
    made, low = [], -20 if kind == I8 else 100
    for i in range(count):
        made.append(array(f"s{i}", np.float32(0.0213 + 0.0117 * i)))
        made.append(array(f"z{i}", low + 7 * i, dtype))
    return made


def two(op, kind):
    inputs = [("a", (2, 3, 4), kind), ("b", (2, 3, 4), kind)]
    names = ["a", "s0", "z0", "b", "s1", "z1", "s2", "z2"]
    made = proto([node(op, names, ["y"])], inputs, grids(kind, 3), kinds={"y": kind})
    return made, inputs


def of_one(op, kind, shape=(2, 4, 6, 6), **attributes):
    inputs = [("x", shape, kind)]
    names = ["x", "s0", "z0", "s1", "z1"]
    made = proto([node(op, names, ["y"], **attributes)], inputs, grids(kind, 2), kinds={"y": kind})
    return made, inputs


def gemm(kind, *, quantized):
    inputs = [("a", (3, 8), kind)]
    # ONNX Runtime adds two products of uint8 and int8 in 16 bits where a processor has no VNNI.
    arrays = [*grids(kind, 1), array("w", RNG.integers(-63, 64, (4, 8)), np.int8)]
    arrays += [array("sw", np.abs(floats(4)) * 0.01 + 0.001), array("zw", [0] * 4, np.int8)]
    arrays += [array("c", RNG.integers(-500, 500, 4), np.int32)]
    names = ["a", "s0", "z0", "w", "sw", "zw", "c"]
    if quantized:
        arrays += [array("sy", np.float32(0.1)), array("zy", 3 if kind == I8 else 120,
                   np.int8 if kind == I8 else np.uint8)]  # fmt: skip
        names += ["sy", "zy"]
    kinds = {"y": kind if quantized else F}
    return proto([node("QGemm", names, ["y"], transB=1)], inputs, arrays, kinds=kinds), inputs


def concat(kind):
    inputs = [("a", (2, 3, 4), kind), ("b", (2, 3, 4), kind)]
    names = ["s2", "z2", "a", "s0", "z0", "b", "s1", "z1"]
    nodes = [node("QLinearConcat", names, ["y"], axis=1)]
    return proto(nodes, inputs, grids(kind, 3), kinds={"y": kind}), inputs


def where(kind):
    inputs = [("c", (2, 3, 4), Types.BOOL), ("a", (2, 3, 4), kind), ("b", (2, 3, 4), kind)]
    names = ["c", "a", "s0", "z0", "b", "s1", "z1", "s2", "z2"]
    nodes = [node("QLinearWhere", names, ["y"])]
    return proto(nodes, inputs, grids(kind, 3), kinds={"y": kind}), inputs


def quantize(kind):
    inputs = [("x", (3, 5), F)]
    nodes = [node("QuantizeLinear", ["x", "s0", "z0"], ["y"])]
    return proto(nodes, inputs, grids(kind, 1), kinds={"y": kind}), inputs


def dequantize(kind):
    inputs = [("x", (3, 5), kind)]
    return proto(
        [node("DequantizeLinear", ["x", "s0", "z0"], ["y"])], inputs, grids(kind, 1)
    ), inputs


INTEGER = {
    "QLinearAdd": lambda kind: two("QLinearAdd", kind),
    "QLinearMul": lambda kind: two("QLinearMul", kind),
    "QLinearSigmoid": lambda kind: of_one("QLinearSigmoid", kind),
    "QLinearLeakyRelu": lambda kind: of_one("QLinearLeakyRelu", kind, alpha=0.2),
    "QLinearAveragePool": lambda kind: of_one(
        "QLinearAveragePool", kind, kernel_shape=[2, 2], strides=[2, 2]
    ),
    "QLinearGlobalAveragePool": lambda kind: of_one("QLinearGlobalAveragePool", kind),
    "QLinearSoftmax": lambda kind: of_one("QLinearSoftmax", kind, (3, 9), axis=-1, opset=13),
    "QLinearConcat": concat,
    "QGemm": lambda kind: gemm(kind, quantized=True),
    "QLinearWhere": where,
    "QuantizeLinear": quantize,
    "DequantizeLinear": dequantize,
    "QGemm floats": lambda kind: gemm(kind, quantized=False),
}


@pytest.mark.parametrize("kind", [I8, U8], ids=["int8", "uint8"])
@pytest.mark.parametrize("case", INTEGER)
def test_an_operator_of_integers_is_within_a_step(case, kind):
    made, inputs = INTEGER[case](kind)
    (found,), (exact,) = both(made, given(inputs))
    assert found.dtype == exact.dtype
    apart = np.abs(found.astype(np.float64) - exact.astype(np.float64))
    assert apart.max() <= (1e-4 if exact.dtype == np.float32 else 1)
    assert (apart > 0).mean() < 0.1 or exact.dtype == np.float32


# Refusals -----------------------------------------------------------------------------------------


def test_every_rule_is_compared():
    """The others are in the files of test_frontends_onnx_microsoft_files.py, and above."""
    others = {"EmbedLayerNormalization", "QEmbedLayerNormalization", "QAttention"}
    others |= {"DynamicQuantizeMatMul", "MatMulIntegerToFloat"}
    assert set(RULES) == {case.split()[0] for case in (*CASES, *INTEGER)} | others


def test_masks_of_other_dimensions_are_refused():
    """Lengths of texts, which ONNX Runtime takes too: a mask of zeros and ones is not meant."""
    arrays = [array("w", floats(8, 24)), array("b", floats(24))]
    inputs = [X, ("m", (2,), I32)]
    made, _ = attention("Attention", inputs, arrays, ["x", "w", "b", "m"], num_heads=2)
    with pytest.raises(OnnxError, match="number of subscripts in the equation"):
        load_onnx(made)


def test_embeddings_may_lack_kinds_of_tokens():
    """As those of DistilBERT do."""
    inputs = [("ids", (2, 6), I32)]
    arrays = [array("words", floats(9, 8)), array("places", floats(6, 8))]
    arrays += [array("g", floats(8)), array("b", floats(8))]
    names = ["ids", "", "words", "places", "", "g", "b"]
    made = proto([node("EmbedLayerNormalization", names, ["y", "mask"])], inputs, arrays)
    (found,), (exact,) = both(made, given(inputs))
    assert np.abs(found - exact).max() < 1e-4


def test_lengths_that_are_an_output_are_refused():
    inputs = [("ids", (2, 6), I32), ("m", (2, 6), I32)]
    arrays = [array("words", floats(9, 8)), array("places", floats(6, 8))]
    arrays += [array("g", floats(8)), array("b", floats(8))]
    names = ["ids", "", "words", "places", "", "g", "b", "m"]
    nodes = [node("EmbedLayerNormalization", names, ["y", "mask"])]
    made = proto(nodes, inputs, arrays, outputs=("y", "mask"), kinds={"mask": I32})
    with pytest.raises(OnnxError, match="lengths of texts"):
        load_onnx(made)


@pytest.mark.parametrize(
    ("made", "reason"),
    [
        (lambda: one("FusedConv", activation="Softmax"), "activation 'Softmax' with 0 parameters"),
        (lambda: one("Gelu", approximate="tanh"), "attribute approximate ('tanh') is not supp"),
        (lambda: one("GroupQueryAttention"), "operator com.microsoft::GroupQueryAttention is not"),
        (lambda: one("Attention", num_heads=2), "1 operands, of 2 to 6"),
    ],
)
def test_what_cannot_be_written_down_is_refused_by_name(made, reason):
    proto, _ = made()
    proto.graph.node[0].name = "it"
    proto.graph.node[0].input.extend(["x"] * (proto.graph.node[0].op_type == "FusedConv"))
    with pytest.raises(OnnxError) as error:
        load_onnx(proto)
    assert reason in str(error.value)
    assert f"node it (com.microsoft::{proto.graph.node[0].op_type})" in str(error.value)

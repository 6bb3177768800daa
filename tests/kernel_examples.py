"""The kernels of examples/kernels, their inputs, and the compiler's graphs of the same work."""

import importlib.util
import math
from pathlib import Path

import numpy as np

from spec.numerics import scale_to_multiplier
from spec.sequences import attention_weights
from spec.sequences.rows import shift_for
from sw.compiler.tosa.graph import Graph

FOLDER = Path(__file__).resolve().parent.parent / "examples" / "kernels"


def example(name):
    """The kernel of that name."""
    found = importlib.util.spec_from_file_location(f"example_{name}", FOLDER / f"{name}.py")
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return getattr(module, name)


def random_int8(rng, *shape):
    return rng.integers(-128, 128, shape, dtype=np.int8)


def requantized(g, x, scales, zero_point, name, low=None):
    """RESCALE of int32 to int8, and a CLAMP."""
    pairs = [scale_to_multiplier(s) for s in scales]
    operands = [
        x,
        g.add_constant("multiplier", [m for m, _ in pairs], "int32"),
        g.add_constant("shift", [s for _, s in pairs], "int8"),
        g.add_constant("in_zero", [0], "int32"),
        g.add_constant("out_zero", [zero_point], "int8"),
    ]
    per_channel = {"per_channel": len(pairs) > 1}
    y = g.add_op("RESCALE", operands, per_channel, name=name, out_dtype="int8")
    if low is not None:
        y = g.add_op("CLAMP", [y], {"min_val": low, "max_val": 127}, name=f"{name}_relu")
    return y


def zero(g, value=0):
    return g.add_constant("zero", [value], "int8")


# Matrix product -----------------------------------------------------------------------------------


def matmul_graph(m, k, n, scale):
    g = Graph(name="matmul")
    a, b = g.add_input("a", (1, m, k)), g.add_input("b", (1, k, n))
    sums = g.add_op("MATMUL", [a, b, zero(g), zero(g)], name="product")
    g.outputs = [requantized(g, sums, [scale], 0, "out")]
    return g


# Depthwise and pointwise convolution --------------------------------------------------------------


def separable_data(h, w, c, n, seed=0):
    """(tensors by name, values by name) of the kernel."""
    rng = np.random.default_rng(seed)
    tensors = {
        "x": random_int8(rng, h, w, c),
        "dw": random_int8(rng, 3, 3, c),
        "pw": random_int8(rng, c, n),
    }
    values = {
        "dw_scale": (rng.uniform(1, 3, c) / 3e3).tolist(),
        "dw_bias": rng.integers(-2000, 2000, c).tolist(),
        "pw_scale": (rng.uniform(1, 3, n) / 2e4 / math.sqrt(c / 16)).tolist(),
        "pw_bias": rng.integers(-2000, 2000, n).tolist(),
        "x_zero": 3,
        "mid_zero": -5,
        "out_zero": 2,
    }
    return tensors, values


def separable_graph(tensors, values):
    g = Graph(name="separable")
    x = g.add_input("x", (1, *tensors["x"].shape))
    taps = g.add_constant("dw", tensors["dw"][..., None], "int8")
    bias = g.add_constant("bias", values["dw_bias"], "int32")
    one = {"stride": (1, 1), "dilation": (1, 1)}
    operands = [x, taps, bias, zero(g, values["x_zero"]), zero(g)]
    sums = g.add_op("DEPTHWISE_CONV2D", operands, {"pad": (1, 1, 1, 1), **one}, name="depthwise")
    mid = values["mid_zero"]
    hidden = requantized(g, sums, values["dw_scale"], mid, "hidden", low=mid)
    weights = g.add_constant("pw", tensors["pw"].T[:, None, None, :], "int8")
    bias = g.add_constant("bias", values["pw_bias"], "int32")
    operands = [hidden, weights, bias, zero(g, mid), zero(g)]
    sums = g.add_op("CONV2D", operands, {"pad": (0, 0, 0, 0), **one}, name="pointwise")
    g.outputs = [requantized(g, sums, values["pw_scale"], values["out_zero"], "out")]
    return g


# Attention ----------------------------------------------------------------------------------------

SCALE = 0.02
"""Of q, k, v and the result."""


def attention_data(heads, rows, size, seed=0):
    rng = np.random.default_rng(seed)
    made = (rng.normal(0, 50, (heads, rows, size)).round() for _ in "qkv")
    return {name: np.clip(x, -128, 127).astype(np.int8) for name, x in zip("qkv", made)}


def score_step(size):
    return SCALE * SCALE / math.sqrt(size)


def attention_graph(heads, rows, size):
    """What the importer makes of scaled_dot_product_attention."""
    g = Graph(name="attention")
    q, k, v = (g.add_input(name, (heads, rows, size)) for name in "qkv")
    keys = g.add_op("TRANSPOSE", [k], {"perms": (0, 2, 1)}, name="keys")
    scores = g.add_op("MATMUL", [q, keys, zero(g), zero(g)], name="scores")
    sequence, factor = attention_weights((heads, rows, rows), score_step(size))
    names = {sequence.inputs[0]: scores}
    for name, data in sequence.constants.items():
        names[name] = g.add_constant(f"constant_{name}", data, sequence.dtypes[name])
    for step in sequence.steps:
        operands = [names[name] for name in step.inputs]
        names[step.output] = g.add_op(
            step.kind, operands, step.attributes, name=step.output, out_dtype=step.dtype
        )
    weights, inverse = (names[name] for name in sequence.outputs)
    out = g.add_op("MATMUL", [weights, v, zero(g, -128), zero(g)], name="values")
    shift = shift_for(1.01 * 128 / factor)
    out = g.add_op("MUL", [out, inverse, g.add_constant("by", [shift], "int8")], name="norm")
    g.outputs = [requantized(g, out, [factor * 2.0**shift], 0, "out")]
    return g


def exact_attention(data):
    """In float64, in steps of the result."""
    q, k, v = (data[name].astype(np.float64) * SCALE for name in "qkv")
    scores = q @ k.transpose(0, 2, 1) / math.sqrt(q.shape[-1])
    e = np.exp(scores - scores.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True) @ v / SCALE

"""Graphs and checks that the compiler's tests share."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from golden_model import Machine
from spec.config import NpuConfig
from spec.numerics import scale_to_multiplier
from sw.compiler import compile_graph
from sw.compiler.tosa.graph import Graph
from sw.compiler.tosa.interpreter import run_graph


def zero_point(g: Graph, value: int, dtype: str = "int8") -> str:
    """A zero-point operand."""
    return g.add_constant("zp", [value], dtype)


def rescale(
    g: Graph,
    x: str,
    scales: float | Sequence[float],
    zp: int = 0,
    dtype: str = "int8",
    izp: int = 0,
) -> str:
    """RESCALE by one scale or one per channel."""
    many = [scales] if isinstance(scales, float) else list(scales)
    pairs = [scale_to_multiplier(float(s)) for s in many]
    operands = [
        x,
        g.add_constant("multiplier", [m for m, _ in pairs], "int32"),
        g.add_constant("shift", [s for _, s in pairs], "int8"),
        zero_point(g, izp, g.tensors[x].dtype),
        zero_point(g, zp, dtype),
    ]
    return g.add_op("RESCALE", operands, {"per_channel": len(pairs) > 1}, out_dtype=dtype)


def channels(g: Graph, x: str, start: int, count: int) -> str:
    """SLICE of some channels of an image."""
    n, h, w, _ = g.tensors[x].shape
    rows = [
        g.add_constant(name, values, "shape")
        for name, values in (("start", [0, 0, 0, start]), ("size", [n, h, w, count]))
    ]
    return g.add_op("SLICE", [x, *rows])


def conv(
    g: Graph,
    x: str,
    oc: int,
    k: int,
    *,
    stride: int = 1,
    pad: int = 0,
    seed: int = 0,
    w_zp: int = 0,
) -> str:
    """CONV2D with random weights and RESCALE to int8 (zero point 5)."""
    rng = np.random.default_rng(seed)
    _, h, w, c = g.tensors[x].shape
    weight = g.add_constant("weight", rng.integers(-100, 101, (oc, k, k, c)), "int8")
    bias = g.add_constant("bias", rng.integers(-3000, 3000, oc), "int32")
    ends = [pad - (size - 1 + 2 * pad - (k - 1)) % stride for size in (h, w)]
    attributes = {"pad": (pad, ends[0], pad, ends[1]), "stride": (stride, stride)}
    operands = [x, weight, bias, zero_point(g, 3), zero_point(g, w_zp)]
    acc = g.add_op("CONV2D", operands, attributes)
    return rescale(g, acc, list(rng.uniform(0.5, 1.5, oc) * 35 / (74 * 60 * k * c**0.5)), 5)


def residual_net(size: int = 16) -> Graph:
    """Convolutions with a residual, TABLE, pools, PAD, TRANSPOSE, RESHAPE; three outputs."""
    g = Graph(name="net")
    x = g.add_input("x", (1, size, size, 3))
    a = g.add_op("CLAMP", [conv(g, x, 24, 3, pad=1, seed=1)], {"min_val": 5, "max_val": 100})
    b = conv(g, a, 24, 3, pad=1, seed=2)
    wide = [rescale(g, t, s, 0, "int32", 5) for t, s in ((a, 2.0**18), (b, 2.0**17))]
    s = rescale(g, g.add_op("ADD", wide), 2.0**-18, 2)
    table = g.add_constant("table", np.arange(-128, 128)[::-1], "int8")
    p = g.add_op("TABLE", [s, table])
    p = g.add_op("MAX_POOL2D", [p], {"kernel": (2, 2), "stride": (2, 2)})
    c = conv(g, p, 40, 3, stride=2, pad=1, seed=3)
    t = g.add_op("TRANSPOSE", [c], {"perms": (0, 3, 1, 2)})
    pads = g.add_constant("pads", [0, 0, 0, 0, 1, 2, 3, 0], "shape")
    t = g.add_op("PAD", [t, pads, g.add_constant("pad_const", [7], "int8")])
    _, h, w, channels = g.tensors[c].shape
    q = g.add_op(
        "AVG_POOL2D", [c, zero_point(g, 0), zero_point(g, 0)], {"kernel": (h, w), "stride": (1, 1)}
    )
    q = g.add_op("RESHAPE", [q, g.add_constant("shape", [1, 1, 1, channels], "shape")])
    logits = conv(g, q, 10, 1, seed=4)
    flat = g.add_op("RESHAPE", [logits, g.add_constant("shape", [1, 10], "shape")])
    g.outputs = [flat, t, logits]
    g.verify()
    return g


def depthwise(
    g: Graph,
    x: str,
    kernel: tuple[int, int],
    *,
    stride: tuple[int, int] = (1, 1),
    dilation: tuple[int, int] = (1, 1),
    pad: tuple[int, int, int, int] = (0, 0, 0, 0),
    multiplier: int = 1,
    zps: tuple[int, int] = (3, 0),
    seed: int = 0,
) -> str:
    """DEPTHWISE_CONV2D with random weights and RESCALE to int8 (zero point −7)."""
    rng = np.random.default_rng(seed)
    c = g.tensors[x].shape[3]
    weight = g.add_constant("weight", rng.integers(-127, 128, (*kernel, c, multiplier)), "int8")
    bias = g.add_constant("bias", rng.integers(-3000, 3000, c * multiplier), "int32")
    operands = [x, weight, bias, zero_point(g, zps[0]), zero_point(g, zps[1])]
    attributes = {"pad": pad, "stride": stride, "dilation": dilation}
    acc = g.add_op("DEPTHWISE_CONV2D", operands, attributes)
    scales = list(rng.uniform(0.5, 1.5, c * multiplier) / (160 * (kernel[0] * kernel[1]) ** 0.5))
    return rescale(g, acc, scales if len(scales) > 1 else scales[0], -7)


def inverted_residuals(size: int, channels: int, wide: int, depth: int) -> Graph:
    """`depth` blocks of 1x1, depthwise 3x3, 1x1 with a sum that follows the last convolution."""
    g = Graph(name="blocks")
    x = g.add_input("x", (1, size, size, channels))
    for i in range(depth):
        y = depthwise(g, conv(g, x, wide, 1, seed=3 * i), (3, 3), pad=(1, 1, 1, 1), seed=3 * i + 1)
        y = conv(g, y, channels, 1, seed=3 * i + 2)
        operands = [rescale(g, t, s, 0, "int32", 5) for t, s in ((y, 2.0**19), (x, 0.6 * 2.0**19))]
        x = rescale(g, g.add_op("ADD", operands), 0.7 / 2**19, 5)
    g.outputs = [x]
    g.verify()
    return g


def bottlenecks(samples: int, size: int, middle: int, wide: int, depth: int) -> Graph:
    """Blocks of a narrow 3 x 3 convolution between two of 1 x 1, each with a residual sum."""
    g = Graph(name="bottlenecks")
    x = g.add_input("x", (samples, size, size, wide))
    for i in range(depth):
        y = conv(g, x, middle, 1, seed=3 * i)
        y = conv(g, y, middle, 3, pad=1, seed=3 * i + 1)
        y = conv(g, y, wide, 1, seed=3 * i + 2)
        sides = [rescale(g, t, s, 0, "int32", 5) for t, s in ((x, 2.0**18), (y, 2.0**17))]
        x = rescale(g, g.add_op("ADD", sides), 2.0**-18, 5)
    g.outputs = [x]
    return g


def random_inputs(g: Graph, seed: int = 0) -> dict[str, NDArray[Any]]:
    """Full-range random values for every input."""
    rng = np.random.default_rng(seed)
    out = {}
    for name in g.inputs:
        if g.tensors[name].dtype == "bool":
            out[name] = rng.integers(0, 2, g.tensors[name].shape).astype(np.bool_)
            continue
        info = np.iinfo(g.tensors[name].dtype)
        low, high = (-(1 << 20), 1 << 20) if info.bits == 32 else (info.min, info.max + 1)
        out[name] = rng.integers(low, high, g.tensors[name].shape).astype(info.dtype)
    return out


def assert_compiles_exactly(
    g: Graph,
    config: NpuConfig,
    inputs: Mapping[str, NDArray[Any]],
    *,
    on_chip: bool = True,
    fold: bool = True,
) -> int:
    """Compile, run on the golden model with its checks and without, compare with the interpreter.

    Returns the number of elements compared.
    """
    image = compile_graph(g, config, on_chip=on_chip, fold=fold)
    machine = Machine(config)
    got = machine.run(image, dict(inputs), check=True)
    quick = machine.run(image, dict(inputs), check=False)
    want = run_graph(g, inputs)
    assert set(got) == set(want) == set(g.outputs)
    count = 0
    for name in g.outputs:
        np.testing.assert_array_equal(got[name], want[name], err_msg=f"{g.name}: {name}")
        np.testing.assert_array_equal(quick[name], want[name], err_msg=f"{g.name}: {name}, quick")
        count += want[name].size
    assert count > 0
    return count

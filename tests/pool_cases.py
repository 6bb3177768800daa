"""Random pools, alone or behind a convolution, that the tests of compiler and RTL share."""

import numpy as np
from compiler_graphs import conv, zero_point

from sw.compiler.tosa.graph import Graph

KERNELS = (1, 2, 3, 4, 5, 7, 8)


def max_pool(
    shape: tuple[int, int, int, int],
    kernel: tuple[int, int],
    stride: tuple[int, int],
    pad: tuple[int, int, int, int],
    dtype: str = "int8",
) -> Graph:
    """One MAX_POOL2D."""
    g = Graph(name="pool")
    x = g.add_input("x", shape, dtype)
    attributes = {"kernel": kernel, "stride": stride, "pad": pad}
    g.outputs = [g.add_op("MAX_POOL2D", [x], attributes, name="pool")]
    return g


def random_axis(rng: np.random.Generator, outs: int = 9) -> tuple[int, int, int, int, int]:
    """Size, kernel, stride and padding on both sides of fewer than `outs` windows that fit."""
    kernel, stride = int(rng.choice(KERNELS)), int(rng.integers(1, 4))
    before, after = (int(rng.integers(0, kernel)) for _ in range(2))
    size = (int(rng.integers(1, outs)) - 1) * stride + kernel - before - after
    return (size, kernel, stride, before, after) if size > 0 else random_axis(rng, outs)


def random_pool(rng: np.random.Generator, outs: int = 9) -> Graph:
    """A maximum or an average of int8 or int16, whose input comes from memory or from a product."""
    (h, ky, sy, top, bottom), (w, kx, sx, left, right) = random_axis(rng, outs), random_axis(rng)
    dtype, behind = ("int16", False) if rng.random() < 0.3 else ("int8", rng.random() < 0.4)
    shape = (int(rng.integers(1, 3)), h, w, int(rng.integers(1, 40)))
    attributes = {"kernel": (ky, kx), "stride": (sy, sx), "pad": (top, bottom, left, right)}
    g = Graph(name="pool")
    x = g.add_input("x", shape, dtype)
    if behind:
        x = conv(g, x, int(rng.integers(1, 40)), 1, seed=int(rng.integers(100)))
    average = rng.random() < 0.4
    points = [int(n) * (dtype == "int8") for n in rng.integers(-20, 21, 2)]
    operands = [x, *(zero_point(g, n, dtype) for n in points)] if average else [x]
    kind = "AVG_POOL2D" if average else "MAX_POOL2D"
    g.outputs = [g.add_op(kind, operands, attributes, name="pool")]
    return g

"""Small TOSA graphs, at least one for every kernel family, whose compilation is kept as text."""

from collections.abc import Callable, Mapping

import numpy as np
from attention_graphs import attention
from chain_graphs import norm, scores
from compiler_graphs import inverted_residuals, residual_net
from epilogue_graphs import by_row

from sw.compiler.tosa.graph import Graph
from sw.models.kernels import kernel


def moves() -> Graph:
    """PAD, TRANSPOSE, REVERSE, TILE and CONCAT."""
    g = Graph(name="moves")
    x = g.add_input("x", (1, 5, 6, 7))
    pads = g.add_constant("pads", [0, 0, 1, 2, 0, 3, 0, 0], "shape")
    padded = g.add_op("PAD", [x, pads, g.add_constant("fill", [3], "int8")])
    turned = g.add_op("TRANSPOSE", [padded], {"perms": (0, 3, 1, 2)})
    back = g.add_op("REVERSE", [turned], {"axis": 2})
    tiled = g.add_op("TILE", [back, g.add_constant("times", [1, 1, 1, 2], "shape")])
    joined = g.add_op("CONCAT", [back, turned], {"axis": 1})
    g.outputs = [tiled, joined]
    g.verify()
    return g


def gathers() -> Graph:
    """GATHER of rows and RESIZE of an image."""
    g = Graph(name="gathers")
    values = g.add_input("values", (2, 9, 20), "int16")
    rows = g.add_input("rows", (2, 5), "int32")
    image = g.add_input("image", (1, 4, 6, 8))
    sizes = [
        g.add_constant(name, data, "shape")
        for name, data in (("scale", [4, 2, 4, 2]), ("offset", [-1, -1]), ("border", [1, 1]))
    ]
    resized = g.add_op("RESIZE", [image, *sizes], {"mode": "NEAREST"})
    g.outputs = [g.add_op("GATHER", [values, rows]), resized]
    g.verify()
    return g


def transposed() -> Graph:
    """TRANSPOSE_CONV2D with stride 2, and ARGMAX and a sum of the result."""
    g, rng = Graph(name="transposed"), np.random.default_rng(5)
    x = g.add_input("x", (1, 4, 5, 6))
    operands = [
        x,
        g.add_constant("w", rng.integers(-90, 90, (9, 3, 3, 6)), "int8"),
        g.add_constant("bias", rng.integers(-900, 900, 9), "int32"),
        g.add_constant("zp", [2], "int8"),
        g.add_constant("zp", [0], "int8"),
    ]
    y = g.add_op("TRANSPOSE_CONV2D", operands, {"out_pad": (0, 0, 0, 0), "stride": (2, 2)})
    g.outputs = [y, g.add_op("REDUCE_SUM", [y], {"axis": 1})]
    g.verify()
    return g


def _kernel(name: str, shape: Mapping[str, int]) -> Callable[[], Graph]:
    return lambda: kernel(name, shape, seed=1).graph


GRAPHS: dict[str, Callable[[], Graph]] = {
    "matmul": _kernel("matmul", {"m": 20, "k": 40, "n": 24}),
    "conv2d": _kernel("conv2d", {"h": 9, "w": 9, "c": 3, "oc": 20, "kh": 3, "kw": 3}),
    "depthwise": lambda: inverted_residuals(10, 8, 24, 1),
    "pools": _kernel("avg_pool2d", {"h": 12, "w": 12, "c": 9}),
    "add": _kernel("add", {"h": 6, "w": 6, "c": 20}),
    "network": lambda: residual_net(12),
    "norm": lambda: norm(12, 24),
    "scores": lambda: scores(6, 20, 8, mask=True),
    "attention": lambda: attention(np.random.default_rng(3), 1, 2, 10, 12, 8),
    "by_row": lambda: by_row("matmul", bias=True, reshaped=False),
    "moves": moves,
    "gathers": gathers,
    "transposed": transposed,
}
"""By name: what builds the graph."""

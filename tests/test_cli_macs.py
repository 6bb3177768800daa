"""MACs of graphs: what kernels say is what the graph holds."""

import numpy as np
import pytest

from sw.compiler.tosa.graph import Graph
from sw.compiler.tosa.macs import graph_macs
from sw.models.kernels import kernel


@pytest.mark.parametrize(
    ("name", "shape", "macs"),
    [
        ("matmul", {"m": 3, "k": 17, "n": 5}, 3 * 17 * 5),
        ("fully_connected", {"m": 2, "k": 65, "n": 7}, 2 * 65 * 7),
        ("conv2d", {"h": 8, "w": 9, "c": 3, "oc": 5, "k": 3, "p": 1}, 8 * 9 * 5 * 27),
        ("conv2d", {"h": 8, "w": 8, "c": 4, "oc": 6, "k": 2, "s": 2, "p": 0}, 4 * 4 * 6 * 16),
    ],
)
def test_macs_of_kernels(name, shape, macs):
    work = kernel(name, shape)
    assert work.macs == macs
    assert graph_macs(work.graph) == macs


@pytest.mark.parametrize("name", ["add", "rescale", "max_pool2d"])
def test_operators_without_products_have_no_macs(name):
    assert graph_macs(kernel(name, {"h": 4, "w": 4, "c": 4}).graph) == 0


@pytest.mark.parametrize(
    ("kind", "shapes", "macs"),
    [
        # [n, d, h, w, c], [oc, kd, kh, kw, c]: an output of 2×3×4
        ("CONV3D", [(1, 3, 4, 5, 2), (6, 2, 2, 2, 2)], 2 * 3 * 4 * 6 * (8 * 2)),
        # [n, h, w, c], [oc, kh, kw, c]: every input is multiplied with every tap of every output
        ("TRANSPOSE_CONV2D", [(1, 3, 5, 2), (7, 4, 4, 2)], 3 * 5 * 2 * (7 * 4 * 4)),
    ],
)
def test_macs_of_convolutions_that_are_rearranged(kind, shapes, macs):
    assert graph_macs(_convolution(kind, *shapes)) == macs


def _convolution(kind, source, weights):
    graph = Graph(name="g")
    x = graph.add_input("x", source, "int8")
    w = graph.add_constant("w", np.ones(weights, np.int8), "int8")
    b = graph.add_constant("b", np.zeros(weights[0]), "int32")
    zps = [graph.add_constant(name, [0], "int8") for name in ("xz", "wz")]
    if kind == "CONV3D":
        attributes = {"pad": [0] * 6, "stride": [1] * 3, "dilation": [1] * 3, "acc_type": "int32"}
    else:
        attributes = {"out_pad": [0] * 4, "stride": [2, 2], "acc_type": "int32"}
    graph.add_op(kind, [x, w, b, *zps], attributes, name="y")
    return graph

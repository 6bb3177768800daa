"""MACs of graphs: what kernels say is what the graph holds."""

import pytest

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

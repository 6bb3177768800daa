"""Depthwise layers beside products that they do not need, and layers that copies bring together."""

import numpy as np
import pytest
from compiler_graphs import assert_compiles_exactly, conv, depthwise, random_inputs
from test_compiler_copies import windowed

from spec import preset
from spec.sequences import layer_norm
from sw.compiler.kernels.budget import Overlap
from sw.compiler.kernels.views import View, dense
from sw.compiler.pipeline import run_stages
from sw.compiler.tosa.graph import Graph
from sw.compiler.tosa.sequences import emit


def branches(size: int = 32, channels: int = 64) -> Graph:
    """Two products one after the other, and a depthwise layer of what the first one reads."""
    g = Graph(name="branches")
    x = conv(g, g.add_input("x", (1, size, size, channels)), channels, 1)
    y = conv(g, conv(g, x, channels, 1, seed=1), channels, 1, seed=2)
    z = depthwise(g, x, (3, 3), stride=(2, 2), pad=(0, 1, 0, 1))
    g.outputs = [conv(g, y, 16, 1, seed=3), conv(g, z, 16, 1, seed=4)]
    g.verify()
    return g


def test_a_depthwise_layer_works_beside_a_product() -> None:
    g = branches()
    made = run_stages(g, preset("default"))
    pairs = [b.overlap is Overlap.BESIDE for b in made.residency.budgets]
    assert sum(pairs) == 2
    first = pairs.index(True)
    engines = {layer.engine.name for layer in made.layers.layers[first : first + 2]}
    assert engines == {"MATRIX", "DEPTHWISE"}
    # Together they take little more than the longer one.
    both = sum(made.predicted[first : first + 2])
    assert both < 0.9 * sum(plan.cycles for plan in made.plans[first : first + 2])


@pytest.mark.parametrize("name", ["tiny", "small", "odd", "rect", "default", "large"])
def test_they_are_exact(name: str) -> None:
    g = branches(14, 24)
    assert assert_compiles_exactly(g, preset(name), random_inputs(g)) > 0


def test_channels_of_the_same_pixels_lie_beside_each_other() -> None:
    whole = dense("t", "int8", (1, 4, 4, 48))
    first, second = whole.channels(slice(0, 16)), whole.channels(slice(16, 48))
    assert first.beside(second) and second.beside(first)
    assert not first.beside(whole) and not first.beside(first)
    assert not whole.channels(slice(0, 17)).beside(second)
    # Of a view without pixels nothing is known.
    unknown = View(tensor="t", dtype="int8", shape=(1, 1, 1, 1), strides=(0, 0, 0))
    assert not unknown.beside(unknown)


def normed_windows(size: int, channels: int) -> Graph:
    """A norm of pixels, and a product of them in the order of windows."""
    g = Graph(name="windows")
    x = g.add_input("x", (1, size, size, channels), "int16")
    gamma, beta = np.full(channels, 1.0), np.zeros(channels)
    shape = (1, size, size, channels)
    (y,) = emit(g, layer_norm(shape, 1e-3, 1e-5, gamma, beta, 0.03, "int8"), [x], name="norm")
    g.outputs = [conv(g, windowed(g, y, 6), 96, 1)]
    g.verify()
    return g


def test_a_product_follows_a_norm_through_a_copy() -> None:
    g = normed_windows(24, 48)
    made = run_stages(g, preset("default"))
    assert [layer.engine.name for layer in made.layers.layers] == ["VECTOR", "LOAD", "MATRIX"]
    assert [b.overlap for b in made.residency.budgets] == [Overlap.TILES] * 3
    layers = [node.layer for node in made.program.instructions]
    assert layers.index(2) < len(layers) - 1 - layers[::-1].index(0)
    assert assert_compiles_exactly(g, preset("default"), random_inputs(g)) > 0


@pytest.mark.parametrize("name", ["small", "rect", "large"])
def test_it_is_exact(name: str) -> None:
    g = normed_windows(12, 24)
    assert assert_compiles_exactly(g, preset(name), random_inputs(g)) > 0

"""Layers that follow one another through memory: in time, and with the same bits."""

import pytest
from compiler_graphs import assert_compiles_exactly, conv, depthwise, random_inputs

from spec import preset
from spec.isa import Engine
from sw.compiler import pipeline
from sw.compiler.compilation import Compilation
from sw.compiler.pipeline import run_stages
from sw.compiler.program.virtual import Place
from sw.compiler.tosa.graph import Graph


def pooled(size: int, channels: int) -> Graph:
    """A convolution and a pool over a tensor that is larger than the scratchpad."""
    g = Graph(name="pooled")
    x = g.add_input("x", (1, size, size, 3))
    y = conv(g, x, channels, 3, pad=1, seed=1)
    pool = {"kernel": (3, 3), "stride": (2, 2), "pad": (1, 0, 1, 0)}
    g.outputs = [g.add_op("MAX_POOL2D", [y], pool)]
    g.verify()
    return g


def expanded(size: int, channels: int, wide: int) -> Graph:
    """1x1, depthwise with stride 2, 1x1; the first result is larger than the scratchpad."""
    g = Graph(name="expanded")
    x = g.add_input("x", (1, size, size, channels))
    y = conv(g, x, wide, 1, seed=1)
    y = depthwise(g, y, (3, 3), stride=(2, 2), pad=(1, 0, 1, 0), seed=2)
    g.outputs = [conv(g, y, channels, 1, seed=3)]
    g.verify()
    return g


def overlap(done: Compilation, first: int, second: int) -> float:
    """The share of the second layer's loads that come before the first layer's last product."""
    nodes = done.program.instructions
    last = max(i for i, n in enumerate(nodes) if n.layer == first and n.engine is Engine.MATRIX)
    loads = [i for i, n in enumerate(nodes) if n.layer == second and n.engine is Engine.LOAD]
    return sum(i < last for i in loads) / len(loads)


def test_pool_follows_the_convolution_before_it() -> None:
    done = run_stages(pooled(112, 64), preset("default"))
    assert done.residency.budgets[1].row_order
    assert overlap(done, 0, 1) > 0.5


@pytest.fixture
def uncut(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is cut into stripes, which need no rows through memory."""
    monkeypatch.setattr(pipeline, "stripe_rows", lambda *_: None)


@pytest.mark.usefixtures("uncut")
def test_depthwise_layer_follows_the_expansion_before_it() -> None:
    done = run_stages(expanded(112, 16, 96), preset("default"))
    assert [budget.row_order for budget in done.residency.budgets][:2] == [False, True]
    assert overlap(done, 0, 1) > 0.5


@pytest.mark.usefixtures("uncut")
def test_neighbours_that_flow_lie_side_by_side() -> None:
    done = run_stages(expanded(112, 16, 96), preset("default"))
    for layer in (0, 1):
        assert done.plans[layer].spad_bytes <= done.residency.budgets[layer].spad_bytes // 3
    spans = [
        [
            (b.address, b.address + b.size)
            for b in done.virtual.buffers
            if b.layer == layer and b.place is Place.SPAD
        ]
        for layer in (0, 1)
    ]
    assert all(a[1] <= b[0] or b[1] <= a[0] for a in spans[0] for b in spans[1])


@pytest.mark.parametrize("config", ["tiny", "odd", "small"])
@pytest.mark.parametrize("graph", [pooled(40, 40), expanded(36, 12, 60)], ids=["pool", "expansion"])
def test_flowing_layers_are_exact(graph: Graph, config: str) -> None:
    assert assert_compiles_exactly(graph, preset(config), random_inputs(graph)) > 0


def test_what_fits_on_chip_does_not_flow() -> None:
    done = run_stages(expanded(14, 16, 96), preset("default"))
    assert not any(budget.row_order for budget in done.residency.budgets)
    assert all(budget.overlap.parts == 1 for budget in done.residency.budgets)

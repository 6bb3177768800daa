"""Groups of a convolution that are computed as one."""

from typing import Any

import numpy as np
import pytest
from compiler_graphs import random_inputs, rescale, zero_point

from golden_model import Machine
from spec import preset
from sw.compiler.passes import run_passes
from sw.compiler.pipeline import run_stages
from sw.compiler.tosa.bound import graph_bound
from sw.compiler.tosa.graph import Graph
from sw.compiler.tosa.interpreter import run_graph
from sw.compiler.tosa.macs import graph_macs


def grouped(
    groups: int,
    channels: int,
    outputs: int,
    *,
    kernel: int = 3,
    weight_zp: int = 0,
    scaled: bool = True,
    other: int | None = None,
) -> Graph:
    """A grouped convolution of `channels` to `outputs` in each group; `other`: the stride of the
    last group."""
    g, rng = Graph(name="grouped"), np.random.default_rng(groups * 100 + channels)
    x = g.add_input("x", (1, 7, 6, groups * channels), zero_point=5)
    parts = []
    for i in range(groups):
        start = g.add_constant("start", [0, 0, 0, i * channels], "shape")
        size = g.add_constant("size", [1, 7, 6, channels], "shape")
        part = g.add_op("SLICE", [x, start, size])
        shape = (outputs, kernel, kernel, channels)
        weight = g.add_constant("weight", rng.integers(-100, 101, shape), "int8")
        bias = g.add_constant("bias", rng.integers(-3000, 3000, outputs), "int32")
        stride = 1 if other is None or i < groups - 1 else other
        pad = kernel // 2
        y = g.add_op(
            "CONV2D",
            [part, weight, bias, zero_point(g, 5), zero_point(g, weight_zp)],
            {"pad": (pad, pad, pad, pad), "stride": (stride, stride)},
        )
        parts.append(rescale(g, y, 0.001 * (i + 1), 3) if scaled else y)
    y = g.add_op("CONCAT", parts, {"axis": 3})
    g.outputs = [y if scaled else rescale(g, y, 0.002, -4)]
    return g


def products(g: Graph, name: str) -> list[tuple[int, ...]]:
    """Weights of the convolutions that are left."""
    after = run_passes(g, preset(name))
    return [after.tensors[op.inputs[1]].shape for op in after.ops if op.kind == "CONV2D"]


@pytest.mark.parametrize(
    ("groups", "channels", "outputs", "shapes"),
    [
        (8, 4, 4, [(16, 3, 3, 16)] * 2),
        (2, 8, 8, [(16, 3, 3, 16)]),
        # Two pixels of eight channels each are side by side.
        (6, 8, 4, [(16, 3, 4, 16)] * 3),
        (3, 16, 16, [(16, 3, 3, 16)] * 3),
        (2, 15, 15, [(15, 3, 3, 15)] * 2),
        (5, 2, 3, [(15, 3, 3, 10)]),
    ],
)
def test_as_many_groups_as_fill_the_array_are_one(
    groups: int, channels: int, outputs: int, shapes: list[tuple[int, ...]]
) -> None:
    g = grouped(groups, channels, outputs)
    assert products(g, "default") == shapes


@pytest.mark.parametrize("name", ["default", "tiny", "odd"])
@pytest.mark.parametrize(
    "how",
    [
        {"groups": 8, "channels": 4, "outputs": 4},
        {"groups": 4, "channels": 2, "outputs": 3, "kernel": 1, "weight_zp": -3},
        {"groups": 6, "channels": 1, "outputs": 2, "scaled": False},
    ],
)
def test_results_macs_and_bound_stay(name: str, how: dict[str, Any]) -> None:
    g, config = grouped(**how), preset(name)
    after = run_passes(g, config)
    assert graph_macs(after) == graph_macs(g)
    assert graph_bound(after, config) <= graph_bound(g, config) + 1e-6
    inputs = random_inputs(g)
    want = run_graph(g, inputs)
    assert np.array_equal(run_graph(after, inputs)[after.outputs[0]], want[g.outputs[0]])
    got = Machine(config).run(run_stages(g, config).image, inputs, check=True)
    assert np.array_equal(got[g.outputs[0]], want[g.outputs[0]])


def test_groups_that_differ_or_are_read_by_others_stay() -> None:
    assert len(products(grouped(4, 4, 4, kernel=1, other=1), "default")) == 1
    g = grouped(4, 4, 4)
    g.outputs.append(next(op for op in g.ops if op.kind == "CONV2D").outputs[0])
    assert len(products(g, "default")) == 4
    g = grouped(4, 4, 4)
    next(op for op in g.ops if op.kind == "CONV2D").attributes["pad"] = (2, 0, 1, 1)
    assert len(products(g, "default")) == 4

"""Copies of which one side lies on chip: a LOAD or a STORE alone, exact, and never both."""

from dataclasses import replace

import numpy as np
import pytest
from attention_graphs import permuted, shaped
from compiler_graphs import assert_compiles_exactly, random_inputs, rescale

from spec import preset
from spec.isa import Engine
from sw.compiler.errors import CompileError
from sw.compiler.kernels.budget import MemoryBudget
from sw.compiler.kernels.layers import MoveLayer
from sw.compiler.kernels.move.plan import MovePlan, plan_move
from sw.compiler.pipeline import run_stages
from sw.compiler.tosa.graph import Graph
from sw.compiler.tosa.interpreter import run_graph
from sw.runtime.rtl import RtlDevice

CONFIG = preset("default")


def windows(rows: int, side: int, channels: int, *, twice: bool = False) -> Graph:
    """A sum, cut into windows of `side` by `side` pixels, and another sum; twice: and back."""
    g, count = Graph(name="windows"), rows // side
    shape = (1, rows, rows, channels)
    x = g.add_op("ADD", [_wide(g, g.add_input(n, shape)) for n in "xy"])
    x = rescale(g, x, 2.0**-9, 0)
    x = permuted(g, shaped(g, x, count, side, count, side, channels), 0, 2, 1, 3, 4)
    x = rescale(g, g.add_op("ADD", [_wide(g, x), _wide(g, x)]), 2.0**-9, 0)
    if twice:
        x = permuted(g, x, 0, 2, 1, 3, 4)
        x = rescale(g, g.add_op("ADD", [_wide(g, x), _wide(g, x)]), 2.0**-9, 0)
    g.outputs = [x]
    g.verify()
    return g


def _wide(g: Graph, name: str) -> str:
    return rescale(g, name, 2.0**8, 0, "int32")


def plans(g: Graph) -> list[tuple[MoveLayer, MovePlan]]:
    made = run_stages(g, CONFIG)
    pairs = zip(made.layers.layers, made.plans, strict=True)
    return [(layer, plan) for layer, plan in pairs if isinstance(plan, MovePlan)]


def test_a_copy_between_layers_has_one_side_on_chip() -> None:
    g = windows(24, 6, 48)
    made = run_stages(g, CONFIG)
    ((layer, plan),) = plans(g)
    assert isinstance(layer, MoveLayer) and plan.from_chip != plan.to_chip
    number = made.layers.layers.index(next(x for x in made.layers.layers if x.name == layer.name))
    engines = {x.engine for x in made.virtual.instructions if x.layer == number}
    assert engines == {Engine.STORE if plan.from_chip else Engine.LOAD}
    # The tiles of the layer before or behind follow one another.
    assert plan.step * 4 >= layer.target[1][0] > plan.step


@pytest.mark.parametrize("name", ["tiny", "small", "rect", "odd", "default"])
@pytest.mark.parametrize("twice", [False, True])
def test_copies_are_exact(name: str, twice: bool) -> None:
    g = windows(12, 3, 20, twice=twice)
    assert assert_compiles_exactly(g, preset(name), random_inputs(g, 2)) > 0


@pytest.mark.parametrize("fields", [{"before": (1,) * 4}, {"source_strides": (-1,) * 4}])
def test_what_is_filled_or_turned_goes_through_memory(fields: dict[str, tuple[int, ...]]) -> None:
    (layer, _), *_ = plans(windows(24, 6, 48))
    assert layer.copies and not layer.memory_views
    other = replace(layer, **fields)
    assert not other.copies and len(other.memory_views) == 2


def test_no_plan_has_both_sides_on_chip() -> None:
    (layer, _), *_ = plans(windows(24, 6, 48))
    held = frozenset({layer.tensor, layer.output.tensor})
    with pytest.raises(CompileError, match="from chip to chip goes through memory"):
        plan_move(layer, CONFIG, MemoryBudget(CONFIG.spad_bytes, held=held))


@pytest.mark.rtl
@pytest.mark.timeout(900)
def test_copies_on_the_rtl_are_exact() -> None:
    config = preset("tiny")
    with RtlDevice(config) as device:
        for rows, side, channels in ((8, 2, 12), (9, 3, 5)):
            g = windows(rows, side, channels, twice=True)
            image = run_stages(g, config).image
            inputs = random_inputs(g, rows)
            device.load(image)
            for name, data in inputs.items():
                device.write(name, data)
            device.run()
            for name, value in run_graph(g, inputs).items():
                np.testing.assert_array_equal(device.read(name), value)

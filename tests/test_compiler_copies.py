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


def windows(
    rows: int, side: int, channels: int, *, twice: bool = False, given: bool = False
) -> Graph:
    """A sum, or what is given, cut into windows of `side` by `side` pixels, and another sum; twice:
    and back.
    """
    g, count = Graph(name="windows"), rows // side
    shape = (1, rows, rows, channels)
    x = g.add_input("x", shape)
    if not given:
        y = g.add_input("y", shape)
        x = rescale(g, g.add_op("ADD", [_wide(g, x), _wide(g, y)]), 2.0**-9, 0)
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


def plans(g: Graph) -> list[tuple[MoveLayer, MovePlan, set[Engine]]]:
    """The copies with their plans, and the engines that work on each."""
    made = run_stages(g, CONFIG)
    found = []
    for i, (layer, plan) in enumerate(zip(made.layers.layers, made.plans, strict=True)):
        if isinstance(layer, MoveLayer) and isinstance(plan, MovePlan):
            engines = {x.engine for x in made.virtual.instructions if x.layer == i}
            found.append((layer, plan, engines))
    return found


@pytest.mark.parametrize("given", [False, True])
def test_a_copy_between_layers_has_one_side_on_chip(given: bool) -> None:
    """Behind a layer the source stays, which is made first; an input lies in memory."""
    ((layer, plan, engines),) = plans(windows(24, 6, 48, given=given))
    assert (plan.from_chip, plan.to_chip) == (not given, given)
    assert engines == {Engine.LOAD if given else Engine.STORE}
    # The tiles of the layer before or behind follow one another.
    assert plan.step * 4 >= layer.target[1][0] > plan.step


@pytest.mark.parametrize("name", ["tiny", "small", "rect", "odd", "default"])
@pytest.mark.parametrize(("twice", "given"), [(False, False), (True, False), (True, True)])
def test_copies_are_exact(name: str, twice: bool, given: bool) -> None:
    g = windows(12, 3, 20, twice=twice, given=given)
    assert assert_compiles_exactly(g, preset(name), random_inputs(g, 2)) > 0


@pytest.mark.parametrize("fields", [{"before": (1,) * 4}, {"source_strides": (-1,) * 4}])
def test_what_is_filled_or_turned_goes_through_memory(fields: dict[str, tuple[int, ...]]) -> None:
    (layer, *_), *_ = plans(windows(24, 6, 48))
    assert layer.copies and not layer.memory_views
    other = replace(layer, **fields)
    assert not other.copies and len(other.memory_views) == 2


def test_no_plan_has_both_sides_on_chip() -> None:
    (layer, *_), *_ = plans(windows(24, 6, 48))
    held = frozenset({layer.tensor, layer.output.tensor})
    with pytest.raises(CompileError, match="from chip to chip goes through memory"):
        plan_move(layer, CONFIG, MemoryBudget(CONFIG.spad_bytes, held=held))


@pytest.mark.rtl
@pytest.mark.timeout(900)
def test_copies_on_the_rtl_are_exact() -> None:
    config = preset("tiny")
    with RtlDevice(config) as device:
        for rows, side, channels in ((8, 2, 12), (9, 3, 5)):
            g = windows(rows, side, channels, twice=True, given=rows == 8)
            image = run_stages(g, config).image
            inputs = random_inputs(g, rows)
            device.load(image)
            for name, data in inputs.items():
                device.write(name, data)
            device.run()
            for name, value in run_graph(g, inputs).items():
                np.testing.assert_array_equal(device.read(name), value)

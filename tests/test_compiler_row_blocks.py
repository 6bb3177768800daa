"""Rows of a product that pass in blocks of columns have the bits of the interpreter."""

from dataclasses import replace

import numpy as np
import pytest
from compiler_graphs import random_inputs
from hypothesis import given, settings
from hypothesis import strategies as st
from random_rows import attention, random_rows

from golden_model import Machine
from spec import preset
from spec.config import NpuConfig
from sw.compiler.kernels.base import KernelFamily
from sw.compiler.kernels.budget import MemoryBudget
from sw.compiler.kernels.families import FAMILIES
from sw.compiler.kernels.fused.blocks import row_blocks
from sw.compiler.kernels.fused.emit import emit_fused
from sw.compiler.kernels.fused.layer import FusedLayer
from sw.compiler.kernels.fused.plan import plan_fused
from sw.compiler.kernels.fused.plan_blocks import plan_blocks
from sw.compiler.kernels.fused.tiles import FusedPlan
from sw.compiler.lower.stage import lower
from sw.compiler.machine.costs import weight_cycles
from sw.compiler.pipeline import run_stages
from sw.compiler.tosa.graph import Graph
from sw.compiler.tosa.interpreter import run_graph

CONFIGS = {
    "tiny": replace(preset("tiny"), acc_kib=1),
    "small": replace(preset("small"), acc_kib=2),
    "odd": replace(preset("odd"), acc_kib=6),
    "default": replace(preset("default"), acc_kib=4),
}
"""Presets with so few vectors of the accumulator that short rows are long."""


def any_blocks(seed: int) -> KernelFamily[FusedLayer, FusedPlan]:
    """The family of fused layers with any plan in blocks, not the cheapest one."""

    def plan(layer: FusedLayer, config: NpuConfig, budget: MemoryBudget) -> FusedPlan:
        found = plan_blocks(layer, config, budget)
        if not found:
            return plan_fused(layer, config, budget)
        return found[seed % len(found)]

    return KernelFamily(layer=FusedLayer, plan=plan, emit=emit_fused)


def run_in_blocks(g: Graph, config: NpuConfig, seed: int) -> int:
    """Compile with some plan in blocks and compare; of how many layers the rows pass so."""
    others = [family for family in FAMILIES if family.layer is not FusedLayer]
    made = run_stages(g, config, families=(*others, any_blocks(seed)))
    inputs = random_inputs(g, seed)
    got, want = Machine(config).run(made.image, inputs, check=True), run_graph(g, inputs)
    assert set(got) == set(want) == set(g.outputs)
    for name in g.outputs:
        np.testing.assert_array_equal(got[name], want[name], err_msg=f"{name}, seed {seed}")
    return sum(isinstance(plan, FusedPlan) and plan.blocks > 1 for plan in made.plans)


@given(st.integers(0, 1 << 30), st.sampled_from(list(CONFIGS)))
@settings(max_examples=40, deadline=None)
def test_random_rows_in_any_blocks_are_exact(seed: int, name: str) -> None:
    run_in_blocks(random_rows(seed), CONFIGS[name], seed)


@pytest.mark.parametrize("late", [True, False])
@pytest.mark.parametrize("mask", [True, False])
def test_softmax_in_any_blocks_is_exact(late: bool, mask: bool) -> None:
    count = 0
    for seed, (name, config) in enumerate(CONFIGS.items()):
        sizes = (2, 21, 77 + seed, 16 + 3 * seed)
        g = attention(sizes, late=late, mask=mask, turned=bool(seed % 2))
        for plan in (0, 5, 11):
            count += run_in_blocks(g, config, 31 * seed + plan)
        assert run_in_blocks(g, config, seed), name
    assert count == 3 * len(CONFIGS)


def fused_layer(g: Graph, config: NpuConfig) -> FusedLayer:
    (found,) = (x for x in lower(g, config).layers if isinstance(x, FusedLayer))
    return found


def test_softmax_passes_twice_or_three_times() -> None:
    config = preset("default")
    for late, count in ((True, 2), (False, 3)):
        layer = fused_layer(attention((1, 32, 64, 32), late=late), config)
        rows = row_blocks(layer)
        assert rows is not None and layer.product is not None and len(rows.phases) == count
        assert all(phase.reads(layer.product.register) for phase in rows.phases)
        # Each result is stored in one phase.
        wide = [r for r in layer.results if layer.registers[r.register].spans[-1]]
        assert [r for phase in rows.phases for r in phase.results] == wide


def test_rows_longer_than_the_accumulator_keep_their_product_on_chip() -> None:
    config = preset("default")
    layer = fused_layer(attention((1, 2048, 2048, 64), turned=True), config)
    plan = plan_fused(layer, config, MemoryBudget.whole(config))
    assert plan.blocks > 1 and plan.tile[-2] >= weight_cycles(config)
    assert plan.spad_bytes <= config.spad_bytes and plan.acc_vectors <= config.acc_vectors
    # Scores in memory alone would be 4 bytes an element.
    assert plan.traffic < 3 * 2048 * 2048
    # Of 64 blocks of all keys fit neither twice nor once.
    less = plan_fused(layer, config, MemoryBudget(config.spad_bytes // 3))
    assert less.spad_bytes <= config.spad_bytes // 3 and less.rights < less.blocks


def test_rows_that_fit_stay_whole() -> None:
    config = preset("default")
    layer = fused_layer(attention((1, 512, 512, 64), turned=True), config)
    assert plan_fused(layer, config, MemoryBudget.whole(config)).blocks == 0


def test_blocks_are_taken_without_being_asked_for() -> None:
    config = CONFIGS["tiny"]
    g = attention((2, 33, 77, 9))
    made = run_stages(g, config)
    assert [type(x) for x in made.layers.layers] == [FusedLayer]
    assert any(isinstance(p, FusedPlan) and p.blocks for p in made.plans)


def test_rows_that_the_scratchpad_does_not_hold_pass_in_blocks_too() -> None:
    config = preset("tiny")
    g = attention((1, 9, 1500, 9))
    made = run_stages(g, config)
    assert [type(x) for x in made.layers.layers] == [FusedLayer]
    assert run_in_blocks(g, config, 2)

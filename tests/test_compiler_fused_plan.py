"""Tiles of fused elementwise layers: they cover every dimension, fit, and respect what is whole."""

import math
from dataclasses import replace

import numpy as np
import pytest
from chain_graphs import norm, scores
from compiler_graphs import assert_compiles_exactly, random_inputs
from hypothesis import given, settings
from hypothesis import strategies as st

from spec import PRESETS, preset
from spec.config import NpuConfig
from spec.isa import Alu, DType, Engine, Reduce
from sw.compiler.errors import CompileError
from sw.compiler.kernels.budget import MemoryBudget, Overlap
from sw.compiler.kernels.fused.builder import FusedBuilder, Target
from sw.compiler.kernels.fused.cost import fused_cost
from sw.compiler.kernels.fused.layer import FusedLayer
from sw.compiler.kernels.fused.plan import plan_fused
from sw.compiler.kernels.fused.tiles import FusedPlan, fused_tiles
from sw.compiler.kernels.views import Placed, dense, row_major
from sw.compiler.lower.stage import lower
from sw.compiler.pipeline import run_stages
from sw.compiler.program.virtual import VirtualInstruction
from sw.compiler.tosa.graph import Graph

SIZES = st.integers(1, 70)


def placed(name: str, shape: tuple[int, ...], item: int) -> Placed:
    return Placed(root=name, shape=shape, strides=row_major(shape, item), offset=0, item=item)


def product_of_sums(shape: tuple[int, int, int], reduced: int) -> FusedLayer:
    """(a + b) · c, then its maximum along a dimension; c has one element in the first one."""
    b = FusedBuilder()
    a, other = (b.source(placed(n, shape, 1), "int8") for n in "ab")
    scale = b.source(placed("c", (1, *shape[1:]), 1), "int8")
    total = b.step(b.step(a, other, alu=Alu.ADD), scale, alu=Alu.MAX)
    result = total
    if reduced >= 0:
        result = b.step(total, None, DType.I32, reduce=Reduce.MAX, axis=reduced)
    view = dense("out", "int32", (1, *result.shape))
    target = Target(view=view, offset=0, strides=row_major(result.shape, 4))
    return b.layer(target, results=[result], name="fused", ops=("ADD",), source="")


@given(st.sampled_from(list(PRESETS)), SIZES, SIZES, SIZES, st.sampled_from([-1, 0, 1, 2]))
@settings(max_examples=60, deadline=None)
def test_tiles_cover_every_element_once_and_fit(
    name: str, n: int, h: int, w: int, reduced: int
) -> None:
    config = preset(name)
    layer = product_of_sums((n, h, w), reduced)
    plan = plan_fused(layer, config, MemoryBudget.whole(config))
    assert plan.spad_bytes <= config.spad_bytes and plan.acc_vectors <= config.acc_vectors
    done = np.zeros(layer.shape, np.int64)
    for tile in fused_tiles(layer, plan):
        done[tuple(slice(a, b) for a, b in tile)] += 1
        assert all(b - a <= most for (a, b), most in zip(tile, plan.tile, strict=True))
    assert (done == 1).all()
    for d in layer.whole:
        assert plan.tile[d] == layer.shape[d]
    assert fused_cost(layer, config, plan) == (plan.cycles, plan.traffic)


def test_a_smaller_budget_makes_smaller_tiles_and_then_none() -> None:
    config = preset("default")
    layer = product_of_sums((64, 64, 64), -1)
    sizes = []
    for share in (1, 4, 16):
        plan = plan_fused(layer, config, MemoryBudget(config.spad_bytes // share))
        assert plan.spad_bytes <= config.spad_bytes // share
        sizes.append(math.prod(plan.tile))
    assert sizes == sorted(sizes, reverse=True)
    with pytest.raises(CompileError, match="fits in 16 bytes of scratchpad"):
        plan_fused(layer, config, MemoryBudget(16))


def fused_layer(graph, config: NpuConfig) -> FusedLayer:
    layers = lower(graph, config).layers
    (found,) = [x for x in layers if isinstance(x, FusedLayer)]
    return found


def test_rows_of_a_norm_are_whole_and_its_temporaries_lie_in_the_accumulator() -> None:
    config = preset("default")
    layer = fused_layer(norm(64, 96), config)
    plan = plan_fused(layer, config, MemoryBudget.whole(config))
    assert plan.tile[-1] == 96 and plan.acc_vectors > 0
    in_turn = MemoryBudget(config.spad_bytes, shares_acc=True)
    assert plan_fused(layer, config, in_turn).acc_vectors <= config.acc_bank
    # Beside a product it has half of the accumulator.
    wide = fused_layer(norm(128, 768), config)
    beside = replace(in_turn, overlap=Overlap.TILES)
    assert config.acc_bank < plan_fused(wide, config, beside).acc_vectors <= config.acc_half


def test_a_tile_with_a_product_is_some_rows_of_one_image() -> None:
    config = preset("default")
    layer = fused_layer(scores(64, 48, 32, mask=False), config)
    assert layer.product is not None and layer.free_array_vectors(config.cols) == 0
    plan = plan_fused(layer, config, MemoryBudget.whole(config))
    assert math.prod(plan.tile[:-2]) == 1 and plan.tile[-1] == 48
    assert plan.operands >= 2 * sum(layer.product.nbytes(plan.tile))


def vectors(graph: Graph, config: NpuConfig) -> tuple[FusedPlan, list[VirtualInstruction]]:
    """The plan of the chain that a graph is, and its VECTORs and loads of TABLEs."""
    made = run_stages(graph, config)
    (plan,) = [p for p in made.plans if isinstance(p, FusedPlan)]
    wanted = [
        x
        for x in made.virtual.instructions
        if x.engine is Engine.VECTOR or "table" in x.note.split()[-1]
    ]
    return plan, wanted


def test_two_tiles_pass_each_step_one_after_the_other() -> None:
    """Six images of a softmax: each step on two of them, and a TABLE once for both."""
    graph = scores(36, 36, 16, mask=False)
    plan, made = vectors(graph, preset("default"))
    assert plan.abreast == 2 and plan.tile == (1, 36, 36)
    steps = [x.note for x in made if x.engine is Engine.VECTOR]
    for first in range(0, len(steps), 2):
        # The same step of two tiles: all but the tile's ranges.
        one, other = (note.split(" ((")[0] for note in steps[first : first + 2])
        assert one == other
    assert len(steps) % 6 == 0
    # Two TABLEs for each of three pairs.
    assert len(made) - len(steps) == 2 * 3


def test_tiles_pass_alone_where_two_do_not_fit() -> None:
    config = preset("default")
    layer = fused_layer(scores(36, 36, 16, mask=False), config)
    both = plan_fused(layer, config, MemoryBudget.whole(config))
    assert both.abreast == 2
    one = plan_fused(layer, config, MemoryBudget(both.spad_bytes - config.word_bytes))
    assert one.abreast == 1 and one.spad_bytes < both.spad_bytes
    assert one.cycles > both.cycles


@pytest.mark.parametrize("name", ["tiny", "small", "odd", "default"])
@pytest.mark.parametrize(
    "graph", [scores(20, 37, 19, mask=True), norm(70, 24)], ids=["scores", "norm"]
)
def test_an_odd_number_of_tiles_is_exact(name: str, graph: Graph) -> None:
    assert assert_compiles_exactly(graph, preset(name), random_inputs(graph, 5)) > 0


def test_layers_with_other_steps_have_other_signatures() -> None:
    plain, most = product_of_sums((2, 3, 4), -1), product_of_sums((2, 3, 4), 1)
    assert plain.signature == product_of_sums((2, 3, 4), -1).signature
    assert plain.signature != most.signature

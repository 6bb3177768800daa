"""Products of large weights of which some columns run beside a norm, the others alone."""

import numpy as np
import pytest
from chain_graphs import products_around_a_norm
from compiler_graphs import assert_compiles_exactly, random_inputs

from spec.config import preset
from sw.compiler.compilation import Compilation
from sw.compiler.kernels.budget import Overlap
from sw.compiler.kernels.layers import ConvLayer
from sw.compiler.pipeline import run_stages
from sw.compiler.placement import columns
from sw.compiler.tosa.graph import Graph

CONFIG = preset("default")


def graph() -> Graph:
    """A norm of 256 channels, and a product of 393,216 bytes of weights behind it."""
    return products_around_a_norm(64, 256, 1536)


@pytest.fixture(scope="module")
def found() -> Compilation:
    return run_stages(graph(), CONFIG)


def parts(made: Compilation) -> list[ConvLayer]:
    return [x for x in made.layers.layers if isinstance(x, ConvLayer) and ".c" in x.name]


def test_the_first_columns_of_a_product_follow_a_norm(found: Compilation) -> None:
    names = [layer.name for layer in found.layers.layers]
    at = names.index("conv2d_2.c0")
    overlaps = [budget.overlap for budget in found.residency.budgets]
    assert overlaps[at - 1 : at + 2] == [Overlap.TILES, Overlap.TILES, Overlap.NONE]
    # The other product would gain nothing from it: the norm would wait for its last tile.
    assert [x.name for x in parts(found)] == names[at : at + 2]


def test_all_columns_are_computed_once(found: Compilation) -> None:
    first, second = parts(found)
    assert first.weights is not None and second.weights is not None
    (product,) = [op for op in found.graph.ops if op.name == "conv2d_2"]
    whole = found.graph.tensors[product.inputs[1]].data
    assert whole is not None
    np.testing.assert_array_equal(np.concatenate([first.weights, second.weights]), whole)
    assert second.output.offset == first.output.shape[3] * first.output.item
    assert first.output.strides == second.output.strides


def test_it_takes_fewer_cycles(found: Compilation, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(columns, "MOST", 0.0)
    before = run_stages(graph(), CONFIG)
    assert not parts(before)
    assert sum(found.predicted) < 0.985 * sum(before.predicted)


def test_little_is_not_worth_a_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(columns, "HIDDEN", 0.9)
    assert not parts(run_stages(graph(), CONFIG))


def test_weights_that_stay_on_chip_are_not_cut() -> None:
    assert not parts(run_stages(products_around_a_norm(64, 128, 1024), CONFIG))


def test_a_product_whose_bias_comes_at_run_time_is_not_cut() -> None:
    names = [x.name for x in parts(run_stages(products_around_a_norm(64, 256, 1024), CONFIG))]
    assert "conv2d.c0" in names
    g = products_around_a_norm(64, 256, 1024, given=True)
    names = [x.name for x in parts(run_stages(g, CONFIG))]
    assert "conv2d.c0" not in names
    assert assert_compiles_exactly(g, CONFIG, random_inputs(g, 0)) > 0


def test_results_are_exact() -> None:
    g = graph()
    assert assert_compiles_exactly(g, CONFIG, random_inputs(g, 0)) > 0

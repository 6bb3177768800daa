"""Products and norms that follow one another tile by tile."""

from dataclasses import dataclass, replace
from itertools import pairwise

import pytest
from chain_graphs import norms_and_products
from compiler_graphs import assert_compiles_exactly, random_inputs
from test_compiler_placement import CONFIG, Elementwise, Product, in_memory, program, tensor

from spec.config import preset
from sw.compiler.errors import CompileError
from sw.compiler.kernels.base import Layer, LayerProgram
from sw.compiler.kernels.budget import MemoryBudget, Overlap
from sw.compiler.kernels.places import Places
from sw.compiler.pipeline import run_stages
from sw.compiler.placement import follow
from sw.compiler.placement.follow import follow_tiles
from sw.compiler.program.virtual import Place


@dataclass(frozen=True)
class Planned:
    """A plan of so many cycles and bytes."""

    cycles: int
    traffic: int = 0
    spad_bytes: int = 0


def pair(*, rows: int = 8, tables: tuple[bool, bool] = (False, True)) -> LayerProgram:
    """A product of `rows` times 16 vectors, and a layer of the vector engine that reads it."""
    a, b, c = (tensor(name, rows) for name in "abc")
    return program(
        Product(name="product", input=a, output=b, table=tables[0]),
        Elementwise(name="norm", input=b, output=c, long=True, table=tables[1]),
    )


def overlaps(
    layers: LayerProgram, *, cycles: int = 100, norm: int = 100, traffic: int = 0
) -> list[Overlap]:
    """What becomes of layers that take 100 cycles alone, and together `cycles` and the `norm`."""

    def plan(layer: Layer, budget: MemoryBudget) -> Planned:
        alone = budget.overlap is Overlap.NONE
        return Planned(100) if alone else Planned(norm if layer.name == "norm" else cycles, traffic)

    found = follow_tiles(layers, in_memory(layers), CONFIG, plan)
    assert all(b.shares_acc is (b.overlap is Overlap.TILES) for b in found.budgets)
    return [budget.overlap for budget in found.budgets]


def test_a_norm_follows_its_product_and_a_product_its_norm() -> None:
    assert overlaps(pair()) == [Overlap.TILES] * 2
    a, b, c = map(tensor, "abc")
    behind = program(
        Elementwise(name="norm", input=a, output=b, long=True, table=True),
        Product(name="product", input=b, output=c),
    )
    assert overlaps(behind) == [Overlap.TILES] * 2


def test_layers_that_gain_nothing_do_not() -> None:
    alone = [Overlap.NONE] * 2
    # Of two tables one waits for the other; of one tile nothing can be followed.
    assert overlaps(pair(tables=(True, True))) == alone
    assert overlaps(pair(rows=1)) == alone
    # 170 cycles and a quarter of 100 are more than 95% of 200; with 160 they are not.
    assert overlaps(pair(), cycles=170) == alone
    assert overlaps(pair(), cycles=160) == [Overlap.TILES] * 2
    # A norm that is much slower in its part of the memories stays as it is.
    assert overlaps(pair(), norm=114) == [Overlap.TILES] * 2
    assert overlaps(pair(), norm=116) == alone


def test_of_the_bus_a_long_pair_leaves_something_and_a_short_one_nothing() -> None:
    # Of 100 cycles all of them, for both; of 150, where the norm takes 60, six tenths.
    most = 100 * CONFIG.bus_bytes // 2
    assert overlaps(pair(), traffic=most) == [Overlap.TILES] * 2
    assert overlaps(pair(), traffic=most + 8) == [Overlap.NONE] * 2
    most = 60 * 150 // 100 * CONFIG.bus_bytes // 2
    assert overlaps(pair(), cycles=150, norm=60, traffic=most) == [Overlap.TILES] * 2
    assert overlaps(pair(), cycles=150, norm=60, traffic=most + 8) == [Overlap.NONE] * 2


def tiles(bus: dict[int, int]) -> set[int]:
    """Into how many tiles a product is cut that moves so many bytes beside a norm, by tiles."""

    def plan(layer: Layer, budget: MemoryBudget) -> Planned:
        return Planned(100, bus.get(budget.tiles, 0))

    layers = pair()
    return {b.tiles for b in follow_tiles(layers, in_memory(layers), CONFIG, plan).budgets}


def test_a_product_has_fewer_tiles_where_more_would_fill_the_bus() -> None:
    full = 200 * CONFIG.bus_bytes
    assert tiles({}) == {4}
    assert tiles({4: full}) == {2}
    assert tiles({4: full, 2: full}) == {1}


def test_layers_that_overlap_otherwise_or_do_not_fit_stay() -> None:
    layers = pair()
    before = in_memory(layers)
    rows = replace(before.budgets[0], overlap=Overlap.ROWS)
    before = replace(before, budgets=(rows, before.budgets[1]))
    assert follow_tiles(layers, before, CONFIG, lambda layer, budget: Planned(100)) == before

    def narrow(layer: Layer, budget: MemoryBudget) -> Planned:
        if budget.overlap is Overlap.TILES:
            raise CompileError("too small")
        return Planned(100)

    assert follow_tiles(layers, in_memory(layers), CONFIG, narrow) == in_memory(layers)


def test_norms_and_products_take_fewer_cycles(monkeypatch: pytest.MonkeyPatch) -> None:
    g = norms_and_products(512, 64, 96)
    found = run_stages(g, CONFIG)
    assert Overlap.TILES in [budget.overlap for budget in found.residency.budgets]
    monkeypatch.setattr(follow, "GAIN", 0.0)
    before = run_stages(g, CONFIG)
    assert Overlap.TILES not in [budget.overlap for budget in before.residency.budgets]
    assert sum(found.predicted) < 0.95 * sum(before.predicted)


def test_a_product_beside_a_norm_has_the_lower_half_of_the_accumulator() -> None:
    places = Places.of(64, 0, CONFIG, shared=True, lower=True)
    first = [places.vector(i) for i in range(2 * places.count)]
    assert max(first) + 64 <= CONFIG.acc_half
    # One bank is filled while the other is emptied.
    banks = [at // CONFIG.acc_bank for at in first]
    assert all(a != b for a, b in pairwise(banks))


def test_their_parameters_lie_apart() -> None:
    """A norm of 512 channels would fill the parameter memory, and wait for the product's last."""
    found = run_stages(norms_and_products(256, 512, 384), CONFIG)
    budgets = found.residency.budgets
    places: dict[int, set[int]] = {}
    for buffer in found.virtual.buffers:
        if buffer.place is Place.PARAM:
            lies = range(buffer.address, buffer.address + buffer.size)
            places[buffer.layer] = places.get(buffer.layer, set()) | set(lies)
    pairs = [
        (i, i + 1)
        for i in range(len(budgets) - 1)
        if {budgets[i].overlap, budgets[i + 1].overlap} == {Overlap.TILES}
        and {i, i + 1} <= places.keys()
    ]
    assert pairs
    assert not [pair for pair in pairs if places[pair[0]] & places[pair[1]]]


@pytest.mark.parametrize("name", ["tiny", "odd", "default"])
@pytest.mark.parametrize(("rows", "size", "wide"), [(200, 48, 32), (129, 17, 40)])
def test_results_are_exact(name: str, rows: int, size: int, wide: int) -> None:
    g = norms_and_products(rows, size, wide)
    assert assert_compiles_exactly(g, preset(name), random_inputs(g, rows)) > 0

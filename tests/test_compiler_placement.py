"""Memory budgets, and what placement decides on costs that the test makes up."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar

import pytest

from spec import preset
from spec.isa import Engine
from spec.program import REGION_INPUT, REGION_OUTPUT, REGION_TEMP
from sw.compiler.errors import CompileError, LegalityError
from sw.compiler.kernels.base import Layer, LayerProgram
from sw.compiler.kernels.budget import MemoryBudget, Overlap
from sw.compiler.kernels.views import MemoryMap, View, dense
from sw.compiler.placement.flow import stream_rows
from sw.compiler.placement.overlap import WORTH, move_products_behind, run_concurrently
from sw.compiler.placement.residency import LEAST, Residency, check_residency, choose

CONFIG = preset("default")
WORD = CONFIG.word_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Stub(Layer):
    """A layer of one input; subclasses are those of one engine each."""

    engine: ClassVar[Engine] = Engine.LOAD
    input: View
    long: bool = False
    table: bool = False

    @property
    def inputs(self) -> tuple[View, ...]:
        return (self.input,)

    @property
    def memory_views(self) -> tuple[View, ...]:
        return (*self.inputs, *self.outputs) if self.engine is Engine.LOAD else ()

    @property
    def uses_table(self) -> bool:
        return self.table

    def free_array_vectors(self, cols: int) -> int:
        return WORTH if self.long else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Product(Stub):
    engine: ClassVar[Engine] = Engine.MATRIX
    follows_rows: ClassVar[bool] = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Depthwise(Stub):
    engine: ClassVar[Engine] = Engine.DEPTHWISE
    follows_rows: ClassVar[bool] = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Elementwise(Stub):
    engine: ClassVar[Engine] = Engine.VECTOR


def tensor(name: str, rows: int = 8, channels: int = 64) -> View:
    return dense(name, "int8", (1, rows, 16, channels))


def program(*layers: Layer) -> LayerProgram:
    """The layers; what the first reads is an input, what the last writes the output."""
    views = {v.tensor: v for x in layers for v in (*x.inputs, *x.outputs)}
    region = dict.fromkeys(views, REGION_TEMP)
    region[layers[0].inputs[0].tensor] = REGION_INPUT
    region[layers[-1].output.tensor] = REGION_OUTPUT
    nbytes = {name: v.shape[0] * v.strides[0] for name, v in views.items()}
    return LayerProgram(layers=layers, storage=MemoryMap(nbytes=nbytes, region=region))


def chain(*kinds: type[Stub], rows: int = 8) -> LayerProgram:
    names = "abcdefgh"
    return program(
        *(
            kind(name=f"l{i}", input=tensor(names[i], rows), output=tensor(names[i + 1], rows))
            for i, kind in enumerate(kinds)
        )
    )


Model = Callable[[Layer, MemoryBudget], int | None]


def by_bytes(layer: Layer, budget: MemoryBudget) -> int:
    """A layer costs what it loads and stores, whatever its part of the scratchpad."""
    moved = [v for v in (*layer.inputs, *layer.outputs) if v.tensor not in budget.held]
    return 100 + sum(v.shape[0] * v.strides[0] for v in moved)


def always(cycles: int) -> Model:
    return lambda layer, budget: cycles


# Budgets --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("overlap", "parts"),
    [
        (Overlap.NONE, 1),
        (Overlap.CONCURRENT, 2),
        (Overlap.ROWS, 3),
        (Overlap.TILES, 3),
        (Overlap.TURNS, 4),
    ],
)
def test_layers_that_overlap_share_the_scratchpad(overlap: Overlap, parts: int) -> None:
    budget = MemoryBudget(6000, overlap=overlap)
    assert budget.buffer_bytes == 6000 // parts
    assert budget.concurrent is (overlap is not Overlap.NONE)


def test_layers_that_share_the_accumulator_run_at_the_same_time() -> None:
    assert MemoryBudget(6000, shares_acc=True).concurrent
    assert not MemoryBudget.whole(CONFIG).concurrent
    assert MemoryBudget.whole(CONFIG).buffer_bytes == CONFIG.spad_bytes


def test_a_tensor_streams_by_channels_if_its_image_fits_in_a_bank_of_the_accumulator() -> None:
    rows = CONFIG.acc_bank // 16
    view, tall = tensor("t", rows), tensor("t", rows + 1)
    held = MemoryBudget(6000, held=frozenset("t"), channelwise=frozenset("t"))
    assert held.streams(view, CONFIG) and not held.streams(tall, CONFIG)
    assert not MemoryBudget(6000, held=frozenset("t")).streams(view, CONFIG)
    assert not MemoryBudget(6000, channelwise=frozenset("t")).streams(view, CONFIG)


# Residency ------------------------------------------------------------------------------------


def test_temporaries_stay_at_the_top_of_the_scratchpad() -> None:
    layers = chain(Product, Elementwise, Product)
    found = choose(layers, CONFIG, by_bytes)
    size = layers.storage.nbytes["b"]
    # b and c live at the same time in the second layer.
    assert found.address == {"b": CONFIG.spad_bytes - size, "c": CONFIG.spad_bytes - 2 * size}
    assert [b.spad_bytes for b in found.budgets] == [
        CONFIG.spad_bytes - size,
        CONFIG.spad_bytes - 2 * size,
        CONFIG.spad_bytes - 2 * size,
    ]
    assert [sorted(b.held) for b in found.budgets] == [["b"], ["b", "c"], ["c"]]
    check_residency(found, layers, CONFIG)


def test_a_tensor_goes_to_memory_where_the_layers_of_its_life_would_be_slower() -> None:
    def model(layer: Layer, budget: MemoryBudget) -> int:
        return 100 + 50 * len(budget.held)

    assert choose(chain(Product, Product), CONFIG, model).address == {}


def test_a_tensor_goes_to_memory_where_a_layer_would_not_fit_beside_it() -> None:
    def model(layer: Layer, budget: MemoryBudget) -> int | None:
        return None if budget.held else 100

    assert choose(chain(Product, Product), CONFIG, model).address == {}


def test_a_layer_that_fits_nowhere_is_an_error_with_a_hint() -> None:
    with pytest.raises(CompileError, match="no tile of this layer fits in") as error:
        choose(chain(Product, Product), CONFIG, always(None))  # type: ignore[arg-type]
    assert "more memory" in str(error.value)


def test_what_a_layer_needs_in_memory_does_not_stay() -> None:
    assert set(choose(chain(Product, Stub, Product), CONFIG, by_bytes).address) == set()


def test_a_part_of_the_scratchpad_is_left_to_rotating_buffers() -> None:
    rows = CONFIG.spad_bytes * (LEAST - 1) // LEAST // (16 * 64)
    assert choose(chain(Product, Product, rows=rows), CONFIG, by_bytes).address
    assert not choose(chain(Product, Product, rows=rows + 1), CONFIG, by_bytes).address


def test_a_product_and_a_depthwise_layer_share_the_accumulator() -> None:
    found = choose(chain(Product, Depthwise, Elementwise), CONFIG, always(100))
    assert [b.shares_acc for b in found.budgets] == [True, True, False]
    assert found.budgets[0].channelwise == frozenset("b")


def test_the_check_finds_tensors_that_overlap_on_chip() -> None:
    layers = chain(Product, Elementwise, Product)
    good = choose(layers, CONFIG, by_bytes)
    bad = Residency(address={**good.address, "c": good.address["b"]}, budgets=good.budgets)
    with pytest.raises(LegalityError, match="tensors 'c' and 'b' overlap on chip"):
        check_residency(bad, layers, CONFIG)
    whole = (MemoryBudget.whole(CONFIG),) * 3
    with pytest.raises(LegalityError, match=r"tensor 'b' at .* is in the way of layer 0"):
        check_residency(Residency(address=good.address, budgets=whole), layers, CONFIG)


# Rows streamed between layers -----------------------------------------------------------------


def in_memory(layers: LayerProgram) -> Residency:
    return Residency(budgets=(MemoryBudget.whole(CONFIG),) * len(layers.layers))


@pytest.mark.parametrize(
    ("writer", "reader", "streams"),
    [
        (Product, Depthwise, True),
        (Depthwise, Product, True),
        (Product, Elementwise, False),
        (Product, Product, False),
        (Depthwise, Elementwise, False),
        (Stub, Product, False),
    ],
)
def test_rows_are_streamed_between_engines_that_work_at_the_same_time(
    writer: type[Stub], reader: type[Stub], streams: bool
) -> None:
    layers = chain(writer, reader)
    found = stream_rows(layers, in_memory(layers), always(100)).budgets
    assert [b.overlap is Overlap.ROWS for b in found] == [streams, streams]
    assert [b.row_order for b in found] == [False, streams]


def test_rows_are_not_streamed_where_a_third_of_the_scratchpad_is_too_little() -> None:
    def model(layer: Layer, budget: MemoryBudget) -> int:
        return 100 if budget.overlap is Overlap.NONE else 111

    layers = chain(Product, Depthwise)
    assert stream_rows(layers, in_memory(layers), model) == in_memory(layers)


@pytest.mark.parametrize(("lost", "streams"), [(20, True), (21, False)])
def test_a_layer_may_lose_a_fifth_if_the_other_one_hides_it(lost: int, streams: bool) -> None:
    def model(layer: Layer, budget: MemoryBudget) -> int:
        slower = isinstance(layer, Depthwise) and budget.overlap is Overlap.ROWS
        return 100 + lost * slower

    layers = chain(Product, Depthwise)
    found = stream_rows(layers, in_memory(layers), model).budgets
    assert [b.overlap is Overlap.ROWS for b in found] == [streams, streams]


def test_a_tensor_of_one_row_or_one_that_stays_on_chip_is_not_streamed() -> None:
    flat = chain(Product, Depthwise, rows=1)
    assert stream_rows(flat, in_memory(flat), always(100)) == in_memory(flat)
    layers = chain(Product, Depthwise)
    kept = Residency(address={"b": 0}, budgets=in_memory(layers).budgets)
    assert stream_rows(layers, kept, always(100)) == kept


# Layers that run concurrently -----------------------------------------------------------------


def independent(*, table: bool = False) -> LayerProgram:
    """a → product → b; then a → product → c, a long elementwise layer of b, and d of both."""
    a, b, c, d = map(tensor, "abcd")
    return program(
        Product(name="first", input=a, output=b),
        Product(name="second", input=a, output=c, table=table),
        Elementwise(name="long", input=b, output=d, long=True, table=table),
    )


def test_a_long_layer_and_a_product_that_it_does_not_need_share_the_scratchpad() -> None:
    layers = independent()
    found = run_concurrently(layers, in_memory(layers), CONFIG, always(100)).budgets
    assert [b.overlap for b in found] == [Overlap.NONE, Overlap.CONCURRENT, Overlap.CONCURRENT]


def test_only_one_of_the_two_may_look_up_the_table() -> None:
    layers = independent(table=True)
    assert run_concurrently(layers, in_memory(layers), CONFIG, always(100)) == in_memory(layers)


def test_the_pair_must_gain() -> None:
    def model(layer: Layer, budget: MemoryBudget) -> int:
        return 100 if budget.overlap is Overlap.NONE else 191

    layers = independent()
    assert run_concurrently(layers, in_memory(layers), CONFIG, model) == in_memory(layers)


def test_a_product_that_comes_earlier_is_moved_behind_the_long_layer() -> None:
    a, b, c, d = map(tensor, "abcd")
    layers = program(
        Product(name="free", input=a, output=c),
        Product(name="needed", input=a, output=b),
        Elementwise(name="long", input=b, output=d, long=True),
    )
    moved = move_products_behind(layers, CONFIG)
    assert [x.name for x in moved.layers] == ["needed", "long", "free"]
    short = replace(
        layers, layers=(*layers.layers[:2], Elementwise(name="short", input=b, output=d))
    )
    assert move_products_behind(short, CONFIG) == short

"""The tables of lowering: an operator's row, what joins an epilogue, what a chain computes."""

import math
from collections.abc import Callable

import numpy as np
import pytest
from compiler_graphs import rescale, zero_point

from spec.config import preset
from spec.isa import DType
from sw.compiler.errors import CompileError
from sw.compiler.kernels.fused.layer import FusedLayer
from sw.compiler.kernels.layers import Epilogue, PoolLayer
from sw.compiler.lower.capacity import pool_fits, row_fits
from sw.compiler.lower.context import Context
from sw.compiler.lower.elementwise.members import Chain, longest_chain
from sw.compiler.lower.elementwise.steps import STEPS
from sw.compiler.lower.fusion.epilogues import FOLLOWING, MAX_PASSES, plain
from sw.compiler.lower.fusion.fusion import Fusion
from sw.compiler.lower.fusion.permutes import Permutes
from sw.compiler.lower.fusion.sums import find_sums
from sw.compiler.lower.stage import lower
from sw.compiler.lower.table import LOWERINGS
from sw.compiler.tosa.graph import Graph, Op
from sw.compiler.tosa.table import OPERATORS


def test_every_operator_has_a_row_in_both_tables() -> None:
    """Its rules and meaning are fields of the one row; the other is the function that lowers it."""
    assert set(LOWERINGS) == set(OPERATORS)
    assert {*STEPS, *FOLLOWING} <= set(OPERATORS)


def test_an_operator_without_a_row_is_named_with_those_that_have_one() -> None:
    g = Graph(outputs=["x"])
    x = g.add_input("x", (1, 4))
    g.ops.append(Op(kind="FFT2D", name="spectrum", inputs=[x], outputs=[x], source="model.py:3"))
    with pytest.raises(CompileError) as error:
        lower(g, preset("small"))
    assert "operator FFT2D has no implementation on the device" in str(error.value)
    assert "spectrum" in str(error.value) and "model.py:3" in str(error.value)
    assert f"supported: {', '.join(sorted(OPERATORS))}" in str(error.value)


# Epilogues ------------------------------------------------------------------------------------


def clamp(g: Graph, x: str, low: int, high: int) -> str:
    return g.add_op("CLAMP", [x], {"min_val": low, "max_val": high})


def table(g: Graph, x: str) -> str:
    if g.tensors[x].dtype == "int8":
        return g.add_op("TABLE", [x, g.add_constant("table", np.arange(-128, 128), "int8")])
    return g.add_op("TABLE", [x, g.add_constant("table", np.arange(513), "int16")])


def followed(
    build: Callable[[Graph, str], str], *, several: bool = True
) -> tuple[list[str], Epilogue]:
    """The operators that join the epilogue of an int32 tensor, and what that then is."""
    g = Graph()
    x = g.add_input("x", (1, 4, 4, 8), "int32")
    g.outputs = [build(g, x)]
    names: list[str] = []
    _, epilogue = Fusion(g).after_int32(x, names, several=several)
    return names, epilogue


def test_one_pass_scales_clamps_and_looks_up_in_this_order() -> None:
    names, epilogue = followed(
        lambda g, x: table(g, clamp(g, clamp(g, rescale(g, x, 0.1, 3), -100, 90), -50, 120))
    )
    assert names == ["RESCALE", "CLAMP", "CLAMP", "TABLE"]
    assert (epilogue.low, epilogue.high, epilogue.zero_point) == (-50, 90, 3)
    assert epilogue.table is not None and epilogue.passes == (epilogue,)


def test_a_clamp_behind_a_table_does_not_join() -> None:
    names, _ = followed(lambda g, x: clamp(g, table(g, rescale(g, x, 0.1)), 0, 9))
    assert names == ["RESCALE", "TABLE"]


def test_a_second_table_does_not_join() -> None:
    names, _ = followed(lambda g, x: table(g, rescale(g, table(g, rescale(g, x, 0.1)), 0.7)))
    assert names == ["RESCALE", "TABLE", "RESCALE"]


def test_passes_follow_one_another_only_behind_products() -> None:
    def build(g: Graph, x: str) -> str:
        return rescale(g, table(g, rescale(g, x, 0.1, 0, "int16")), 0.01, -4)

    names, epilogue = followed(build)
    assert names == ["RESCALE", "TABLE", "RESCALE"]
    first, last = epilogue.passes
    assert (first.dtype, last.dtype, last.zero_point) == (DType.I32, DType.I8, -4)
    assert first.table is not None and last.table is None
    assert followed(build, several=False)[0] == ["RESCALE"]


def test_there_are_at_most_three_passes() -> None:
    def build(g: Graph, x: str) -> str:
        for _ in range(MAX_PASSES + 1):
            x = rescale(g, x, 0.9)
        return x

    names, epilogue = followed(build)
    assert names == ["RESCALE"] * MAX_PASSES
    assert len(epilogue.passes) == MAX_PASSES


def test_a_value_with_two_readers_ends_the_epilogue() -> None:
    def build(g: Graph, x: str) -> str:
        y = rescale(g, x, 0.1)
        g.outputs.append(clamp(g, y, 0, 1))
        return clamp(g, y, 0, 9)

    assert followed(build)[0] == ["RESCALE"]


def test_clamps_that_exclude_each_other_leave_the_later_bound() -> None:
    _, epilogue = followed(lambda g, x: clamp(g, clamp(g, rescale(g, x, 0.1), 50, 60), -5, 7))
    assert (epilogue.low, epilogue.high) == (7, 7)


def test_a_plain_epilogue_has_the_range_of_its_type() -> None:
    assert (plain(DType.I16).low, plain(DType.I16).high) == (-32768, 32767)


# Sums, permutations, chains -------------------------------------------------------------------


def matmul(g: Graph, name: str, rows: int = 4) -> str:
    a, b = g.add_input(f"{name}a", (1, rows, 16)), g.add_input(f"{name}b", (1, 16, 8))
    return g.add_op("MATMUL", [a, b, zero_point(g, 0), zero_point(g, 0)], name=name)


def test_the_later_of_two_products_computes_their_sum() -> None:
    g = Graph()
    wide = [rescale(g, rescale(g, matmul(g, n), 0.01, 5), 2.0**8, 0, "int32", 5) for n in "pq"]
    g.outputs = [g.add_op("ADD", wide)]
    fusion = Fusion(g)
    (found,) = find_sums(g, fusion.operand_rescales)
    assert (found.product.name, found.other, found.shift_left) == ("q", wide[0], 8)
    assert [op.kind for op in found.before] == ["RESCALE", "MATMUL"]
    assert fusion.deferred == {id(op) for op in found.before}


def test_a_transpose_that_only_products_read_is_no_move() -> None:
    g = Graph()
    x = g.add_input("x", (1, 16, 4))
    turned = g.add_op("TRANSPOSE", [x], {"perms": (0, 2, 1)})
    b = g.add_input("b", (1, 16, 8))
    g.outputs = [g.add_op("MATMUL", [turned, b, zero_point(g, 0), zero_point(g, 0)])]
    assert Permutes(g, g.consumers()).only_products(turned)
    g.outputs.append(turned)
    assert not Permutes(g, g.consumers()).only_products(turned)


@pytest.mark.parametrize(("perms", "ahead"), [((0, 2, 1, 3), True), ((0, 1, 3, 2), False)])
def test_a_result_is_written_as_its_transpose_has_it(perms: tuple[int, ...], ahead: bool) -> None:
    """Only where channels stay next to each other."""
    g = Graph()
    y = rescale(g, g.add_input("x", (1, 6, 2, 4), "int32"), 0.1)
    g.outputs = [g.add_op("TRANSPOSE", [y], {"perms": perms}, name="turned")]
    found = Permutes(g, g.consumers()).ahead(y)
    assert (found is not None) == ahead
    if found is not None:
        assert found.result == "turned"
        assert (found.placed.shape, found.placed.strides) == ((1, 6, 2, 4), (48, 4, 24, 1))


def test_a_chain_ends_before_what_does_not_broadcast() -> None:
    g = Graph()
    x = g.add_input("x", (4, 8), "int32")
    a = g.add_op("ABS", [x], name="a")
    b = g.add_op("MUL", [a, x, g.add_constant("shift", [3], "int8")], name="b")
    s = g.add_op("REDUCE_SUM", [b], {"axis": 1}, name="s")
    c = g.add_op("SUB", [b, s], name="c")
    t = g.add_op("TRANSPOSE", [c], {"perms": (1, 0)}, name="t")
    g.outputs = [g.add_op("ABS", [t], name="z")]
    ctx = Context(g, preset("small"))
    assert [op.name for op in longest_chain(ctx, Chain(), g.ops[0])] == ["a", "b", "s", "c"]


def test_operators_that_other_layers_compute_are_no_chain() -> None:
    g = Graph()
    x = g.add_input("x", (4, 8), "int32")
    g.outputs = [clamp(g, rescale(g, x, 0.1), -3, 3)]
    ctx = Context(g, preset("small"))
    assert longest_chain(ctx, Chain(), g.ops[0]) == []


def test_a_row_must_fit_twice_in_a_third_of_the_scratchpad() -> None:
    config = preset("small")
    most = config.spad_bytes // 24
    assert row_fits(most, config) and not row_fits(most + 1, config)


@pytest.mark.parametrize(("side", "fits"), [(3, True), (150, False)])
def test_a_pool_is_one_layer_where_its_window_fits_on_chip(side: int, fits: bool) -> None:
    g = Graph()
    x = g.add_input("x", (1, 150, 150, 8))
    attributes = {"kernel": (side, side), "stride": (1, 1), "pad": (0, 0, 0, 0)}
    g.outputs = [g.add_op("MAX_POOL2D", [x], attributes, name="pool")]
    layers = lower(g, preset("tiny")).layers
    pools = [layer for layer in layers if isinstance(layer, PoolLayer)]
    assert all(pool_fits(pool, preset("tiny")) for pool in pools)
    if fits:
        assert [layer.name for layer in layers] == ["pool"]
    else:
        assert [pool.name for pool in pools] == [f"pool.part{i}" for i in range(len(pools))]
        assert isinstance(layers[-1], FusedLayer)
        assert sum(math.prod(pool.kernel) for pool in pools) == side * side


@pytest.mark.parametrize("fits", [True, False])
def test_a_reduction_joins_a_chain_only_if_its_axis_fits_in_the_share(fits: bool) -> None:
    config = preset("tiny")
    g = Graph()
    x = g.add_input("x", (2, config.spad_bytes // (48 if fits else 23)), "int32")
    y = g.add_op("ABS", [x])
    g.outputs = [g.add_op("SUB", [y, g.add_op("REDUCE_SUM", [y], {"axis": 1})])]
    layers = lower(g, config).layers
    assert (layers[0].ops == ("ABS", "REDUCE_SUM", "SUB")) == fits
    assert (len(layers) == 1) == fits

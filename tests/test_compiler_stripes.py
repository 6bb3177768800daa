"""Layers in stripes of rows: the same results, fewer bytes through memory, or not at all."""

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from compiler_graphs import assert_compiles_exactly, conv, depthwise, random_inputs
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from test_compiler_depthwise import same

from spec.config import NpuConfig, preset
from sw.compiler import compile_graph, pipeline
from sw.compiler.errors import CompileError
from sw.compiler.lower.stage import lower
from sw.compiler.passes.row_stripes import cut_rows
from sw.compiler.passes.stripe_regions import stripe_rows
from sw.compiler.pipeline import run_stages
from sw.compiler.tosa.graph import Graph, Op
from sw.compiler.tosa.interpreter import run_graph
from sw.compiler.tosa.macs import graph_macs

SMALL = replace(preset("default"), spad_kib=128)


def block(size: int, narrow: int, wide: int, stride: int, kernel: int = 3) -> Graph:
    """A block of a mobile network: one layer widens, one goes over pixels, one narrows."""
    g = Graph()
    x = g.add_input("x", (1, size, size, narrow))
    x = conv(g, x, wide, 1, seed=1)
    ends = same(size, kernel, stride)
    x = depthwise(g, x, (kernel, kernel), stride=(stride, stride), pad=(*ends, *ends), seed=2)
    g.outputs = [conv(g, x, narrow, 1, seed=3)]
    return g


def by_layer(ops: list[Op]) -> list[list[Op]]:
    starts = [i for i, op in enumerate(ops) if op.kind.endswith("CONV2D")]
    return [ops[a:b] for a, b in pairwise([*starts, len(ops)])]


@settings(deadline=None, max_examples=60)
@given(
    size=st.integers(4, 14),
    window=st.sampled_from([(1, 1), (3, 1), (3, 2), (5, 1), (5, 2), (5, 3)]),
    count=st.integers(2, 5),
    ahead=st.integers(0, 3),
)
def test_stripes_compute_the_same(
    size: int, window: tuple[int, int], count: int, ahead: int
) -> None:
    kernel, stride = window
    g = block(size, 3, 7, stride, kernel)
    rows = g.tensors[g.outputs[0]].shape[1]
    assume(rows >= count)
    inputs = random_inputs(g)
    want, macs = run_graph(g, inputs), graph_macs(g)
    cut_rows(g, by_layer(g.ops), count, ahead)
    g.verify()
    got = run_graph(g, inputs)
    np.testing.assert_array_equal(got[g.outputs[0]], want[g.outputs[0]])
    # What two stripes compute counts once.
    assert graph_macs(g) == macs
    kinds = [op.kind for op in g.ops]
    assert kinds.count("DEPTHWISE_CONV2D") == count and kinds[-1] == "CONCAT"


@pytest.mark.parametrize("stride", [1, 2])
def test_a_wide_block_is_computed_in_stripes_where_that_is_faster(stride: int) -> None:
    g = block(48, 16, 96, stride)
    image = compile_graph(g, SMALL)
    (said,) = image.info["striped"]
    # With a stride of 2, what the depthwise layer makes is small enough by itself.
    kept = 48 * 48 * 96 * (2 if stride == 1 else 1)
    assert f"{kept:,} bytes between them stay on chip" in said
    whole = compile_graph(g, SMALL, on_chip=False)
    for moved in ("predicted_read_bytes", "predicted_write_bytes"):
        assert image.info[moved] < whole.info[moved] - kept // 3
    assert_compiles_exactly(g, SMALL, random_inputs(g))
    assert_compiles_exactly(g, SMALL, random_inputs(g), fold=False)


def test_a_window_that_cannot_be_compiled_by_itself_is_left_whole(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The whole program compiles, so what a prediction alone cannot is no error."""
    g = block(48, 16, 96, 2)
    left = [CompileError("no part of a program")]

    def refusing(*given: Any, **named: Any) -> Any:
        if left:
            raise left.pop()
        return lower(*given, **named)

    monkeypatch.setattr(pipeline, "lower", refusing)
    assert compile_graph(g, SMALL).info["striped"] == []
    assert not left


def wide_result(g: Graph) -> str:
    """The result of the layer that widens."""
    return next(op.outputs[0] for op in g.ops if op.kind == "RESCALE")


def counted(g: Graph, config: NpuConfig, cycles: list[float]) -> int:
    """How many regions are cut if predictions are these, in order; the last one stays."""
    left = list(cycles)
    stripe_rows(g, config, lambda _: left.pop(0) if len(left) > 1 else left[0])
    return len(g.striped)


def test_stripes_that_are_no_faster_are_not_taken() -> None:
    assert counted(block(48, 16, 96, 1), SMALL, [1000, 990]) == 0
    assert counted(block(48, 16, 96, 1), SMALL, [1000, 970]) == 1
    assert counted(block(48, 16, 96, 1), SMALL, [float("inf"), 10]) == 0


def test_what_fits_on_chip_or_is_read_elsewhere_is_left_alone() -> None:
    assert counted(block(16, 16, 96, 1), SMALL, [1000, 1]) == 0
    # The depthwise layer of three rows takes longer than its operand's store: that is hidden.
    g = block(48, 16, 96, 1)
    g.outputs.append(wide_result(g))
    assert counted(g, SMALL, [1000, 1]) == 0
    g = block(48, 16, 96, 1, kernel=1)
    g.outputs.append(wide_result(g))
    # The layer that widens is not part of it: its result is read by the caller as well.
    before = [op.kind for op in g.ops]
    assert counted(g, SMALL, [1000, 1]) == 1
    assert g.striped[0].first != g.ops[0].name and [op.kind for op in g.ops[:2]] == before[:2]


def test_layers_of_stripes_take_turns() -> None:
    g = block(8, 4, 8, 1)
    cut_rows(g, by_layer(g.ops), 2, 1)
    products = [op.name.rpartition(".")[0::2] for op in g.ops if op.kind.endswith("CONV2D")]
    first, second, third = dict.fromkeys(name for name, _ in products)
    assert products == [
        (first, "0"),
        (first, "1"),
        (second, "0"),
        (third, "0"),
        (second, "1"),
        (third, "1"),
    ]


def test_reports_name_the_stripes_layers_by_their_module() -> None:
    g = block(48, 16, 96, 2)
    g.modules.update({op.name: f"blocks.{i}" for i, op in enumerate(g.ops)})
    done = run_stages(g, SMALL)
    parts = [layer for layer in done.image.info["layers"] if "." in layer["name"]]
    assert parts and all(layer["module"].startswith("blocks.") for layer in parts)

"""Every operator of the integer profile, compiled alone: golden model against the interpreter."""

import zlib

import numpy as np
import pytest
from compiler_graphs import assert_compiles_exactly, random_inputs
from hypothesis import given, settings
from hypothesis import strategies as st
from random_ops import BUILDERS
from random_tosa import CASES, random_graph

from spec.config import NpuConfig, preset
from spec.isa import Opcode
from sw.compiler import compile_graph
from sw.compiler.tosa.graph import Graph
from sw.compiler.tosa.table import OPERATORS

KINDS = sorted({*CASES, *(name.upper() for name in BUILDERS)})
PRODUCTS = ("CONV2D", "CONV3D", "DEPTHWISE_CONV2D", "TRANSPOSE_CONV2D")
presets = st.sampled_from(["tiny", "odd", "default"])
seeds = st.integers(0, 1 << 30)


def _case(kind: str, seed: int, also: int = 1) -> tuple[Graph, dict[str, np.ndarray]]:
    rng = np.random.default_rng([seed, zlib.crc32(kind.encode())])
    if kind in CASES:
        return random_graph(kind, rng, also)
    g = BUILDERS[kind.lower()](rng)
    return g, random_inputs(g, seed)


def test_no_operator_is_left_out() -> None:
    assert set(OPERATORS) <= set(KINDS)


@pytest.mark.parametrize("kind", KINDS)
@given(name=presets, seed=seeds)
@settings(max_examples=4, deadline=None)
def test_operator_alone_is_exact(kind: str, name: str, seed: int) -> None:
    g, inputs = _case(kind, seed)
    assert assert_compiles_exactly(g, preset(name), inputs) > 0


@pytest.mark.parametrize("kind", PRODUCTS)
@given(name=presets, seed=seeds, depthwise=st.booleans())
@settings(max_examples=4, deadline=None)
def test_weights_and_bias_in_memory_are_exact(
    kind: str, name: str, seed: int, depthwise: bool
) -> None:
    g, inputs = _case(kind, seed)
    config = preset(name) if depthwise else preset(name).with_settings({"depthwise": "false"})
    assert assert_compiles_exactly(g, config, inputs, fold=False) > 0


@pytest.mark.parametrize("kind", ["IDENTITY", "RESHAPE", "SLICE", "TRANSPOSE", "CONCAT"])
def test_operator_that_only_moves_is_carried_out_by_the_device(kind: str) -> None:
    g, _ = _case(kind, 1)
    opcodes = [i.opcode for i in compile_graph(g, preset("tiny")).instructions()]
    assert Opcode.LOAD in opcodes and Opcode.STORE in opcodes


def test_constant_as_output_is_written_by_the_device() -> None:
    g = Graph()
    x = g.add_input("x", (3,))
    g.outputs = [g.add_constant("c", np.arange(-6, 6).reshape(3, 4), "int16"), x]
    assert_compiles_exactly(g, preset("tiny"), random_inputs(g))


def _unary(kind: str, shape: tuple[int, ...], dtype: str, **attributes: object) -> Graph:
    g = Graph(name=kind.lower())
    x = g.add_input("x", shape, dtype)
    g.outputs = [g.add_op(kind, [x], attributes)]
    return g


@pytest.mark.parametrize(
    ("kind", "shape", "dtype", "attributes"),
    [
        ("REDUCE_SUM", (3, 20_003), "int32", {"axis": 1}),
        ("REDUCE_MAX", (20_003, 3), "int8", {"axis": 0}),
        ("REDUCE_MIN", (2, 5_000, 9), "int16", {"axis": 1}),
        ("REDUCE_ANY", (65_539,), "bool", {"axis": 0}),
        ("ARGMAX", (5, 97, 3), "int8", {"axis": 1}),
        ("ARGMAX", (40, 203), "int8", {"axis": 1}),
        ("ARGMAX", (2, 9_001), "int8", {"axis": 1}),
        ("ARGMAX", (3_001, 3), "int16", {"axis": 0}),
        ("REVERSE", (7, 3_001), "int16", {"axis": 1}),
        ("TRANSPOSE", (65_539, 2, 1), "int8", {"perms": (1, 2, 0)}),
        ("TRANSPOSE", (3, 4, 5, 2, 3, 7), "int16", {"perms": (5, 3, 1, 0, 2, 4)}),
        ("ABS", (1, 65_537, 1), "int32", {}),
        ("IDENTITY", (200_000,), "int8", {}),
    ],
)
def test_large_tensors_are_cut(
    kind: str, shape: tuple[int, ...], dtype: str, attributes: dict[str, object]
) -> None:
    g = _unary(kind, shape, dtype, **attributes)
    for name in ("tiny", "default"):
        assert_compiles_exactly(g, preset(name), random_inputs(g, 3))


@pytest.mark.parametrize(
    "shapes", [((6, 1, 20, 1, 40), (1, 7, 1, 3, 1)), ((1, 90, 1), (30, 1, 41))]
)
def test_broadcasting_of_large_tensors_is_cut(shapes: tuple[tuple[int, ...], ...]) -> None:
    g = Graph()
    operands = [g.add_input(f"x{i}", shape, "int32") for i, shape in enumerate(shapes)]
    g.outputs = [g.add_op("SUB", operands), g.add_op("MAXIMUM", operands[::-1])]
    for config in (preset("tiny"), NpuConfig(rows=8, cols=24, spad_kib=16, acc_kib=6)):
        assert_compiles_exactly(g, config, random_inputs(g, 5))

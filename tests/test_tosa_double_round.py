"""RESCALE with DOUBLE_ROUND as operators of the integer profile, against TOSA's own rule."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sw.compiler.errors import GraphError
from sw.compiler.tosa.double_round import add_double_round
from sw.compiler.tosa.graph import Graph, Op, Tensor
from sw.compiler.tosa.interpreter import run_graph


def double_round(value: int, multiplier: int, shift: int) -> int:
    """apply_scale_32 of TOSA 1.0 with double_round, on unbounded integers."""
    rounding = 1 << (shift - 1)
    if shift > 31:
        rounding += 1 << 30 if value >= 0 else -(1 << 30)
    return (value * multiplier + rounding) >> shift


def graph(
    dtype: str, out: str, zps: tuple[int, int], multipliers: list[int], shifts: list[int]
) -> Graph:
    g = Graph()
    x = g.add_input("x", (len(XS), len(shifts)), dtype)
    operands = [
        x,
        g.add_constant("m", multipliers, "int32"),
        g.add_constant("s", shifts, "int8"),
        g.add_constant("input_zp", [zps[0]], dtype),
        g.add_constant("output_zp", [zps[1]], out),
    ]
    g.add_tensor(Tensor(name="y", shape=g.tensors[x].shape, dtype=out))
    op = Op(kind="RESCALE", name="r", inputs=operands, outputs=["y"])
    op.attributes = {
        "scale32": True,
        "rounding_mode": "DOUBLE_ROUND",
        "per_channel": len(shifts) > 1,
        "input_unsigned": False,
        "output_unsigned": False,
    }
    add_double_round(g, op)
    g.outputs = ["y"]
    g.verify()
    return g


XS = (-128, -127, -65, -2, -1, 0, 1, 2, 63, 126, 127)


@given(
    st.lists(
        st.tuples(st.integers(1 << 30, (1 << 31) - 1), st.integers(26, 40)), min_size=1, max_size=3
    ),
    st.sampled_from(["int8", "int16", "int32"]),
    st.integers(-20, 20),
)
def test_two_roundings_are_exact(scales: list[tuple[int, int]], dtype: str, zp: int) -> None:
    input_zp = zp if dtype == "int8" else 0
    factor = {"int8": 1, "int16": 250, "int32": 16_000_000}[dtype]
    multipliers, shifts = [m for m, _ in scales], [s for _, s in scales]
    if dtype == "int32":
        # The result must fit in 32 bits before it saturates.
        shifts = [max(s, 31) for s in shifts]
    g = graph(dtype, "int8", (input_zp, 7), multipliers, shifts)
    values = [[factor * x] * len(shifts) for x in XS]
    (got,) = run_graph(g, {"x": np.array(values, np.dtype(dtype))}).values()
    expected = [
        [
            int(np.clip(double_round(v - input_zp, m, s) + 7, -128, 127))
            for v, m, s in zip(row, multipliers, shifts, strict=True)
        ]
        for row in values
    ]
    assert got.tolist() == expected


def test_shifts_that_round_once_stay_one_operator() -> None:
    g = graph("int8", "int8", (0, 0), [1 << 30], [31])
    assert [op.kind for op in g.ops] == ["RESCALE"]
    assert g.ops[0].attributes["rounding_mode"] == "SINGLE_ROUND"
    assert len(graph("int8", "int8", (0, 0), [1 << 30], [32]).ops) > 1


def test_unsigned_tensors_are_refused() -> None:
    g = Graph()
    x = g.add_input("x", (1, 4))
    operands = [
        x,
        g.add_constant("m", [1 << 30], "int32"),
        g.add_constant("s", [33], "int8"),
        g.add_constant("zp", [0], "int8"),
        g.add_constant("zp", [0], "int8"),
    ]
    op = Op(kind="RESCALE", name="r", inputs=operands, outputs=["y"], source="net.tosa")
    op.attributes = {"per_channel": False, "input_unsigned": True, "output_unsigned": False}
    with pytest.raises(GraphError, match="DOUBLE_ROUND of unsigned tensors is not supported"):
        add_double_round(g, op)

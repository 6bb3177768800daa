"""RESCALE with DOUBLE_ROUND, which TFLite's converter writes, as operators of the integer profile.

TOSA 1.0's extension EXT-DOUBLEROUND rounds twice where shift > 31: with v the operand less its zero
point, (v·m + 2^(s−1) ± 2^30) >> s, the sign being v's. That is, exactly, since floors nest,

    t = (v·m + 2^30) >> 31        for v >= 0, one less for v < 0
    (t + 2^(s−32)) >> (s−31)

so two RESCALEs with single rounding, and v >> 31 added between them. Where shift <= 31 the two
modes are the same; with `per_channel` the sum is masked for such channels.
"""

import numpy as np
from numpy.typing import NDArray

from sw.compiler.errors import GraphError
from sw.compiler.tosa.graph import Graph, Op
from sw.compiler.tosa.table import complete_attributes

_ONE = 30
"""2^30 and this shift change nothing."""


def add_double_round(graph: Graph, op: Op) -> None:
    """Append what RESCALE `op` means; its output tensor is declared already."""
    _, multiplier, shift, _, _ = op.inputs
    multipliers, shifts = graph.constant(multiplier), graph.constant(shift).astype(np.int64)
    single = {**op.attributes, "rounding_mode": "SINGLE_ROUND"}
    if (shifts <= 31).all():
        _append(graph, op, op.inputs, single)
        return
    if op.attributes["input_unsigned"] or op.attributes["output_unsigned"]:
        raise GraphError(
            "DOUBLE_ROUND of unsigned tensors is not supported",
            node=op.name,
            source=op.source,
            hint="use SINGLE_ROUND",
        )
    total = _rounded_once(graph, op, np.minimum(shifts, 31))
    last = [
        total,
        graph.add_constant(f"{op.name}_one", np.full(multipliers.shape, 1 << _ONE), "int32"),
        graph.add_constant(f"{op.name}_rest", _ONE + np.maximum(shifts - 31, 0), "int8"),
        graph.add_constant(f"{op.name}_zero", [0], "int32"),
        op.inputs[4],
    ]
    _append(graph, op, last, {**single, "scale32": True})


def _rounded_once(graph: Graph, op: Op, shifts: NDArray[np.int64]) -> str:
    """t of the module's description, as int32."""
    x, multiplier, shift, input_zp, _ = op.inputs
    dtype, rank = graph.tensors[x].dtype, len(graph.tensors[x].shape)
    zero = graph.add_constant(f"{op.name}_zero", [0], "int32")
    scale = {k: op.attributes[k] for k in ("scale32", "per_channel")}
    first = graph.add_constant(f"{op.name}_shift", shifts, "int8")
    operands = [x, multiplier, first, input_zp, zero]
    t = graph.add_op("RESCALE", operands, scale, out_dtype="int32", name=f"{op.name}_scaled")
    value = x
    if dtype != "int32":
        one = graph.add_constant(f"{op.name}_unit", [1 << _ONE], "int32")
        same = graph.add_constant(f"{op.name}_unit_shift", [_ONE], "int8")
        wide = [x, one, same, input_zp, zero]
        value = graph.add_op("RESCALE", wide, out_dtype="int32", name=f"{op.name}_wide")
    ones = (1,) * rank
    all_bits = graph.add_constant(f"{op.name}_bits", np.full(ones, 31), "int32")
    sign = graph.add_op("ARITHMETIC_RIGHT_SHIFT", [value, all_bits], name=f"{op.name}_sign")
    twice = graph.constant(shift).astype(np.int64) > 31
    if not twice.all():
        mask = np.where(twice, -1, 0).reshape((*ones[:-1], -1))
        chosen = graph.add_constant(f"{op.name}_mask", mask, "int32")
        sign = graph.add_op("BITWISE_AND", [sign, chosen], name=f"{op.name}_masked")
    return graph.add_op("ADD", [t, sign], name=f"{op.name}_once")


def _append(graph: Graph, op: Op, inputs: list[str], attributes: dict[str, object]) -> None:
    """The RESCALE that writes the output."""
    last = Op(kind="RESCALE", name=op.name, inputs=inputs, outputs=op.outputs, source=op.source)
    last.attributes = complete_attributes(last, attributes)
    graph.ops.append(last)

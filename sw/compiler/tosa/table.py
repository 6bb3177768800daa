"""The operator table of the graph IR: every integer operator of TOSA 1.0, one row each.

A new operator is a row here, its rules in `operators/` (shapes, types, ERROR_IF conditions of the
specification), its meaning in `semantics/`, and a row of `sw/compiler/lower/table.py`.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from sw.compiler.errors import GraphError
from sw.compiler.tosa.nodes import Op, Tensor
from sw.compiler.tosa.operators import elementwise, moves, products, reductions
from sw.compiler.tosa.operators.checker import INTS, Checker, Infer, OperatorSpec, Shape
from sw.compiler.tosa.operators.elementwise import binary, unary
from sw.compiler.tosa.operators.reductions import reduction
from sw.compiler.tosa.semantics import elementwise as element_values
from sw.compiler.tosa.semantics import moves as move_values
from sw.compiler.tosa.semantics import products as product_values
from sw.compiler.tosa.semantics import reductions as reduction_values
from sw.compiler.tosa.semantics.arrays import Evaluate
from sw.compiler.tosa.semantics.elementwise import binary as each
from sw.compiler.tosa.semantics.reductions import along

_NONE: Mapping[str, Any] = {}
_CONV = "input weight bias input_zp weight_zp"
_CONV2D = {"pad": (0, 0, 0, 0), "stride": (1, 1), "dilation": (1, 1), "acc_type": "int32"}
_CONV3D = {"pad": (0,) * 6, "stride": (1, 1, 1), "dilation": (1, 1, 1), "acc_type": "int32"}
_TRANSPOSE_CONV = {"out_pad": (0, 0, 0, 0), "stride": (1, 1), "acc_type": "int32"}
_POOL = {"kernel": None, "stride": None, "pad": (0, 0, 0, 0)}
_RESCALE = {
    "scale32": True,
    "rounding_mode": "SINGLE_ROUND",
    "per_channel": False,
    "input_unsigned": False,
    "output_unsigned": False,
}


def _row(
    operands: str,
    infer: Infer,
    evaluate: Evaluate,
    attributes: Mapping[str, Any] = _NONE,
    *,
    variadic: bool = False,
) -> OperatorSpec:
    """A row; names of operands with blanks between them."""
    return OperatorSpec(
        operands=tuple(operands.split()),
        infer=infer,
        evaluate=evaluate,
        attributes=attributes,
        variadic=variadic,
    )


def _one(infer: Infer, evaluate: Evaluate) -> OperatorSpec:
    return _row("input1", infer, evaluate)


def _two(infer: Infer, evaluate: Evaluate, attributes: Mapping[str, Any] = _NONE) -> OperatorSpec:
    return _row("input1 input2", infer, evaluate, attributes)


def _axis(infer: Infer, evaluate: Evaluate) -> OperatorSpec:
    return _row("input", infer, evaluate, {"axis": None})


OPERATORS: Mapping[str, OperatorSpec] = {
    # Products and pools
    "CONV2D": _row(_CONV, products.conv2d, product_values.conv, _CONV2D),
    "CONV3D": _row(_CONV, products.conv3d, product_values.conv, _CONV3D),
    "TRANSPOSE_CONV2D": _row(
        _CONV, products.transpose_conv2d, product_values.transpose_conv2d, _TRANSPOSE_CONV
    ),
    "DEPTHWISE_CONV2D": _row(
        _CONV, products.depthwise_conv2d, product_values.depthwise_conv2d, _CONV2D
    ),
    "MATMUL": _row("A B A_zp B_zp", products.matmul, product_values.matmul),
    "MAX_POOL2D": _row("input", products.max_pool2d, product_values.max_pool2d, _POOL),
    "AVG_POOL2D": _row(
        "input input_zp output_zp",
        products.avg_pool2d,
        product_values.avg_pool2d,
        {**_POOL, "acc_type": "int32"},
    ),
    # Elementwise operators
    "ADD": _two(binary("int32"), each(np.add)),
    "SUB": _two(binary("int32"), each(np.subtract)),
    "MAXIMUM": _two(binary("int32"), each(np.maximum)),
    "MINIMUM": _two(binary("int32"), each(np.minimum)),
    "INTDIV": _two(binary("int32"), each(element_values.intdiv)),
    "BITWISE_AND": _two(binary(*INTS), each(np.bitwise_and)),
    "BITWISE_OR": _two(binary(*INTS), each(np.bitwise_or)),
    "BITWISE_XOR": _two(binary(*INTS), each(np.bitwise_xor)),
    "LOGICAL_LEFT_SHIFT": _two(binary(*INTS), each(element_values.left_shift)),
    "LOGICAL_RIGHT_SHIFT": _two(binary(*INTS), element_values.logical_right_shift),
    "ARITHMETIC_RIGHT_SHIFT": _two(binary(*INTS), element_values.right_shift, {"round": False}),
    "LOGICAL_AND": _two(binary("bool"), each(np.bitwise_and)),
    "LOGICAL_OR": _two(binary("bool"), each(np.bitwise_or)),
    "LOGICAL_XOR": _two(binary("bool"), each(np.bitwise_xor)),
    "EQUAL": _two(binary("int32", result="bool"), each(np.equal)),
    "GREATER": _two(binary("int32", result="bool"), each(np.greater)),
    "GREATER_EQUAL": _two(binary("int32", result="bool"), each(np.greater_equal)),
    "MUL": _row("input1 input2 shift", elementwise.mul, element_values.mul),
    "ABS": _one(unary("int32"), element_values.absolute),
    "CLZ": _one(unary("int32"), element_values.clz),
    "BITWISE_NOT": _one(unary(*INTS), element_values.bitwise_not),
    "LOGICAL_NOT": _one(unary("bool"), element_values.logical_not),
    "NEGATE": _row("input1 input1_zp output_zp", elementwise.negate, element_values.negate),
    "SELECT": _row("input1 input2 input3", elementwise.select, element_values.select),
    "CAST": _row("input", elementwise.cast, element_values.cast),
    "RESCALE": _row(
        "input multiplier shift input_zp output_zp",
        elementwise.rescale,
        element_values.rescale,
        _RESCALE,
    ),
    "CLAMP": _row(
        "input", elementwise.clamp, element_values.clamp, {"min_val": None, "max_val": None}
    ),
    "TABLE": _row("input1 table", elementwise.table, element_values.table),
    # Reductions
    "REDUCE_SUM": _axis(reduction("int32"), reduction_values.sum_),
    "REDUCE_MAX": _axis(reduction(*INTS), along(np.max)),
    "REDUCE_MIN": _axis(reduction(*INTS), along(np.min)),
    "REDUCE_ALL": _axis(reduction("bool"), along(np.all)),
    "REDUCE_ANY": _axis(reduction("bool"), along(np.any)),
    "ARGMAX": _axis(reductions.argmax, reduction_values.argmax),
    # Operators that move data, and RESIZE
    "RESHAPE": _row("input1 shape", moves.reshape, move_values.reshape),
    "TRANSPOSE": _row("input1", moves.transpose, move_values.transpose, {"perms": None}),
    "PAD": _row("input1 padding pad_const", moves.pad, move_values.pad),
    "SLICE": _row("input1 start size", moves.slice_, move_values.slice_),
    "TILE": _row("input1 multiples", moves.tile, move_values.tile),
    "REVERSE": _row("input1", moves.reverse, move_values.reverse, {"axis": None}),
    "CONCAT": _row("input1", moves.concat, move_values.concat, {"axis": None}, variadic=True),
    "GATHER": _row("values indices", moves.gather, move_values.gather),
    "SCATTER": _row("values_in indices input", moves.scatter, move_values.scatter),
    "RESIZE": _row("input scale offset border", moves.resize, move_values.resize, {"mode": None}),
    "IDENTITY": _one(moves.identity, move_values.identity),
}


def operator(op: Op) -> OperatorSpec:
    """The table's row for `op`; `GraphError` on a kind that it does not have."""
    spec = OPERATORS.get(op.kind)
    if spec is None:
        raise GraphError(
            f"unknown operator {op.kind}",
            node=op.name,
            source=op.source,
            hint=f"operators of this release: {', '.join(OPERATORS)}",
        )
    return spec


def complete_attributes(op: Op, given: Mapping[str, Any]) -> dict[str, Any]:
    """`given` with defaults added, lists as tuples; `GraphError` on unknown or missing names."""
    spec = operator(op)
    for key in given:
        if key not in spec.attributes:
            known = ", ".join(spec.attributes) or "none"
            raise GraphError(
                f"{op.kind} has no attribute {key!r} (known: {known})",
                node=op.name,
                source=op.source,
            )
    merged = {**spec.attributes, **given}
    for key, value in merged.items():
        if value is None:
            raise GraphError(f"{op.kind} needs attribute {key!r}", node=op.name, source=op.source)
    return {k: tuple(v) if isinstance(v, list) else v for k, v in merged.items()}


def infer(tensors: Mapping[str, Tensor], op: Op, out_dtype: str = "") -> tuple[Shape, str]:
    """Shape and dtype of the output of `op`, with every rule of the operator checked."""
    spec = operator(op)
    return spec.infer(Checker(tensors, op, spec), out_dtype)

"""The table of lowerings: by operator, the function that adds its layers.

Before a row is asked, `stage` has tried whether the operator begins a chain (`chains`). A function
takes with the operator whatever follows it and its layer can compute (`epilogues`).
"""

from collections.abc import Mapping

from sw.compiler.errors import CompileError
from sw.compiler.lower import gathers, moves, pools, resize
from sw.compiler.lower.context import Lower
from sw.compiler.lower.elementwise import operators as elementwise
from sw.compiler.lower.elementwise.argmax import argmax
from sw.compiler.lower.elementwise.reductions import reduction
from sw.compiler.lower.products import convolutions
from sw.compiler.lower.products.conv3d import conv3d
from sw.compiler.lower.products.transpose_conv import transpose_conv2d
from sw.compiler.tosa.graph import Op

LOWERINGS: Mapping[str, Lower] = {
    "CONV2D": convolutions.conv2d,
    "DEPTHWISE_CONV2D": convolutions.depthwise_conv2d,
    "MATMUL": convolutions.matmul,
    "CONV3D": conv3d,
    "TRANSPOSE_CONV2D": transpose_conv2d,
    "MAX_POOL2D": pools.pool,
    "AVG_POOL2D": pools.pool,
    "RESCALE": elementwise.rescale,
    "CLAMP": elementwise.clamp,
    "TABLE": elementwise.table,
    "ADD": elementwise.binary,
    "SUB": elementwise.binary,
    "MAXIMUM": elementwise.binary,
    "MINIMUM": elementwise.binary,
    "MUL": elementwise.elementwise,
    "INTDIV": elementwise.elementwise,
    "ABS": elementwise.elementwise,
    "NEGATE": elementwise.elementwise,
    "CLZ": elementwise.elementwise,
    "SELECT": elementwise.elementwise,
    "CAST": elementwise.elementwise,
    "BITWISE_NOT": elementwise.elementwise,
    "BITWISE_AND": elementwise.elementwise,
    "BITWISE_OR": elementwise.elementwise,
    "BITWISE_XOR": elementwise.elementwise,
    "LOGICAL_NOT": elementwise.elementwise,
    "LOGICAL_AND": elementwise.elementwise,
    "LOGICAL_OR": elementwise.elementwise,
    "LOGICAL_XOR": elementwise.elementwise,
    "LOGICAL_LEFT_SHIFT": elementwise.elementwise,
    "LOGICAL_RIGHT_SHIFT": elementwise.elementwise,
    "ARITHMETIC_RIGHT_SHIFT": elementwise.elementwise,
    "EQUAL": elementwise.elementwise,
    "GREATER": elementwise.elementwise,
    "GREATER_EQUAL": elementwise.elementwise,
    "REDUCE_SUM": reduction,
    "REDUCE_MAX": reduction,
    "REDUCE_MIN": reduction,
    "REDUCE_ALL": reduction,
    "REDUCE_ANY": reduction,
    "ARGMAX": argmax,
    "RESHAPE": moves.alias,
    "IDENTITY": moves.alias,
    "SLICE": moves.alias,
    "TRANSPOSE": moves.transpose,
    "PAD": moves.pad,
    "CONCAT": moves.concat,
    "TILE": moves.tile,
    "REVERSE": moves.reverse,
    "GATHER": gathers.gather,
    "SCATTER": gathers.scatter,
    "RESIZE": resize.resize,
}


def lowering(op: Op) -> Lower:
    """The row of `op`; `CompileError` names an operator that has none."""
    if op.kind not in LOWERINGS:
        raise CompileError(
            f"operator {op.kind} has no implementation on the device",
            node=op.name,
            source=op.source,
            hint=f"supported: {', '.join(sorted(LOWERINGS))}",
        )
    return LOWERINGS[op.kind]

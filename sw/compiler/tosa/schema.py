"""What TOSA's flatbuffer schema numbers: operators, types, modes, and where attributes lie.

Source: `tosa.fbs` of the TOSA serialization library, version 1.0 (new entries only go to the end).
"""

from collections.abc import Mapping

OPERATORS = (
    "UNKNOWN", "ARGMAX", "AVG_POOL2D", "CONV2D", "CONV3D", "DEPTHWISE_CONV2D", "FFT2D", "MATMUL",
    "MAX_POOL2D", "RFFT2D", "TRANSPOSE_CONV2D", "CLAMP", "ERF", "SIGMOID", "TANH", "ADD",
    "ARITHMETIC_RIGHT_SHIFT", "BITWISE_AND", "BITWISE_OR", "BITWISE_XOR", "INTDIV", "LOGICAL_AND",
    "LOGICAL_LEFT_SHIFT", "LOGICAL_RIGHT_SHIFT", "LOGICAL_OR", "LOGICAL_XOR", "MAXIMUM", "MINIMUM",
    "MUL", "POW", "SUB", "TABLE", "ABS", "BITWISE_NOT", "CEIL", "CLZ", "COS", "EXP", "FLOOR", "LOG",
    "LOGICAL_NOT", "NEGATE", "RECIPROCAL", "RSQRT", "SIN", "SELECT", "EQUAL", "GREATER",
    "GREATER_EQUAL", "REDUCE_ALL", "REDUCE_ANY", "REDUCE_MAX", "REDUCE_MIN", "REDUCE_PRODUCT",
    "REDUCE_SUM", "CONCAT", "PAD", "RESHAPE", "REVERSE", "SLICE", "TILE", "TRANSPOSE", "GATHER",
    "SCATTER", "RESIZE", "CAST", "RESCALE", "CONST", "IDENTITY", "CUSTOM", "COND_IF", "WHILE_LOOP",
    "VARIABLE", "VARIABLE_WRITE", "VARIABLE_READ", "CONST_SHAPE",
)  # fmt: skip
DTYPES = (
    "UNKNOWN", "BOOL", "INT4", "INT8", "INT16", "INT32", "INT48", "FP32", "FP16", "BF16", "SHAPE",
    "FP8E4M3", "FP8E5M2",
)  # fmt: skip
RESIZE_MODES = ("UNKNOWN", "NEAREST", "BILINEAR")
ROUNDING_MODES = ("UNKNOWN", "SINGLE_ROUND", "INEXACT_ROUND", "DOUBLE_ROUND")

Field = tuple[str, int, str]
"""Attribute name, index in the operator's record, and how it is stored."""

_CONV: tuple[Field, ...] = (
    ("pad", 0, "ints"),
    ("stride", 1, "ints"),
    ("dilation", 2, "ints"),
    ("acc_type", 4, "dtype"),
)
_AXIS: tuple[Field, ...] = (("axis", 0, "int"),)

ATTRIBUTES: Mapping[str, tuple[Field, ...]] = {
    "CONV2D": _CONV,
    "CONV3D": _CONV,
    "DEPTHWISE_CONV2D": _CONV,
    "TRANSPOSE_CONV2D": (
        ("out_pad", 0, "ints"),
        ("stride", 1, "ints"),
        ("acc_type", 3, "dtype"),
    ),
    "MAX_POOL2D": (("kernel", 0, "ints"), ("stride", 1, "ints"), ("pad", 2, "ints")),
    "AVG_POOL2D": (
        ("kernel", 0, "ints"),
        ("stride", 1, "ints"),
        ("pad", 2, "ints"),
        ("acc_type", 3, "dtype"),
    ),
    "RESCALE": (
        ("scale32", 0, "flag"),
        ("rounding_mode", 1, "rounding"),
        ("per_channel", 2, "flag"),
        ("input_unsigned", 3, "flag"),
        ("output_unsigned", 4, "flag"),
    ),
    "CLAMP": (("min_val", 0, "value"), ("max_val", 1, "value")),
    "ARITHMETIC_RIGHT_SHIFT": (("round", 0, "flag"),),
    "TRANSPOSE": (("perms", 0, "ints"),),
    "RESIZE": (("mode", 0, "resize"),),
    **dict.fromkeys(
        (
            "ARGMAX", "REDUCE_ALL", "REDUCE_ANY", "REDUCE_MAX", "REDUCE_MIN", "REDUCE_SUM",
            "CONCAT", "REVERSE",
        ),
        _AXIS,
    ),
}  # fmt: skip

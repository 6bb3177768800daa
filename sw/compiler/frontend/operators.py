"""The one table of operators: which rule imports each, for which types, within which limits.

Rules, `support.py`, the tests and docs/operators.md all follow from it. Several spellings of one
operator (`linear`, `addmm`) have a row each.
"""

import operator
from typing import Any

from torch.fx import Node

from sw.compiler.frontend import limits as checks
from sw.compiler.frontend.importer import Rule
from sw.compiler.frontend.operator_row import (
    ANY,
    EXACT,
    EXACT_OR_ONE,
    FLOAT,
    NUMBERS,
    ROUNDED,
    Operator,
    Pcc,
    Steps,
    Table,
)
from sw.compiler.frontend.operator_row import rows as _rows
from sw.compiler.frontend.rewrites.rows import REWRITTEN
from sw.compiler.frontend.rules import (
    convolutions,
    elementwise,
    gathers,
    logic,
    moves,
    pools,
    products,
    quantize,
    reductions,
)

_WEIGHTS = "constant weights"
_FACTORS = "factors above 1/16 whose numerator is at most 2048, as fractions of even terms"

ROWS: tuple[Operator, ...] = (
    # Products
    *_rows(products.linear, FLOAT, Pcc(0.999), "linear"),
    *_rows(products.mm, FLOAT, Pcc(0.999), "mm", "addmm",
           check=checks.addmm),
    *_rows(products.matmul, FLOAT, Pcc(0.999), "matmul", "bmm",
           check=checks.matmul),
    *_rows(products.baddbmm, FLOAT, Pcc(0.999), "baddbmm",
           constants=(0,)),
    *_rows(products.attention, FLOAT, Pcc(0.999), "scaled_dot_product_attention",
           check=checks.attention),
    *_rows(convolutions.convolution, FLOAT, Pcc(0.999), "conv1d", "conv2d", "conv3d",
           "conv1d.padding", "conv2d.padding", "conv3d.padding", "convolution", "conv_transpose1d",
           "conv_transpose2d.input", limits=_WEIGHTS, check=checks.convolution, constants=(1,)),
    *_rows(
        convolutions.affine, FLOAT, Steps(2), "_native_batch_norm_legit_no_training", "batch_norm",
        limits="constant parameters; folded into a convolution before it", check=checks.inference,
        constants=(1, 2, 3, 4),
    ),
    # Pools and images
    *_rows(pools.max_pool, FLOAT, EXACT, "max_pool2d", limits="dilation without padding",
           check=checks.max_pool),
    *_rows(
        pools.max_pool, FLOAT, EXACT, "max_pool2d_with_indices",
        limits="values only; dilation without padding", check=checks.max_pool,
    ),
    *_rows(pools.avg_pool, FLOAT, ROUNDED, "avg_pool2d",
           limits="ceil_mode, divisor_override: error ≤ 5 steps", check=checks.avg_pool),
    *_rows(
        pools.adaptive_avg_pool, FLOAT, ROUNDED, "adaptive_avg_pool2d", "_adaptive_avg_pool2d",
        limits="sizes that do not divide evenly: at most 64, error ≤ 2 steps",
        check=checks.adaptive_pool,
    ),
    *_rows(pools.nearest, FLOAT, EXACT, "upsample_nearest1d.vec", "upsample_nearest2d.vec",
           "_upsample_nearest_exact1d.vec", "_upsample_nearest_exact2d.vec",
           limits=_FACTORS, check=checks.upsample),
    *_rows(
        pools.bilinear, FLOAT, Pcc(0.999), "upsample_linear1d.vec", "upsample_bilinear2d.vec",
        limits=f"{_FACTORS}; the input as int8", check=checks.upsample,
    ),
    *_rows(pools.constant_pad, FLOAT, ROUNDED, "constant_pad_nd"),
    # Sums, norms, functions
    *_rows(
        elementwise.add, NUMBERS, ROUNDED, "add.Tensor", "add.Scalar",
        check=checks.alpha,
    ),
    *_rows(
        elementwise.sub, NUMBERS, ROUNDED, "sub.Tensor", "sub.Scalar",
        check=checks.alpha,
    ),
    *_rows(elementwise.multiply, NUMBERS, ROUNDED, "mul.Tensor", "mul.Scalar"),
    *_rows(
        elementwise.divide, FLOAT, Steps(2), "div.Tensor", "div.Scalar",
        limits="a number, or a tensor that calibration saw of one sign",
    ),
    *_rows(products.softmax, FLOAT, Pcc(0.999), "softmax.int", "_softmax",
           check=checks.last_axis),
    *_rows(
        elementwise.layer_norm, FLOAT, Pcc(0.9999), "layer_norm", "native_layer_norm",
        check=checks.layer_norm, constants=(2, 3),
    ),
    *_rows(elementwise.group_norm, FLOAT, Pcc(0.9999), "group_norm",
           limits="constant parameters", constants=(2, 3)),
    *_rows(elementwise.group_norm, FLOAT, Pcc(0.9999), "native_group_norm",
           limits="constant parameters", constants=(1, 2)),
    *_rows(elementwise.univariate, FLOAT, Pcc(0.9999), "rms_norm",
           limits="over the last dimension"),
    *_rows(
        elementwise.bounded, NUMBERS, ROUNDED, "relu", "relu6", "hardtanh", "clamp", "clamp_min",
        "clamp_max", limits="numbers as bounds",
    ),
    *_rows(
        elementwise.univariate, FLOAT, Table(), "gelu", "silu", "sigmoid", "tanh", "exp", "expm1",
        "erf", "sin", "cos", "atan", "abs", "neg", "square", "pow.Tensor_Scalar", "pow.Scalar",
        "rsub.Scalar", "softplus", "leaky_relu", "elu", "hardswish", "hardsigmoid", "sinh", "cosh",
        "asinh", "exp2", "erfc", "log_sigmoid", "selu", "celu", "mish",
    ),
    *_rows(
        elementwise.univariate, FLOAT, Table(), "sqrt", "rsqrt", "reciprocal", "log", "log1p",
        "log2", "log10", "tan", "asin", "acos", "acosh", "atanh", "logit",
        limits="as accurate as a table is over the calibrated range: poor near a pole",
    ),
    *_rows(
        elementwise.univariate, FLOAT, Table(), "pow.Tensor_Tensor", check=checks.one_variable,
        limits="as accurate as a table is over the calibrated range: poor near a pole; pow of two "
        "tensors with one of them a number",
    ),
    *_rows(logic.floor, FLOAT, EXACT_OR_ONE, "floor"),
    *_rows(logic.ceil, FLOAT, EXACT_OR_ONE, "ceil"),
    *_rows(logic.trunc, FLOAT, EXACT_OR_ONE, "trunc"),
    *_rows(logic.round_, FLOAT, EXACT_OR_ONE, "round"),
    *_rows(logic.integer_division, NUMBERS, EXACT, "div.Tensor_mode",
           limits="of float values by a number, within 2 steps", check=checks.integer_division),
    # Reductions
    *_rows(reductions.mean, FLOAT, ROUNDED, "mean.dim", "mean"),
    *_rows(reductions.total, ANY, ROUNDED, "sum.dim_IntList", "sum"),
    *_rows(reductions.amax, NUMBERS, EXACT, "amax", "max"),
    *_rows(reductions.amin, NUMBERS, EXACT, "amin", "min"),
    *_rows(reductions.amax, NUMBERS, EXACT, "max.dim", limits="values only"),
    *_rows(reductions.amin, NUMBERS, EXACT, "min.dim", limits="values only"),
    *_rows(reductions.argmax, FLOAT, EXACT, "argmax"),
    *_rows(reductions.any_, ANY, EXACT, "any", "any.dim", "any.dims"),
    *_rows(reductions.cumsum, ANY, ROUNDED, "cumsum"),
    # Comparisons, logic, choice
    *_rows(logic.COMPARISONS["eq"], ANY, EXACT, "eq.Scalar", "eq.Tensor"),
    *_rows(logic.COMPARISONS["ne"], ANY, EXACT, "ne.Scalar", "ne.Tensor"),
    *_rows(logic.COMPARISONS["lt"], ANY, EXACT, "lt.Scalar", "lt.Tensor"),
    *_rows(logic.COMPARISONS["le"], ANY, EXACT, "le.Scalar", "le.Tensor"),
    *_rows(logic.COMPARISONS["gt"], ANY, EXACT, "gt.Scalar", "gt.Tensor"),
    *_rows(logic.COMPARISONS["ge"], ANY, EXACT, "ge.Scalar", "ge.Tensor"),
    *_rows(logic.logical_not, ANY, EXACT, "logical_not"),
    *_rows(logic.logical_and, ANY, EXACT, "logical_and"),
    *_rows(logic.logical_or, ANY, EXACT, "logical_or"),
    *_rows(logic.logical_xor, ANY, EXACT, "logical_xor"),
    *_rows(logic.bitwise_not, "int, bool", EXACT, "bitwise_not"),
    *_rows(logic.bitwise_and, "int, bool", EXACT, "bitwise_and.Tensor", "bitwise_and.Scalar",
           "__and__.Tensor"),
    *_rows(logic.bitwise_or, "int, bool", EXACT, "bitwise_or.Tensor", "__or__.Tensor"),
    *_rows(logic.bitwise_xor, "int, bool", EXACT, "bitwise_xor.Tensor"),
    *_rows(logic.where, ANY, ROUNDED, "where.self", "where.ScalarSelf", "where.ScalarOther",
           "where.Scalar"),
    *_rows(logic.masked_fill, ANY, ROUNDED, "masked_fill.Scalar", "masked_fill.Tensor"),
    *_rows(logic.maximum, NUMBERS, ROUNDED, "maximum"),
    *_rows(logic.minimum, NUMBERS, ROUNDED, "minimum"),
    # Moves
    *_rows(
        moves.view, ANY, EXACT, "view", "reshape", "_unsafe_view", "flatten.using_ints",
        "unsqueeze", "squeeze", "squeeze.dim", "squeeze.dims",
    ),
    *_rows(moves.permute, ANY, EXACT, "permute", "transpose.int", "t"),
    *_rows(moves.slice_, ANY, EXACT, "slice.Tensor"),
    *_rows(moves.select, ANY, EXACT, "select.int"),
    *_rows(moves.split, ANY, EXACT, "split.Tensor", "split_with_sizes", "chunk"),
    *_rows(moves.unbind, ANY, EXACT, "unbind.int"),
    *_rows(moves.cat, ANY, ROUNDED, "cat"),
    *_rows(moves.stack, ANY, ROUNDED, "stack"),
    *_rows(moves.expand, ANY, EXACT, "expand", "expand_as"),
    *_rows(moves.repeat, ANY, EXACT, "repeat"),
    *_rows(moves.flip, ANY, EXACT, "flip"),
    *_rows(moves.copy, ANY, ROUNDED, "copy"),
    *_rows(
        elementwise.same, ANY, EXACT, "clone", "alias", "contiguous", "detach", "dropout",
        "lift_fresh_copy", check=checks.dropout,
    ),
    *_rows(logic.cast, ANY, ROUNDED, "_to_copy", "to.dtype", "type_as",
           limits="float32, integers, bool; towards zero", check=checks.precision),
    *_rows(moves.getitem, ANY, EXACT, "getitem"),
    # Values by indices
    *_rows(gathers.embedding, NUMBERS, ROUNDED, "embedding"),
    *_rows(gathers.index, NUMBERS, EXACT, "index.Tensor",
           limits="integer indices of neighbouring dimensions", check=checks.one_index),
    *_rows(gathers.index_select, NUMBERS, EXACT, "index_select"),
    *_rows(gathers.gather, NUMBERS, EXACT, "gather"),
    # Constants that take only the shape of what they read
    *_rows(
        elementwise.same, ANY, ROUNDED, "full_like", "zeros_like", "ones_like", "new_zeros",
        "new_ones", "new_full",
    ),
    *REWRITTEN,
)  # fmt: skip

TABLE = {row.name: row for row in ROWS}
"""Rows by name."""

_GROUPS: dict[str, Rule] = {
    "same": elementwise.same,
    "scale": elementwise.scale,
    "univariate": elementwise.univariate,
    "bounded": elementwise.bounded,
    "rms_norm": elementwise.rms_norm,
    "linear": products.linear,
    "convolution": convolutions.convolution,
    "affine": convolutions.affine,
    "cast": logic.cast,
    "quantize": quantize.quantize,
}
"""Rules of groups of nodes (`plan.py`)."""

RULES: dict[str, Rule] = {
    **{row.name: row.rule for row in ROWS if row.rule is not None},
    **_GROUPS,
}


def limits(node: Node) -> str:
    """'' where `node` lies within the limits of its operator, else the reason why not."""
    row = row_of(node.target)
    return "" if row is None else row.check(node)


def row_of(target: Any) -> Operator | None:
    """The row of an FX target, None where there is none."""
    return TABLE.get("getitem" if target is operator.getitem else str(target))

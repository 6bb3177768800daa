"""The one table of operators: which rule imports each, for which types, within which limits.

Rules, rewrites, `operator_sets.py`, `support.py`, the tests and docs/operators.md follow from it.
Several spellings of one operator (`linear`, `addmm`) have a row each.
"""

import operator
from typing import Any

from sw.compiler.frontend import limits as checks
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
    rewritten,
    rows,
)

_PRODUCT, _FUNCTION, _NORM = Pcc(0.999), Pcc(0.9995), Pcc(0.9999)
_RESIZED = "factors above 1/16 whose numerator is at most 2048, as fractions of even terms"
_POLE = "as accurate as a table is over the calibrated range: poor near a pole"
_FINITE = "nothing is NaN or infinite on the NPU"

ROWS: tuple[Operator, ...] = (
    # Products
    *rows("linear", FLOAT, _PRODUCT, "linear", constants=(1, 2)),
    *rows("mm", FLOAT, _PRODUCT, "mm", "addmm", check=checks.addmm),
    *rows("matmul", FLOAT, _PRODUCT, "matmul", "bmm", check=checks.matmul),
    *rewritten(FLOAT, _PRODUCT, "baddbmm"),
    *rows("attention", FLOAT, _PRODUCT, "scaled_dot_product_attention", check=checks.attention),
    *rows("convolution", FLOAT, _PRODUCT, "conv1d", "conv2d", "conv3d", "conv1d.padding",
          "conv2d.padding", "conv3d.padding", "convolution", "conv_transpose1d",
          "conv_transpose2d.input", check=checks.convolution, constants=(1, 2)),
    *rows("affine", FLOAT, Steps(2), "_native_batch_norm_legit_no_training", "batch_norm",
          limits="folded into a convolution before it where the parameters are constant",
          check=checks.inference, constants=(1, 2, 3, 4)),
    # Pools and images
    *rows("max_pool", FLOAT, EXACT, "max_pool2d", limits="dilation without padding",
          check=checks.max_pool),
    *rewritten(FLOAT, EXACT, "max_pool2d_with_indices",
               limits="values only; dilation without padding"),
    *rows("avg_pool", FLOAT, ROUNDED, "avg_pool2d",
          limits="ceil_mode, divisor_override: error ≤ 5 steps", check=checks.avg_pool),
    *rows("adaptive_avg_pool", FLOAT, ROUNDED, "adaptive_avg_pool2d", "_adaptive_avg_pool2d",
          limits="sizes that do not divide evenly: at most 64, error ≤ 2 steps",
          check=checks.adaptive_pool),
    *rows("nearest", FLOAT, EXACT, "upsample_nearest1d.vec", "upsample_nearest2d.vec",
          "_upsample_nearest_exact1d.vec", "_upsample_nearest_exact2d.vec", limits=_RESIZED,
          check=checks.upsample),
    *rows("bilinear", FLOAT, _PRODUCT, "upsample_linear1d.vec", "upsample_bilinear2d.vec",
          limits=f"{_RESIZED}; the input as int8", check=checks.upsample),
    *rows("constant_pad", FLOAT, ROUNDED, "constant_pad_nd"),
    # Sums, norms, functions
    *rows("add", NUMBERS, ROUNDED, "add.Tensor", "add.Scalar", check=checks.alpha),
    *rows("sub", NUMBERS, ROUNDED, "sub.Tensor", "sub.Scalar", check=checks.alpha),
    *rows("multiply", NUMBERS, ROUNDED, "mul.Tensor", "mul.Scalar"),
    *rows("divide", FLOAT, Steps(2), "div.Tensor", "div.Scalar",
          limits="a number, or a tensor that calibration saw of one sign"),
    *rows("softmax", FLOAT, _PRODUCT, "softmax.int", "_softmax", check=checks.last_axis),
    *rows("layer_norm", FLOAT, _NORM, "layer_norm", "native_layer_norm", check=checks.layer_norm,
          constants=(2, 3)),
    *rows("group_norm", FLOAT, _NORM, "group_norm", constants=(2, 3)),
    *rows("group_norm", FLOAT, _NORM, "native_group_norm", constants=(1, 2)),
    *rows("rms_norm", FLOAT, _NORM, "rms_norm", limits="over the last dimension"),
    *rows("bounded", NUMBERS, ROUNDED, "relu", "relu6", "hardtanh", "clamp", "clamp_min",
          "clamp_max", limits="numbers as bounds"),
    *rows("univariate", FLOAT, Table(), "gelu", "silu", "sigmoid", "tanh", "exp", "expm1", "erf",
          "sin", "cos", "atan", "abs", "neg", "square", "pow.Tensor_Scalar", "pow.Scalar",
          "rsub.Scalar", "softplus", "leaky_relu", "elu", "hardswish", "hardsigmoid", "sinh",
          "cosh", "asinh", "exp2", "erfc", "log_sigmoid", "selu", "celu", "mish"),
    *rows("univariate", FLOAT, Table(), "sqrt", "rsqrt", "reciprocal", "log", "log1p", "log2",
          "log10", "tan", "asin", "acos", "acosh", "atanh", "logit", limits=_POLE),
    *rows("univariate", FLOAT, Table(), "pow.Tensor_Tensor", check=checks.one_variable,
          limits=f"{_POLE}; pow of two tensors with one of them a number"),
    *rows("rounded", FLOAT, EXACT_OR_ONE, "floor", "ceil", "trunc", "round"),
    *rows("integer_division", NUMBERS, EXACT, "div.Tensor_mode",
          limits="of float values by a number, within 2 steps", check=checks.integer_division),
    # Reductions
    *rows("mean", FLOAT, ROUNDED, "mean.dim", "mean"),
    *rows("total", ANY, ROUNDED, "sum.dim_IntList", "sum"),
    *rows("extreme", NUMBERS, EXACT, "amax", "max", "amin", "min"),
    *rows("extreme", NUMBERS, EXACT, "max.dim", "min.dim", limits="values only"),
    *rows("argmax", NUMBERS, EXACT, "argmax"),
    *rows("any_", ANY, EXACT, "any", "any.dim", "any.dims"),
    *rows("cumsum", ANY, ROUNDED, "cumsum", check=checks.whole_sums),
    # Comparisons, logic, choice
    *rows("compare", ANY, EXACT, "eq.Scalar", "eq.Tensor", "ne.Scalar", "ne.Tensor", "lt.Scalar",
          "lt.Tensor", "le.Scalar", "le.Tensor", "gt.Scalar", "gt.Tensor", "ge.Scalar",
          "ge.Tensor"),
    *rows("logical_not", ANY, EXACT, "logical_not"),
    *rows("logical", ANY, EXACT, "logical_and", "logical_or", "logical_xor"),
    *rows("bitwise_not", "int, bool", EXACT, "bitwise_not"),
    *rows("bitwise", "int, bool", EXACT, "bitwise_and.Tensor", "bitwise_and.Scalar",
          "__and__.Tensor", "bitwise_or.Tensor", "__or__.Tensor", "bitwise_xor.Tensor"),
    *rows("where", ANY, ROUNDED, "where.self", "where.ScalarSelf", "where.ScalarOther",
          "where.Scalar"),
    *rewritten(ANY, ROUNDED, "masked_fill.Scalar", "masked_fill.Tensor"),
    *rows("extremum", NUMBERS, ROUNDED, "maximum", "minimum"),
    # Moves
    *rows("view", ANY, EXACT, "view", "reshape", "_unsafe_view", "flatten.using_ints",
          "unsqueeze", "squeeze", "squeeze.dim", "squeeze.dims"),
    *rows("permute", ANY, EXACT, "permute", "transpose.int", "t"),
    *rows("slice_", ANY, EXACT, "slice.Tensor"),
    *rows("select", ANY, EXACT, "select.int"),
    *rows("split", ANY, EXACT, "split.Tensor", "split_with_sizes", "chunk"),
    *rewritten(ANY, EXACT, "unbind.int"),
    *rows("cat", ANY, ROUNDED, "cat"),
    *rewritten(ANY, ROUNDED, "stack"),
    *rows("expand", ANY, EXACT, "expand", "expand_as"),
    *rows("repeat", ANY, EXACT, "repeat"),
    *rows("flip", ANY, EXACT, "flip"),
    *rows("copy", ANY, ROUNDED, "copy"),
    *rows("same", ANY, EXACT, "clone", "alias", "contiguous", "detach", "dropout",
          "lift_fresh_copy", check=checks.dropout),
    *rows("cast", ANY, ROUNDED, "_to_copy", "to.dtype",
          limits="float32, integers, bool; towards zero", check=checks.precision),
    *rewritten(ANY, ROUNDED, "type_as"),
    *rows("getitem", ANY, EXACT, "getitem"),
    # Values by indices
    *rows("embedding", NUMBERS, ROUNDED, "embedding"),
    *rows("index", NUMBERS, EXACT, "index.Tensor",
          limits="integer indices of neighbouring dimensions", check=checks.one_index),
    *rows("index_select", NUMBERS, EXACT, "index_select"),
    *rows("gather", NUMBERS, EXACT, "gather"),
    # Constants that take only the shape of what they read
    *rewritten(ANY, ROUNDED, "full_like", "zeros_like", "ones_like", "new_zeros", "new_ones",
          "new_full"),
    # Rewritten: products
    *rewritten(FLOAT, _PRODUCT, "mv", "dot", "vdot", "addmv", "outer", "bilinear", "einsum",
          "tensordot"),
    *rewritten(FLOAT, _FUNCTION, "cdist", "cosine_similarity", limits="order 1 or 2"),
    *rewritten(FLOAT, _PRODUCT, "conv_transpose3d.input"),
    # Rewritten: recurrent networks
    *rewritten(FLOAT, Pcc(0.99), "lstm.input", "gru.input", "rnn_tanh.input", "rnn_relu.input",
          limits="up to 512 steps, unrolled; no packed sequences; no dropout in training mode"),
    *rewritten(FLOAT, Pcc(0.99), "lstm_cell", "gru_cell", "rnn_tanh_cell", "rnn_relu_cell"),
    # Rewritten: pools, norms and images
    *rewritten(FLOAT, EXACT, "max_pool1d", "max_pool3d", "max_pool3d_with_indices",
          limits="values only; no dilation"),
    *rewritten(FLOAT, ROUNDED, "avg_pool1d"),
    *rewritten(FLOAT, Steps(2), "avg_pool3d", "adaptive_avg_pool3d", limits="no ceil_mode"),
    *rewritten(FLOAT, Steps(2), "adaptive_avg_pool1d", limits="up to 64 outputs a dimension"),
    *rewritten(FLOAT, EXACT, "adaptive_max_pool1d", "adaptive_max_pool2d", "adaptive_max_pool3d",
          limits="values only; up to 64 outputs a dimension"),
    *rewritten(FLOAT, _NORM, "instance_norm"),
    *rewritten(FLOAT, ROUNDED, "pad"),
    *rewritten(FLOAT, ROUNDED, "reflection_pad1d", "reflection_pad2d", "reflection_pad3d",
          "replication_pad1d", "replication_pad2d", "replication_pad3d"),
    *rewritten(FLOAT, EXACT, "upsample_nearest3d.vec", "_upsample_nearest_exact3d.vec"),
    *rewritten(FLOAT, _PRODUCT, "upsample_trilinear3d.vec", "upsample_bicubic2d.vec", "col2im"),
    # Rewritten: functions of elements
    *rewritten(NUMBERS, ROUNDED, "rsub.Tensor", "max.other", "min.other", "fmax", "fmin",
          "clamp.Tensor", "clamp_min.Tensor", "clamp_max.Tensor"),
    *rewritten(FLOAT, Steps(3), "lerp.Scalar", "lerp.Tensor", "addcmul", "addcdiv", "prelu",
          "rrelu", "glu", limits="addcdiv: a divisor that calibration saw of one sign"),
    *rewritten(NUMBERS, EXACT_OR_ONE, "sign", "sgn"),
    *rewritten(FLOAT, ROUNDED, "threshold", "hardshrink", "heaviside"),
    *rewritten(FLOAT, Steps(3), "softshrink", "frac"),
    *rewritten(FLOAT, _FUNCTION, "hypot", "logaddexp", "atan2", "sinc"),
    *rewritten(FLOAT, EXACT, "nan_to_num", limits=_FINITE),
    *rewritten(FLOAT, ROUNDED, "isinf", "isnan", limits=_FINITE),
    *rewritten(NUMBERS, EXACT_OR_ONE, "floor_divide", "div.Scalar_mode", "remainder.Scalar",
          "remainder.Tensor", "fmod.Scalar", "fmod.Tensor", limits="by a number, or of integers"),
    # Rewritten: reductions
    *rewritten(FLOAT, _FUNCTION, "var", "var.dim", "var.correction", "std", "std.dim",
          "std.correction", "var_mean.correction", "std_mean.correction", "linalg_vector_norm",
          "norm.ScalarOpt_dim", "logsumexp", "log_softmax.int", "_log_softmax", "prod",
          "prod.dim_int"),
    *rewritten(ANY, EXACT, "all", "all.dim", "all.dims"),
    *rewritten(NUMBERS, EXACT, "argmin", "aminmax"),
    *rewritten(ANY, EXACT, "count_nonzero.dim_IntList"),
    *rewritten("int", EXACT, "one_hot", limits="with the number of classes"),
    *rewritten(FLOAT, EXACT, "bucketize.Tensor"),
    *rewritten(NUMBERS, EXACT, "topk", "sort", "sort.stable", "argsort",
               limits="of at most 256 values a row, and 2^24 comparisons"),
    *rewritten(FLOAT, ROUNDED, "histc", limits="between two numbers"),
    *rewritten(NUMBERS, ROUNDED, "scatter.src", "scatter.value", "scatter_add",
               limits="indices for every row"),
    *rewritten(NUMBERS, ROUNDED, "index_put",
               limits="dimensions that follow one another, or a mask"),
    # Rewritten: parts and orders
    *rewritten(ANY, EXACT, "roll", "channel_shuffle", "pixel_shuffle", "pixel_unshuffle",
          "diagonal", "tile", "repeat_interleave.self_int", "unfold", "im2col",
          "narrow", "movedim.intlist", "unflatten.int", "take_along_dim"),
    *rewritten(FLOAT, ROUNDED, "tril", "triu", "trace", "slice_scatter", "select_scatter",
          "fill.Scalar", "index_fill.int_Scalar", "diff"),
)  # fmt: skip

TABLE = {row.name: row for row in ROWS}
"""Rows by name."""


def row_of(target: Any) -> Operator | None:
    """The row of an FX target, None where there is none."""
    return TABLE.get("getitem" if target is operator.getitem else str(target))


def targets(*rules: str) -> frozenset[Any]:
    """The FX targets of the rows with one of these rules."""
    return frozenset(row.target for row in ROWS if row.rule in rules)

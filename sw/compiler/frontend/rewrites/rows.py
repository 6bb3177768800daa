"""Rows of the operators that have no rule: they are rewritten in terms of those that have one."""

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
    rows,
)

_PRODUCT, _FUNCTION = Pcc(0.999), Pcc(0.9995)
_NUMBER = "by a number, or of integers"

REWRITTEN: tuple[Operator, ...] = (
    # Products
    *rows(None, FLOAT, _PRODUCT, "mv", "dot", "vdot", "addmv", "outer", "bilinear", "einsum",
          "tensordot"),
    *rows(None, FLOAT, _FUNCTION, "cdist", "cosine_similarity", limits="order 1 or 2"),
    *rows(None, FLOAT, _PRODUCT, "conv_transpose3d.input", limits="constant weights"),
    # Recurrent networks
    *rows(None, FLOAT, Pcc(0.99), "lstm.input", "gru.input", "rnn_tanh.input", "rnn_relu.input",
          limits="up to 512 steps, unrolled; no packed sequences; no dropout in training mode"),
    *rows(None, FLOAT, Pcc(0.99), "lstm_cell", "gru_cell", "rnn_tanh_cell", "rnn_relu_cell"),
    # Pools, norms and images
    *rows(None, FLOAT, EXACT, "max_pool1d", "max_pool3d", "max_pool3d_with_indices",
          limits="values only; no dilation"),
    *rows(None, FLOAT, ROUNDED, "avg_pool1d"),
    *rows(None, FLOAT, Steps(2), "avg_pool3d", "adaptive_avg_pool3d", limits="no ceil_mode"),
    *rows(None, FLOAT, Steps(2), "adaptive_avg_pool1d", limits="up to 64 outputs a dimension"),
    *rows(None, FLOAT, EXACT, "adaptive_max_pool1d", "adaptive_max_pool2d", "adaptive_max_pool3d",
          limits="values only; up to 64 outputs a dimension"),
    *rows(None, FLOAT, Pcc(0.9999), "instance_norm", limits="constant parameters"),
    *rows(None, FLOAT, ROUNDED, "pad"),
    *rows(None, FLOAT, ROUNDED, "reflection_pad1d", "reflection_pad2d", "reflection_pad3d",
          "replication_pad1d", "replication_pad2d", "replication_pad3d"),
    *rows(None, FLOAT, EXACT, "upsample_nearest3d.vec", "_upsample_nearest_exact3d.vec"),
    *rows(None, FLOAT, _PRODUCT, "upsample_trilinear3d.vec", "upsample_bicubic2d.vec"),
    # Functions of elements
    *rows(None, NUMBERS, ROUNDED, "rsub.Tensor", "max.other", "min.other", "fmax", "fmin",
          "clamp.Tensor", "clamp_min.Tensor", "clamp_max.Tensor"),
    *rows(None, FLOAT, Steps(3), "lerp.Scalar", "lerp.Tensor", "addcmul", "addcdiv", "prelu",
          "rrelu", "glu", limits="addcdiv: a divisor that calibration saw of one sign"),
    *rows(None, NUMBERS, EXACT_OR_ONE, "sign", "sgn"),
    *rows(None, FLOAT, ROUNDED, "threshold", "hardshrink", "heaviside"),
    *rows(None, FLOAT, Steps(3), "softshrink", "frac"),
    *rows(None, FLOAT, _FUNCTION, "hypot", "logaddexp"),
    *rows(None, FLOAT, EXACT, "nan_to_num", limits="nothing is NaN or infinite on the NPU"),
    *rows(None, FLOAT, ROUNDED, "isinf", "isnan", limits="nothing is NaN or infinite on the NPU"),
    *rows(None, NUMBERS, EXACT_OR_ONE, "floor_divide", "div.Scalar_mode", "remainder.Scalar",
          "remainder.Tensor", "fmod.Scalar", "fmod.Tensor", limits=_NUMBER),
    # Reductions
    *rows(None, FLOAT, _FUNCTION, "var", "var.dim", "var.correction", "std", "std.dim",
          "std.correction", "var_mean.correction", "std_mean.correction", "linalg_vector_norm",
          "norm.ScalarOpt_dim", "logsumexp", "log_softmax.int", "_log_softmax", "prod",
          "prod.dim_int"),
    *rows(None, ANY, EXACT, "all", "all.dim", "all.dims"),
    *rows(None, FLOAT, EXACT, "argmin", "aminmax"),
    *rows(None, ANY, EXACT, "count_nonzero.dim_IntList"),
    *rows(None, "int", EXACT, "one_hot", limits="with the number of classes"),
    *rows(None, FLOAT, EXACT, "bucketize.Tensor"),
    # Parts and orders
    *rows(None, ANY, EXACT, "roll", "channel_shuffle", "pixel_shuffle", "pixel_unshuffle",
          "diagonal", "tile", "repeat_interleave.self_int", "unfold", "im2col",
          "narrow", "movedim.intlist", "unflatten.int", "take_along_dim"),
    *rows(None, FLOAT, ROUNDED, "tril", "triu", "trace", "slice_scatter", "select_scatter",
          "fill.Scalar", "index_fill.int_Scalar", "diff"),
)  # fmt: skip

"""Which function stands for which operator.

Operators that have a rule too are rewritten only where they lie beyond its limits.
"""

from collections.abc import Mapping

from sw.compiler.frontend.rewrites import (
    arithmetic,
    images,
    pools,
    products,
    recurrent,
    shapes,
)
from sw.compiler.frontend.rewrites.tracing import Function


def _spellings(function: Function, *names: str) -> dict[str, Function]:
    full = (name if "." in name else f"{name}.default" for name in names)
    return {f"aten.{name}": function for name in full}


FUNCTIONS: Mapping[str, Function] = {
    # Products
    **_spellings(products.matmul, "matmul"),
    **_spellings(products.mv, "mv"),
    **_spellings(products.dot, "dot", "vdot"),
    **_spellings(products.addmm, "addmm"),
    **_spellings(products.addmv, "addmv"),
    **_spellings(products.baddbmm, "baddbmm"),
    **_spellings(products.bilinear, "bilinear"),
    **_spellings(products.cdist, "cdist", "_cdist_forward"),
    **_spellings(products.cosine_similarity, "cosine_similarity"),
    **_spellings(products.attention, "scaled_dot_product_attention"),
    **_spellings(products.conv_transpose3d, "conv_transpose3d.input"),
    **_spellings(products.convolution, "convolution"),
    # Recurrent networks
    **_spellings(recurrent.lstm, "lstm.input"),
    **_spellings(recurrent.gru, "gru.input"),
    **_spellings(recurrent.rnn_tanh, "rnn_tanh.input"),
    **_spellings(recurrent.rnn_relu, "rnn_relu.input"),
    **_spellings(recurrent.packed, "lstm.data", "gru.data", "rnn_tanh.data", "rnn_relu.data"),
    **_spellings(recurrent.lstm_cell, "lstm_cell"),
    **_spellings(recurrent.gru_cell, "gru_cell"),
    **_spellings(recurrent.rnn_tanh_cell, "rnn_tanh_cell"),
    **_spellings(recurrent.rnn_relu_cell, "rnn_relu_cell"),
    # Pools, norms and images
    **_spellings(pools.max_pool1d, "max_pool1d"),
    **_spellings(pools.max_pool2d, "max_pool2d"),
    **_spellings(pools.max_pool2d_with_indices, "max_pool2d_with_indices"),
    **_spellings(pools.max_pool3d, "max_pool3d"),
    **_spellings(pools.max_pool3d_with_indices, "max_pool3d_with_indices"),
    **_spellings(pools.avg_pool1d, "avg_pool1d"),
    **_spellings(pools.avg_pool2d, "avg_pool2d"),
    **_spellings(pools.avg_pool3d, "avg_pool3d"),
    **_spellings(pools.adaptive_avg_pool, "adaptive_avg_pool1d", "adaptive_avg_pool2d",
                 "_adaptive_avg_pool2d", "adaptive_avg_pool3d", "_adaptive_avg_pool3d"),
    **_spellings(pools.adaptive_max_pool, "adaptive_max_pool1d", "adaptive_max_pool2d",
                 "adaptive_max_pool3d"),
    **_spellings(pools.instance_norm, "instance_norm"),
    **_spellings(pools.layer_norm, "layer_norm"),
    **_spellings(pools.native_layer_norm, "native_layer_norm"),
    **_spellings(pools.softmax, "softmax.int", "_softmax"),
    **_spellings(images.pad, "pad"),
    **_spellings(images.reflection_pad, "reflection_pad1d", "reflection_pad2d",
                 "reflection_pad3d"),
    **_spellings(images.replication_pad, "replication_pad1d", "replication_pad2d",
                 "replication_pad3d"),
    **_spellings(images.nearest3d, "upsample_nearest3d.vec"),
    **_spellings(images.nearest_exact3d, "_upsample_nearest_exact3d.vec"),
    **_spellings(images.trilinear, "upsample_trilinear3d.vec"),
    **_spellings(images.bicubic, "upsample_bicubic2d.vec"),
    # Functions of elements
    **_spellings(arithmetic.added, "add.Tensor", "add.Scalar"),
    **_spellings(arithmetic.subtracted, "sub.Tensor", "sub.Scalar"),
    **_spellings(arithmetic.subtracted_from, "rsub.Tensor"),
    **_spellings(arithmetic.lerp, "lerp.Scalar", "lerp.Tensor"),
    **_spellings(arithmetic.addcmul, "addcmul"),
    **_spellings(arithmetic.addcdiv, "addcdiv"),
    **_spellings(arithmetic.clamp, "clamp.Tensor", "clamp_min.Tensor"),
    **_spellings(arithmetic.minimum, "clamp_max.Tensor", "min.other", "fmin"),
    **_spellings(arithmetic.maximum, "max.other", "fmax"),
    **_spellings(arithmetic.sign, "sign", "sgn"),
    **_spellings(arithmetic.prelu, "prelu", "_prelu_kernel"),
    **_spellings(arithmetic.threshold, "threshold"),
    **_spellings(arithmetic.hardshrink, "hardshrink"),
    **_spellings(arithmetic.softshrink, "softshrink"),
    **_spellings(arithmetic.rrelu, "rrelu"),
    **_spellings(arithmetic.glu, "glu"),
    **_spellings(arithmetic.frac, "frac"),
    **_spellings(arithmetic.hypot, "hypot"),
    **_spellings(arithmetic.logaddexp, "logaddexp"),
    **_spellings(arithmetic.nan_to_num, "nan_to_num"),
    **_spellings(arithmetic.isinf, "isinf", "isnan"),
    **_spellings(arithmetic.heaviside, "heaviside"),
    **_spellings(arithmetic.divided, "div.Tensor_mode", "div.Scalar_mode"),
    **_spellings(arithmetic.floor_divide, "floor_divide", "floor_divide.Scalar"),
    **_spellings(arithmetic.remainder, "remainder.Scalar", "remainder.Tensor"),
    **_spellings(arithmetic.fmod, "fmod.Scalar", "fmod.Tensor"),
    # Reductions
    **_spellings(arithmetic.variance, "var", "var.dim", "var.correction"),
    **_spellings(arithmetic.deviation, "std", "std.dim", "std.correction"),
    **_spellings(arithmetic.variance_mean, "var_mean", "var_mean.dim", "var_mean.correction"),
    **_spellings(arithmetic.deviation_mean, "std_mean", "std_mean.dim", "std_mean.correction"),
    **_spellings(arithmetic.vector_norm, "linalg_vector_norm"),
    **_spellings(arithmetic.norm, "norm.Scalar", "norm.ScalarOpt_dim"),
    **_spellings(arithmetic.logsumexp, "logsumexp"),
    **_spellings(arithmetic.log_softmax, "log_softmax.int", "_log_softmax"),
    **_spellings(arithmetic.product, "prod", "prod.dim_int"),
    **_spellings(arithmetic.every, "all", "all.dim", "all.dims"),
    **_spellings(arithmetic.argmin, "argmin"),
    **_spellings(arithmetic.aminmax, "aminmax"),
    **_spellings(arithmetic.count_nonzero, "count_nonzero", "count_nonzero.dim_IntList"),
    **_spellings(arithmetic.one_hot, "one_hot"),
    **_spellings(arithmetic.bucketize, "bucketize.Tensor"),
    # Parts and orders
    **_spellings(shapes.roll, "roll"),
    **_spellings(shapes.channel_shuffle, "channel_shuffle"),
    **_spellings(shapes.pixel_shuffle, "pixel_shuffle"),
    **_spellings(shapes.pixel_unshuffle, "pixel_unshuffle"),
    **_spellings(shapes.triangle, "tril"),
    **_spellings(shapes.upper_triangle, "triu"),
    **_spellings(shapes.diagonal, "diagonal"),
    **_spellings(shapes.trace, "trace"),
    **_spellings(shapes.tile, "tile"),
    **_spellings(shapes.repeat_interleave, "repeat_interleave.self_int"),
    **_spellings(shapes.windows, "unfold"),
    **_spellings(shapes.columns, "im2col"),
    **_spellings(shapes.slice_scatter, "slice_scatter"),
    **_spellings(shapes.select_scatter, "select_scatter"),
    **_spellings(shapes.filled, "fill.Scalar", "fill.Tensor"),
    **_spellings(shapes.index_fill, "index_fill.int_Scalar"),
    **_spellings(shapes.indexed, "index.Tensor"),
    **_spellings(shapes.diff, "diff"),
}  # fmt: skip

RECURRENT = (recurrent.lstm, recurrent.gru, recurrent.rnn_tanh, recurrent.rnn_relu)
"""Functions that repeat the same steps."""

"""One call of each ATen operator that the importer rewrites before it imports it."""

import torch
from aten_cases import Case, X, case, each, fixed

_IMAGE = X((1, 4, 6, 6))
_VOLUME = X((1, 2, 4, 6, 5))
_ROWS = X((2, 3, 8))
_INTS, _BOOLS = X((2, 3, 8), -5, 5, torch.int64), X((2, 3, 4), dtype=torch.bool)


_PLACES = torch.tensor([[[0, 7, 2], [5, 1, 3], [4, 6, 0]], [[1, 2, 3], [7, 6, 5], [3, 0, 4]]])


def _weights(gates: int, size: int, hidden: int, projected: int = 0) -> list[torch.Tensor]:
    """Weights and biases of a recurrent layer."""
    state = projected or hidden
    rows = gates * hidden
    found = [fixed(rows, size) / 3, fixed(rows, state) / 3, fixed(rows), fixed(rows) / 2]
    return [*found, fixed(projected, hidden) / 2] if projected else found


_SEQUENCE = X((5, 2, 6))
_LSTM = [*_weights(4, 6, 4), *_weights(4, 6, 4)]
_ONE = (True, 1, 0.0, False, False, False)

REWRITTEN_CASES: list[Case] = [
    # Products
    case("mv", X((6, 8)), X((8,))),
    *each("dot vdot", X((40,)), X((40,), 0.5, 2.0)),
    case("addmv", X((6,)), X((6, 8)), X((8,))),
    case("outer", X((6,)), X((8,))),
    case("bilinear", X((3, 4)), X((3, 5)), fixed(6, 4, 5), fixed(6)),
    case("einsum", "bhid,bhjd->bhij", [X((1, 2, 5, 8)), X((1, 2, 6, 8))]),
    case("tensordot", X((3, 4, 8)), X((8, 4, 5)), [1, 2], [1, 0]),
    case("cdist", X((2, 4, 8)), X((2, 5, 8))),
    case("cosine_similarity", X((6, 8)), X((6, 8)), -1),
    case("conv_transpose3d.input", _VOLUME, fixed(2, 3, 3, 3, 2), fixed(3), [2, 1, 2], [1, 0, 1],
         [1, 0, 0]),
    case("conv_transpose3d.input", X((1, 4, 3, 4, 4)), fixed(4, 2, 2, 2, 2), None, [1, 2, 2],
         [0, 0, 0], [0, 0, 0], 2, [2, 1, 1]),
    # Recurrent networks
    case("lstm.input", _SEQUENCE, [X((2, 2, 4)), X((2, 2, 4))], _LSTM, True, 1, 0.0, False, True,
         False),
    case("lstm.input", X((2, 5, 6)), [X((1, 2, 3)), X((1, 2, 4))], _weights(4, 6, 4, 3), True, 1,
         0.0, False, False, True, result=2),
    case("gru.input", _SEQUENCE, X((1, 2, 4)), _weights(3, 6, 4), *_ONE),
    *each("rnn_tanh.input rnn_relu.input", _SEQUENCE, X((1, 2, 4)), _weights(1, 6, 4), *_ONE),
    case("lstm_cell", X((2, 6)), [X((2, 4)), X((2, 4))], *_weights(4, 6, 4)),
    case("gru_cell", X((2, 6)), X((2, 4)), *_weights(3, 6, 4)),
    *each("rnn_tanh_cell rnn_relu_cell", X((2, 6)), X((2, 4)), *_weights(1, 6, 4)),
    # Pools, norms and images
    case("max_pool1d", X((2, 3, 9)), [3], [2], [1]),
    case("max_pool3d", _VOLUME, [2, 3, 2], [2, 2, 2], [1, 1, 0]),
    case("max_pool3d_with_indices", _VOLUME, [2, 2, 2]),
    case("avg_pool1d", X((2, 3, 9)), [3], [2], [1]),
    case("avg_pool3d", _VOLUME, [2, 2, 3], [2, 2, 1], [0, 0, 1]),
    case("adaptive_avg_pool1d", X((2, 3, 9)), [4]),
    case("adaptive_avg_pool3d", _VOLUME, [2, 4, 5]),
    case("adaptive_max_pool1d", X((2, 3, 9)), [4]),
    case("adaptive_max_pool2d", _IMAGE, [4, 3]),
    case("adaptive_max_pool2d", _IMAGE, [2, 3]),
    case("adaptive_max_pool3d", _VOLUME, [2, 4, 5]),
    case("instance_norm", _IMAGE, fixed(4), fixed(4), None, None, True, 0.1, 1e-5, False),
    case("instance_norm", _IMAGE, None, None, fixed(4), fixed(4).abs() + 0.5, False, 0.1, 1e-5,
         False),
    case("pad", _IMAGE, [1, 2, 0, 1], "constant", 0.5),
    *(case("pad", _IMAGE, [1, 2, 3, 1], mode) for mode in ("reflect", "replicate", "circular")),
    case("reflection_pad1d", X((2, 3, 6)), [2, 3]),
    case("reflection_pad2d", _IMAGE, [2, 0, 1, 3]),
    case("reflection_pad3d", _VOLUME, [2, 0, 1, 3, 1, 1]),
    case("replication_pad1d", X((2, 3, 6)), [2, 3]),
    case("replication_pad2d", _IMAGE, [2, 0, 1, -1]),
    case("replication_pad3d", _VOLUME, [2, 0, 1, 3, 1, 1]),
    *each("upsample_nearest3d.vec _upsample_nearest_exact3d.vec", _VOLUME, [6, 9, 5], None),
    case("upsample_trilinear3d.vec", _VOLUME, None, False, [2.0, 2.0, 1.0]),
    case("upsample_bicubic2d.vec", X((1, 2, 4, 5)), [7, 10], False, None),
    # Functions of elements
    *each("rsub.Tensor max.other min.other fmax fmin clamp_min.Tensor clamp_max.Tensor", _ROWS,
          X((3, 1), -1, 1)),
    case("clamp.Tensor", _ROWS, X((3, 8), -1.5, 0), X((8,), 0, 1.5)),
    case("lerp.Scalar", _ROWS, X((2, 3, 8)), 0.3),
    case("lerp.Tensor", _ROWS, X((2, 3, 8)), X((8,), 0, 1)),
    case("addcmul", _ROWS, X((3, 8)), X((3, 8)), value=0.5),
    case("addcdiv", _ROWS, X((3, 8)), X((3, 8), 0.5, 2), value=0.5),
    case("prelu", _IMAGE, fixed(4)),
    case("rrelu", _ROWS, 0.125, 0.25),
    case("glu", X((2, 6, 8)), 1),
    *each("sign sgn", _INTS),
    case("sign", _ROWS),
    case("threshold", _ROWS, 0.3, -1.0),
    case("hardshrink", _ROWS, 0.7),
    case("heaviside", _ROWS, torch.tensor(0.5)),
    case("softshrink", _ROWS, 0.7),
    case("frac", X((2, 3, 8), 0.1, 0.9)),
    *each("hypot logaddexp", X((2, 3, 8), 0.3, 4), X((3, 8), 0.3, 4)),
    case("atan2", _ROWS, X((3, 8), -2, 2)),
    case("sinc", _ROWS),
    case("nan_to_num", _ROWS),
    *each("isinf isnan", _ROWS, plus=True),
    *each("floor_divide remainder.Tensor fmod.Tensor", _INTS, X((8,), 1, 4, torch.int64)),
    case("floor_divide", _ROWS, torch.tensor(0.3)),
    case("div.Scalar_mode", _INTS, 3, rounding_mode="floor"),
    *each("remainder.Scalar fmod.Scalar", _INTS, 3),
    # Reductions
    *each("var std", _ROWS),
    *each("var.dim std.dim", _ROWS, [1], False, True),
    *each("var.correction std.correction var_mean.correction std_mean.correction", _ROWS, [-1],
          correction=1),
    *(case("linalg_vector_norm", _ROWS, order, [-1]) for order in (2, 1, 3, float("inf"))),
    case("norm.ScalarOpt_dim", _ROWS, 2, [1]),
    case("logsumexp", X((2, 3, 8), -5, 5), [1], True),
    case("log_softmax.int", X((2, 3, 8), -5, 5), 1),
    case("_log_softmax", X((2, 3, 8), -5, 5), -1, False),
    case("prod", X((5,), 0.5, 2)),
    case("prod.dim_int", X((2, 3, 5), 0.5, 2), 1),
    case("all", _BOOLS),
    case("all.dim", X((3, 2, 4), 0, 3, torch.int64), -1),
    case("all.dims", _BOOLS, [0, 1], True),
    case("argmin", _ROWS, -1),
    case("argmin", X((3, 7), -(2**31), 2**31 - 1, torch.int64), -1),
    case("aminmax", _ROWS, dim=1, result=1),
    case("count_nonzero.dim_IntList", _BOOLS, [1]),
    case("one_hot", X((2, 3), 0, 6, torch.int64), 7),
    case("topk", _ROWS, 3, result=0),
    case("sort", _ROWS, 1, result=0),
    case("sort", _INTS, result=0),
    case("sort.stable", _INTS, stable=True, descending=True, result=1),
    case("argsort", _ROWS, 1, True),
    case("histc", X((40,), -3, 7), 7, -2, 5),
    case("cumsum", X((2, 5), -5, 5), 1, dtype=torch.int64),
    case("index_put", X((2, 5, 3)), [None, torch.tensor([4, 0])], X((2, 2, 3))),
    case("index_put", X((4, 3)), [torch.tensor([-1, 0, 3])], X((3, 3))),
    case("scatter.src", X((2, 4)), 1, torch.tensor([[1, 1, 0], [3, 2, 3]]), X((2, 3))),
    case("scatter_add", X((2, 4)), 1, torch.tensor([[1, 1, 0], [3, 2, 3]]), X((2, 3))),
    case("index_put", X((5,), -9, 9, torch.int64), [torch.tensor([3, 1])],
         X((2,), -9, 9, torch.int64)),
    case("topk", _ROWS, 2, 1, False, result=1),
    *each("scatter.src scatter_add", _ROWS, -1, _PLACES, X((2, 3, 3))),
    *each("scatter.src scatter_add", _INTS, -1, _PLACES, X((2, 3, 3), -5, 5, torch.int64)),
    case("scatter.value", _ROWS, -1, _PLACES, 0.5),
    case("bucketize.Tensor", _ROWS, torch.tensor([-1.01, 0.33, 1.21])),
    # Parts and orders
    case("roll", _ROWS, [2, -1], [2, 1]),
    case("roll", X((3, 4)), [5]),
    case("channel_shuffle", _IMAGE, 2),
    case("pixel_shuffle", _IMAGE, 2),
    case("pixel_unshuffle", _IMAGE, 2),
    *each("tril triu", X((2, 4, 5)), 1),
    case("diagonal", X((2, 4, 5)), 1, 1, 2),
    case("diagonal", X((4, 5, 2)), -1, 0, 1),
    case("tile", X((2, 3)), [2, 1, 3]),
    case("repeat_interleave.self_int", _ROWS, 2, 1),
    case("unfold", X((2, 9, 3)), 1, 4, 2),
    case("col2im", X((2, 12, 9)), [6, 6], [2, 2], [1, 1], [0, 0], [2, 2]),
    case("col2im", X((1, 18, 16)), [8, 6], [2, 3], [2, 1], [1, 0], [2, 1]),
    case("col2im", X((8, 6)), [6, 5], [2, 2], [1, 1], [0, 0], [2, 2]),
    case("im2col", _IMAGE, [2, 3], [1, 1], [1, 0], [2, 1]),
    case("narrow", _ROWS, 2, 1, 4),
    case("movedim.intlist", _ROWS, [0], [2]),
    case("unflatten.int", _ROWS, 2, [2, 4]),
    case("take_along_dim", X((4, 5, 3)), X((4, 2, 3), 0, 4, torch.int64), 1),
    case("trace", X((4, 5))),
    case("slice_scatter", _ROWS, X((2, 3, 3)), 2, 1, 4),
    case("select_scatter", _ROWS, X((2, 8), -3, 3), 1, -1),
    case("fill.Scalar", _ROWS, 0.5, plus=True),
    case("index_fill.int_Scalar", _ROWS, 1, torch.tensor([0, 2]), 0.5),
    case("diff", _ROWS),
]  # fmt: skip

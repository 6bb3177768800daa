"""Matrix products and convolutions."""

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor as T

from sw.frontends.stablehlo.call import Call, Row
from sw.frontends.stablehlo.errors import refused


def _require_float(call: Call, what: str) -> None:
    if call.operands[0].element[0] not in "fb":
        raise refused(
            f"{what} of {call.operands[0].element}: products of the NPU take int8 operands with "
            "scales, which these do not have",
            "give floats, which compiling quantizes",
        )


def _permuted(x: T, dims: Sequence[int]) -> T:
    return x if list(dims) == list(range(x.dim())) else x.permute(*dims)


def _others(rank: int, *taken: Sequence[int]) -> list[int]:
    used = {dim for dims in taken for dim in dims}
    return [dim for dim in range(rank) if dim not in used]


def _flat(x: T, leading: int, sizes: Sequence[int]) -> T:
    """The dimensions from `leading` on as those of `sizes`."""
    shape = [*x.shape[:leading], *sizes]
    return x if list(x.shape) == shape else x.reshape(shape)


def dot_general(call: Call, a: T, b: T, bias: T | None = None) -> T:
    """dot_general: a product over some dimensions, for each element of others."""
    _require_float(call, "a product")
    numbers = call.get("dot_dimension_numbers")
    batch_a, over_a = numbers["lhs_batching_dimensions"], numbers["lhs_contracting_dimensions"]
    batch_b, over_b = numbers["rhs_batching_dimensions"], numbers["rhs_contracting_dimensions"]
    free_a, free_b = _others(a.dim(), batch_a, over_a), _others(b.dim(), batch_b, over_b)
    terms = _product(a.shape, over_a)
    if not batch_a and call.is_fixed(0) and not call.is_fixed(1):
        made = _linear(b, free_b, over_b, a, free_a, over_a, bias)
        order = [*range(len(free_b), len(free_b) + len(free_a)), *range(len(free_b))]
        return _permuted(made, order)
    if not batch_a and call.is_fixed(1):
        return _linear(a, free_a, over_a, b, free_b, over_b, bias)
    n = len(batch_a)
    left = _flat(_permuted(a, [*batch_a, *free_a, *over_a]), n, [_product(a.shape, free_a), terms])
    right = _flat(_permuted(b, [*batch_b, *over_b, *free_b]), n, [terms, _product(b.shape, free_b)])
    made = torch.matmul(left, right)
    return _flat(made, n, [*(a.shape[d] for d in free_a), *(b.shape[d] for d in free_b)])


def _linear(
    x: T, free: Sequence[int], over: Sequence[int], weight: T, outputs: Sequence[int],
    over_weight: Sequence[int], bias: T | None,
) -> T:  # fmt: skip
    """x · weightᵀ with a constant weight."""
    terms = _product(x.shape, over)
    sizes = [weight.shape[d] for d in outputs]
    rows = _flat(_permuted(x, [*free, *over]), len(free), [terms])
    matrix = _permuted(weight, [*outputs, *over_weight]).reshape(-1, terms)
    bias = None if bias is None else bias.reshape(-1)
    return _flat(F.linear(rows, matrix, bias), len(free), sizes)


def _product(shape: Sequence[int], dims: Sequence[int]) -> int:
    found = 1
    for dim in dims:
        found *= shape[dim]
    return found


_CONVOLUTIONS: dict[int, Any] = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}
_TRANSPOSED: dict[int, Any] = {
    1: F.conv_transpose1d, 2: F.conv_transpose2d, 3: F.conv_transpose3d,
}  # fmt: skip


def convolution(call: Call, x: T, weight: T, bias: T | None = None) -> T:
    """convolution: of any layout, as PyTorch's between two permutations."""
    _require_float(call, "a convolution")
    rank = x.dim() - 2
    if rank not in _CONVOLUTIONS:
        raise refused(f"a convolution of {rank} dimensions", "use 1, 2 or 3")
    if call.get("batch_group_count", 1) != 1:
        raise refused("batch_group_count, which gradients have", "export the forward function")
    n = call.get("dimension_numbers")
    x = _permuted(x, [n["input_batch_dimension"], n["input_feature_dimension"],
                      *n["input_spatial_dimensions"]])  # fmt: skip
    weight = _permuted(weight, [n["kernel_output_feature_dimension"],
                                n["kernel_input_feature_dimension"],
                                *n["kernel_spatial_dimensions"]])  # fmt: skip
    reversed_dims = [2 + i for i, r in enumerate(call.ints("window_reversal")) if r]
    weight = weight.flip(reversed_dims) if reversed_dims else weight
    made = _convolved(call, x, weight, bias, rank)
    order = [n["output_batch_dimension"], n["output_feature_dimension"],
             *n["output_spatial_dimensions"]]  # fmt: skip
    return _permuted(made, sorted(range(rank + 2), key=order.__getitem__))


def pads_of(call: Call, rank: int) -> list[tuple[int, int]]:
    """(before, behind) of each dimension: the attribute `padding`."""
    found = call.get("padding")
    if found is None:
        return [(0, 0)] * rank
    return [(int(low), int(high)) for low, high in found]


def padded(x: T, pads: Sequence[tuple[int, int]], value: float = 0.0) -> T:
    """`x` with the last dimensions padded; negative sizes cut."""
    sides = [side for low, high in reversed(pads) for side in (low, high)]
    return F.pad(x, sides, value=value) if any(sides) else x


def _convolved(call: Call, x: T, weight: T, bias: T | None, rank: int) -> T:
    ones = [1] * rank
    strides, pads = call.ints("window_strides", ones), pads_of(call, rank)
    inner, dilation = call.ints("lhs_dilation", ones), call.ints("rhs_dilation", ones)
    groups = int(call.get("feature_group_count", 1))
    if any(size > 1 for size in inner):
        if any(stride > 1 for stride in strides):
            raise refused("a convolution with lhs_dilation and strides", "use one of them")
        return _transposed(x, weight, bias, (inner, pads, dilation, groups))
    padding: Any = [low for low, _ in pads]
    if any(low != high or low < 0 for low, high in pads):
        x, padding = padded(x, pads), 0
    return _CONVOLUTIONS[rank](x, weight, bias, strides, padding, dilation, groups)


def _transposed(x: T, weight: T, bias: T | None, window: Any) -> T:
    """With zeros between the input's elements: a transposed convolution."""
    strides, pads, dilation, groups = window
    rank, (outputs, inputs) = len(strides), weight.shape[:2]
    weight = weight.flip(list(range(2, 2 + rank)))
    weight = weight.reshape(groups, outputs // groups, inputs, *weight.shape[2:])
    weight = weight.transpose(1, 2).reshape(groups * inputs, outputs // groups, *weight.shape[3:])
    extents = [d * (k - 1) for d, k in zip(dilation, weight.shape[2:], strict=True)]
    cuts = [extent - low for extent, (low, _) in zip(extents, pads, strict=True)]
    more = [high - low for low, high in pads]
    function = _TRANSPOSED[rank]
    if all(0 <= m < s and c >= 0 for m, s, c in zip(more, strides, cuts, strict=True)):
        return function(x, weight, bias, strides, cuts, more, groups, dilation)
    full = function(x, weight, bias, strides, 0, 0, groups, dilation)
    sides = [(-c, high - e) for c, e, (_, high) in zip(cuts, extents, pads, strict=True)]
    if bias is not None and any(side > 0 for pair in sides for side in pair):
        full = padded(full - bias.reshape(-1, *[1] * rank), sides)
        return full + bias.reshape(-1, *[1] * rank)
    return padded(full, sides)


def _batch_norm(call: Call, x: T, scale: T, offset: T, mean: T, variance: T) -> T:
    at, eps = call.get("feature_index"), call.get("epsilon")
    made = F.batch_norm(x.movedim(at, 1), mean, variance, scale, offset, False, 0.0, eps)
    return made.movedim(1, at)


PRODUCTS = {
    "dot_general": Row(function=dot_general),
    "convolution": Row(function=convolution),
    "batch_norm_inference": Row(function=_batch_norm),
}

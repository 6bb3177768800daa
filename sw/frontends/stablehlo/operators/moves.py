"""Operations that move elements, and those that make them of nothing."""

from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor as T

from sw.frontends.stablehlo.call import Call, Row, dtype_of
from sw.frontends.stablehlo.operators.products import padded


def _constant(call: Call) -> T:
    array = np.asarray(call.get("value"))
    kind = call.results[0]
    if array.dtype.kind not in "biuf":  # bfloat16 and others that PyTorch does not take
        array = array.astype(np.float32)
    if array.dtype.kind == "u" and array.dtype.itemsize > 1:
        array = array.astype(np.int64)
    if array.size == 1:  # also one that fills the whole tensor
        return torch.tensor(array.reshape(-1)[0]).to(dtype_of(kind)).expand(kind.shape)
    return torch.from_numpy(np.array(array)).to(dtype_of(kind)).reshape(kind.shape)


def _iota(call: Call) -> T:
    kind, dim = call.results[0], int(call.get("iota_dimension"))
    shape = [-1 if d == dim else 1 for d in range(len(kind.shape))]
    return torch.arange(kind.shape[dim]).to(dtype_of(kind)).reshape(shape).expand(kind.shape)


def _broadcast_in_dim(call: Call, x: T) -> T:
    dims = call.ints("broadcast_dimensions")
    order = sorted(range(len(dims)), key=dims.__getitem__)
    x = x if order == list(range(len(dims))) else x.permute(*order)
    sizes = dict(zip(sorted(dims), x.shape, strict=True))
    shape = [sizes.get(d, 1) for d in range(len(call.shape))]
    return (x if list(x.shape) == shape else x.reshape(shape)).expand(call.shape)


def _slice(call: Call, x: T) -> T:
    limits = zip(
        call.ints("start_indices"), call.ints("limit_indices"), call.ints("strides"), strict=True
    )
    for dim, (start, end, step) in enumerate(limits):
        if (start, end, step) != (0, x.shape[dim], 1):
            x = x[(slice(None),) * dim + (slice(start, end, step),)]
    return x


def _starts(call: Call, first: int, starts: Any, sizes: Any, limits: Any) -> list[int]:
    """Where a dynamic slice begins, inside of the operand."""
    found = [int(call.constant(first + i, start)) for i, start in enumerate(starts)]
    return [max(0, min(s, n - k)) for s, n, k in zip(found, limits, sizes, strict=True)]


def _dynamic_slice(call: Call, x: T, *starts: Any) -> T:
    sizes = call.ints("slice_sizes")
    for dim, start in enumerate(_starts(call, 1, starts, sizes, x.shape)):
        x = x if sizes[dim] == x.shape[dim] else x.narrow(dim, start, sizes[dim])
    return x


def _dynamic_update_slice(call: Call, x: T, update: T, *starts: Any) -> T:
    first = _starts(call, 2, starts, update.shape, x.shape)
    return inserted(x, update, first, 0)


def inserted(x: T, update: T, starts: list[int], dim: int) -> T:
    """`x` with `update` at `starts`, dimension after dimension."""
    if dim == x.dim():
        return update
    low, size = starts[dim], update.shape[dim]
    middle = inserted(x.narrow(dim, low, size), update, starts, dim + 1)
    ends = (x.narrow(dim, 0, low), middle, x.narrow(dim, low + size, x.shape[dim] - low - size))
    parts = [part for part in ends if part.shape[dim]]
    return parts[0] if len(parts) == 1 else torch.cat(parts, dim)


def _pad(call: Call, x: T, value: Any) -> T:
    number = call.constant(1, value)
    low, high = call.ints("edge_padding_low"), call.ints("edge_padding_high")
    for dim, inner in enumerate(call.ints("interior_padding")):
        if inner and x.shape[dim] > 1:
            apart = F.pad(x.unsqueeze(dim + 1), [0, 0] * (x.dim() - dim - 1) + [0, inner],
                          value=number)  # fmt: skip
            size = x.shape[dim] * (1 + inner)
            x = apart.flatten(dim, dim + 1).narrow(dim, 0, size - inner)
    return padded(x, list(zip(low, high, strict=True)), number)


def _concatenate(call: Call, *xs: T) -> T:
    return xs[0] if len(xs) == 1 else torch.cat(xs, int(call.get("dimension")))


def _transpose(call: Call, x: T) -> T:
    dims = call.ints("permutation")
    return x if dims == list(range(len(dims))) else x.permute(*dims)


def _reverse(call: Call, x: T) -> T:
    return x.flip(call.ints("dimensions"))


def _constant_like(call: Call, x: T) -> T:
    return torch.full_like(x, float(call.get("value")))


MOVES = {
    "constant": Row(function=_constant),
    "arith.constant": Row(function=_constant),
    "iota": Row(function=_iota),
    "broadcast_in_dim": Row(function=_broadcast_in_dim),
    "reshape": Row(function=lambda call, x: x.reshape(call.shape)),
    "transpose": Row(function=_transpose),
    "slice": Row(function=_slice),
    "dynamic_slice": Row(function=_dynamic_slice, numbers=1),
    "dynamic_update_slice": Row(function=_dynamic_update_slice, numbers=2),
    "pad": Row(function=_pad, numbers=1),
    "concatenate": Row(function=_concatenate),
    "reverse": Row(function=_reverse),
    "chlo.constant_like": Row(function=_constant_like),
}

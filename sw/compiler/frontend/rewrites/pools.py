"""Pools of any number of dimensions and sizes, and the norms of images."""

import math
from collections.abc import Callable, Sequence
from functools import partial, reduce
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from sw.compiler.frontend.rewrites.computed import affine, by_channel

_MOST = 64
"""Outputs of an adaptive pool along a dimension that are computed one by one."""


def _list(value: Any, count: int) -> list[int]:
    items = [value] if isinstance(value, int) else list(value)
    return items * count if len(items) == 1 else items


def max_pool1d(x: Tensor, kernel: Any, stride: Any = (), padding: Any = 0, dilation: Any = 1,
               ceil_mode: bool = False) -> Tensor:  # fmt: skip
    given = zip((1, 1, 0, 1), (kernel, stride or kernel, padding, dilation), strict=True)
    k, s, p, d = ([row, *_list(v, 1)] for row, v in given)
    return functional.max_pool2d(x.unsqueeze(-2), k, s, p, d, ceil_mode).squeeze(-2)


def max_pool2d(x: Tensor, kernel: Any, stride: Any = (), padding: Any = 0, dilation: Any = 1,
               ceil_mode: bool = False) -> Tensor:  # fmt: skip
    """Images without a batch; dilated windows as the largest of shifted images."""
    if x.dim() == 3:
        whole = x.unsqueeze(0)
        return functional.max_pool2d(whole, kernel, stride or None, padding, dilation, ceil_mode)[0]
    k, s, p, d = (_list(v, 2) for v in (kernel, stride or kernel, padding, dilation))
    if ceil_mode or d == [1, 1]:
        raise ValueError("max pool with dilation and ceil_mode")
    if any(p):
        raise ValueError("max pool with dilation and padding")
    return reduce(torch.maximum, _shifted(x, k, d, s))


def im2col(x: Tensor, kernel: Sequence[int], dilation: Sequence[int], padding: Sequence[int],
           stride: Sequence[int]) -> Tensor:  # fmt: skip
    """The values under each place of a kernel, kernel positions as channels."""
    x = torch.constant_pad_nd(x, [padding[1], padding[1], padding[0], padding[0]], 0.0)
    made = torch.stack(_shifted(x, kernel, dilation, stride), 2)
    return made.flatten(3).flatten(1, 2)


def col2im(x: Tensor, size: Sequence[int], kernel: Sequence[int], dilation: Sequence[int],
           padding: Sequence[int], stride: Sequence[int]) -> Tensor:  # fmt: skip
    """Windows laid back into an image and added up: a transposed convolution whose weights are 1
    at one kernel position each, of each channel by itself.
    """
    if x.dim() == 2:
        return col2im(x.unsqueeze(0), size, kernel, dilation, padding, stride)[0]
    given = list(zip(size, kernel, dilation, padding, stride, strict=True))
    places = [(n + 2 * p - d * (k - 1) - 1) // s + 1 for n, k, d, p, s in given]
    rest = [(n + 2 * p - d * (k - 1) - 1) % s for n, k, d, p, s in given]
    taps = math.prod(kernel)
    channels = x.shape[1] // taps
    weights = torch.eye(taps).reshape(taps, 1, *kernel)
    windows = x.reshape(-1, taps, *places)
    made = functional.conv_transpose2d(windows, weights, None, stride, padding, rest, 1, dilation)
    return made.reshape(-1, channels, *made.shape[2:])


def _shifted(
    x: Tensor, kernel: Sequence[int], dilation: Sequence[int], stride: Sequence[int]
) -> list[Tensor]:
    """For each place of a kernel what lies under it, as images of the result's size."""
    given = zip(x.shape[2:], kernel, dilation, stride, strict=True)
    out = [(size - d * (k - 1) - 1) // s + 1 for size, k, d, s in given]
    parts = []
    for i in range(kernel[0]):
        rows = x[:, :, i * dilation[0] :: stride[0]][:, :, : out[0]]
        for j in range(kernel[1]):
            parts.append(rows[:, :, :, j * dilation[1] :: stride[1]][:, :, :, : out[1]])
    return parts


def max_pool3d(x: Tensor, kernel: Any, stride: Any = (), padding: Any = 0, dilation: Any = 1,
               ceil_mode: bool = False) -> Tensor:  # fmt: skip
    windows = (_list(v, 3) for v in (kernel, stride or kernel, padding, dilation))
    return _by_plane(x, partial(functional.max_pool2d, ceil_mode=ceil_mode), *windows)


def _without_places(pool: Callable[..., Tensor]) -> Callable[..., tuple[Tensor, None]]:
    """A pool that would also say where its values come from."""
    return lambda *given: (pool(*given), None)


max_pool2d_with_indices = _without_places(functional.max_pool2d)
max_pool3d_with_indices = _without_places(max_pool3d)


def _by_plane(x: Tensor, pool: Callable[..., Tensor], *windows: Sequence[int]) -> Tensor:
    """A pool of volumes: one of rows and columns, then one of depth.

    windows: kernel, stride, padding and dilation, as far as `pool` takes them.
    """
    whole = x if x.dim() == 5 else x.unsqueeze(0)
    n, c, depth, height, width = whole.shape
    image = pool(whole.reshape(n, c * depth, height, width), *(v[1:] for v in windows))
    h, w = image.shape[2:]
    of_depth = ([v[0], none] for v, none in zip(windows, (1, 1, 0, 1), strict=False))
    rows = pool(image.reshape(n, c, depth, h * w), *of_depth)
    made = rows.reshape(n, c, rows.shape[2], h, w)
    return made if x.dim() == 5 else made[0]


def avg_pool2d(x: Tensor, kernel: Any, stride: Any = (), padding: Any = 0, ceil_mode: bool = False,
               count_include_pad: bool = True, divisor: int | None = None) -> Tensor:  # fmt: skip
    """Means of whole windows over the padded image, times what the true divisor makes of them."""
    if x.dim() == 3:
        return functional.avg_pool2d(
            x.unsqueeze(0), kernel, stride or None, padding, ceil_mode, count_include_pad, divisor
        )[0]
    k, s, p = (_list(v, 2) for v in (kernel, stride or kernel, padding))
    given = (k, s, p, ceil_mode, count_include_pad, divisor)
    ones = torch.ones(1, 1, *x.shape[2:])
    true = functional.avg_pool2d(ones, *given)
    pads: list[int] = []
    for i in (1, 0):
        need = (true.shape[2 + i] - 1) * s[i] + k[i]
        pads += [p[i], max(0, need - x.shape[2 + i] - p[i])]

    def whole(image: Tensor) -> Tensor:
        wide = torch.constant_pad_nd(image, pads, 0.0)
        return functional.avg_pool2d(wide, k, s)[:, :, : true.shape[2], : true.shape[3]]

    return whole(x) * (true / whole(ones))


def avg_pool3d(x: Tensor, kernel: Any, stride: Any = (), padding: Any = 0, ceil_mode: bool = False,
               count_include_pad: bool = True, divisor: int | None = None) -> Tensor:  # fmt: skip
    windows = [_list(v, 3) for v in (kernel, stride or kernel, padding)]
    pool = partial(functional.avg_pool2d, ceil_mode=ceil_mode, count_include_pad=count_include_pad)
    made = _by_plane(x, pool, *windows)
    return made if divisor is None else made * (math.prod(windows[0]) / divisor)


# Adaptive pools -----------------------------------------------------------------------------------


def _adaptive(x: Tensor, sizes: Any, largest: bool) -> Tensor:
    """Pools of the last dimensions to `sizes`: a reduction for each output, dimension by dimension.

    Images in which every window has the same size take an ordinary pool.
    """
    sizes = [sizes] if isinstance(sizes, int) else sizes
    first = x.dim() - len(sizes)
    target = [x.shape[first + i] if s is None else s for i, s in enumerate(sizes)]
    if len(target) == 2 and all(a % b == 0 for a, b in zip(x.shape[-2:], target, strict=True)):
        pool = functional.max_pool2d if largest else functional.avg_pool2d
        kernel = [a // b for a, b in zip(x.shape[-2:], target, strict=True)]
        return pool(x, kernel)
    for axis, out in enumerate(target, first):
        size = x.shape[axis]
        if out > _MOST and out != size:
            raise ValueError(f"adaptive pool from {size} to {out}: at most {_MOST}")
        if out != size:
            x = _of_spans(x, axis, out, largest)
    return x


def _of_spans(x: Tensor, axis: int, count: int, largest: bool) -> Tensor:
    """The mean or the largest of each of `count` spans of a dimension, which may overlap."""
    size, parts = x.shape[axis], []
    for i in range(count):
        start, stop = i * size // count, -(-(i + 1) * size // count)
        part = x.narrow(axis, start, stop - start)
        if stop - start > 1:
            part = part.amax(axis, keepdim=True) if largest else part.mean(axis, keepdim=True)
        parts.append(part)
    return torch.cat(parts, axis) if len(parts) > 1 else parts[0]


def adaptive_avg_pool2d(x: Tensor, sizes: Any) -> Tensor:
    return _adaptive(x, sizes, largest=False)


def adaptive_max_pool2d(x: Tensor, sizes: Any) -> tuple[Tensor, None]:
    return _adaptive(x, sizes, largest=True), None


adaptive_avg_pool3d = adaptive_avg_pool2d
adaptive_max_pool1d = adaptive_max_pool3d = adaptive_max_pool2d


# Norms --------------------------------------------------------------------------------------------


def instance_norm(x: Tensor, weight: Tensor | None, bias: Tensor | None, mean: Tensor | None,
                  variance: Tensor | None, use_input_stats: bool, momentum: float, eps: float,
                  cudnn: bool = True) -> Tensor:  # fmt: skip
    """A group for each channel, or a batch norm by its own statistics."""
    if not use_input_stats:
        assert mean is not None and variance is not None
        return functional.batch_norm(x, mean, variance, weight, bias, False, momentum, eps)
    return functional.group_norm(x, x.shape[1], weight, bias, eps)


def layer_norm(x: Tensor, shape: Sequence[int], weight: Any = None, bias: Any = None,
               eps: float = 1e-5, cudnn: bool = True) -> Tensor:  # fmt: skip
    """Several trailing dimensions as one; what is computed of weight and bias behind it."""
    count = math.prod(shape)
    if len(shape) < 2:
        return affine(functional.layer_norm(x, shape, None, None, eps), weight, bias)
    weight, bias = (v if v is None else v.reshape(count) for v in (weight, bias))
    flat = x.reshape(*x.shape[: x.dim() - len(shape)], count)
    return functional.layer_norm(flat, [count], weight, bias, eps).reshape(x.shape)


def group_norm(x: Tensor, groups: int, weight: Any = None, bias: Any = None, eps: float = 1e-5,
               cudnn: bool = True) -> Tensor:  # fmt: skip
    """A computed weight and bias behind it."""
    made = functional.group_norm(x, groups, None, None, eps)
    return affine(made, by_channel(x, weight), by_channel(x, bias))


def native_group_norm(x: Tensor, weight: Any, bias: Any, n: int, channels: int, size: int,
                      groups: int, eps: float) -> tuple[Tensor, None, None]:  # fmt: skip
    """The normalized value without its statistics."""
    return group_norm(x, groups, weight, bias, eps), None, None


def batch_norm(x: Tensor, weight: Any, bias: Any, mean: Tensor, variance: Tensor, training: bool,
               momentum: float, eps: float, cudnn: bool = True) -> Tensor:  # fmt: skip
    """With parameters that are computed."""
    if training:
        raise ValueError("batch norm in training mode")
    made = (x - by_channel(x, mean)) * by_channel(x, torch.rsqrt(variance + eps))
    return affine(made, by_channel(x, weight), by_channel(x, bias))


def native_batch_norm_legit_no_training(
    x: Tensor, weight: Any, bias: Any, mean: Tensor, variance: Tensor, momentum: float, eps: float
) -> tuple[Tensor, None, None]:
    """The normalized value without its statistics."""
    return batch_norm(x, weight, bias, mean, variance, False, momentum, eps), None, None


def native_layer_norm(x: Tensor, *given: Any) -> tuple[Tensor, None, None]:
    """The normalized value without its statistics."""
    return layer_norm(x, *given), None, None


def softmax(x: Tensor, dim: int, *_: Any, **__: Any) -> Tensor:
    """Along another dimension than the last one."""
    if dim % x.dim() == x.dim() - 1:
        raise ValueError("softmax along the last dimension")
    return x.transpose(dim, -1).softmax(-1).transpose(dim, -1)

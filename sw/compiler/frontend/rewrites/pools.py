"""Pools of any number of dimensions and sizes, and the norms of images."""

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

_MOST = 64
"""Outputs of an adaptive pool along a dimension that are computed one by one."""


def _list(value: Any, count: int) -> list[int]:
    items = [value] if isinstance(value, int) else list(value)
    return items * count if len(items) == 1 else items


def _as_image(x: Tensor) -> Tensor:
    """[C, L], [N, C, L] or [C, H, W] as an image."""
    return x.unsqueeze(0) if x.dim() == 3 else x


def max_pool1d(x: Tensor, kernel: Any, stride: Any = (), padding: Any = 0, dilation: Any = 1,
               ceil_mode: bool = False) -> Tensor:  # fmt: skip
    rows = [[1, *_list(v, 1)] for v in (kernel, stride or kernel)]
    return functional.max_pool2d(
        x.unsqueeze(-2), rows[0], rows[1], [0, *_list(padding, 1)], [1, *_list(dilation, 1)],
        ceil_mode,
    ).squeeze(-2)  # fmt: skip


def max_pool2d(x: Tensor, kernel: Any, stride: Any = (), padding: Any = 0, dilation: Any = 1,
               ceil_mode: bool = False) -> Tensor:  # fmt: skip
    """Images without a batch; dilated windows as the largest of shifted images."""
    if x.dim() == 3:
        whole = x.unsqueeze(0)
        return functional.max_pool2d(whole, kernel, stride or None, padding, dilation, ceil_mode)[0]
    k, s, p, d = (_list(v, 2) for v in (kernel, stride or kernel, padding, dilation))
    if ceil_mode or d == [1, 1]:
        raise ValueError("max pool with dilation and ceil_mode")
    low = torch.finfo(torch.float32).min if any(p) else 0.0
    x = torch.constant_pad_nd(x, [p[1], p[1], p[0], p[0]], low) if any(p) else x
    out = [(x.shape[2 + i] - d[i] * (k[i] - 1) - 1) // s[i] + 1 for i in range(2)]
    if any(p):
        raise ValueError("max pool with dilation and padding")
    found: Tensor | None = None
    for i in range(k[0]):
        rows = x[:, :, i * d[0] :: s[0]][:, :, : out[0]]
        for j in range(k[1]):
            part = rows[:, :, :, j * d[1] :: s[1]][:, :, :, : out[1]]
            found = part if found is None else torch.maximum(found, part)
    assert found is not None
    return found


def max_pool2d_with_indices(x: Tensor, *args: Any) -> tuple[Tensor, None]:
    """Values without indices."""
    found = max_pool2d(x, *args)
    return found, None


def max_pool3d(x: Tensor, kernel: Any, stride: Any = (), padding: Any = 0, dilation: Any = 1,
               ceil_mode: bool = False) -> Tensor:  # fmt: skip
    """Rows and columns first, then depth."""
    k, s, p, d = (_list(v, 3) for v in (kernel, stride or kernel, padding, dilation))

    def pool(image: Tensor, part: slice) -> Tensor:
        one = [1] * (2 - len(k[part]))
        return functional.max_pool2d(
            image, [*k[part], *one], [*s[part], *one], [*p[part], *(0 for _ in one)],
            [*d[part], *one], ceil_mode,
        )  # fmt: skip

    return _by_plane(x, pool)


def max_pool3d_with_indices(x: Tensor, *args: Any) -> tuple[Tensor, None]:
    found = max_pool3d(x, *args)
    return found, None


def _by_plane(x: Tensor, pool: Any) -> Tensor:
    """A pool that is one of rows and columns, then one of depth."""
    whole = x if x.dim() == 5 else x.unsqueeze(0)
    n, c, depth, height, width = whole.shape
    image = pool(whole.reshape(n, c * depth, height, width), slice(1, 3))
    h, w = image.shape[2:]
    rows = pool(image.reshape(n, c, depth, h * w), slice(0, 1))
    made = rows.reshape(n, c, rows.shape[2], h, w)
    return made if x.dim() == 5 else made[0]


def avg_pool1d(x: Tensor, kernel: Any, stride: Any = (), padding: Any = 0,
               ceil_mode: bool = False, count_include_pad: bool = True) -> Tensor:  # fmt: skip
    return functional.avg_pool2d(
        x.unsqueeze(-2), [1, *_list(kernel, 1)], [1, *_list(stride or kernel, 1)],
        [0, *_list(padding, 1)], ceil_mode, count_include_pad,
    ).squeeze(-2)  # fmt: skip


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
    """Rows and columns first, then depth."""
    k, s, p = (_list(v, 3) for v in (kernel, stride or kernel, padding))

    def pool(image: Tensor, part: slice) -> Tensor:
        one = [1] * (2 - len(k[part]))
        return functional.avg_pool2d(
            image, [*k[part], *one], [*s[part], *one], [*p[part], *(0 for _ in one)], ceil_mode,
            count_include_pad,
        )  # fmt: skip

    made = _by_plane(x, pool)
    return made if divisor is None else made * (math.prod(k) / divisor)


# Adaptive pools -----------------------------------------------------------------------------------


def _adaptive(x: Tensor, sizes: Sequence[int | None], largest: bool) -> Tensor:
    """Pools of the last dimensions to `sizes`: a reduction for each output, dimension by dimension.

    Where every window has the same size, it is an ordinary pool of the next two dimensions.
    """
    first = x.dim() - len(sizes)
    target = [x.shape[first + i] if s is None else s for i, s in enumerate(sizes)]
    for axis, out in enumerate(target, first):
        size = x.shape[axis]
        if out == size:
            continue
        if out > _MOST:
            raise ValueError(f"adaptive pool from {size} to {out}: at most {_MOST}")
        spans = [(i * size // out, -(-(i + 1) * size // out)) for i in range(out)]
        x = _of_spans(x, axis, spans, largest)
    return x


def _of_spans(
    x: Tensor, axis: int, spans: Sequence[tuple[int, int]], largest: bool
) -> Tensor:  # fmt: skip
    parts = []
    for start, stop in spans:
        index = [slice(None)] * x.dim()
        index[axis] = slice(start, stop)
        part = x[tuple(index)]
        if stop - start > 1:
            part = part.amax(axis, keepdim=True) if largest else part.mean(axis, keepdim=True)
        parts.append(part)
    return torch.cat(parts, axis) if len(parts) > 1 else parts[0]


def _even(x: Tensor, sizes: Sequence[int | None]) -> list[int] | None:
    """The kernel where the last two dimensions divide evenly."""
    pairs = list(zip(x.shape[-len(sizes) :], sizes, strict=True))
    if len(sizes) == 2 and all(s is not None and size % s == 0 for size, s in pairs):
        return [size // s for size, s in pairs if s is not None]
    return None


def adaptive_avg_pool(x: Tensor, sizes: Any) -> Tensor:
    sizes = [sizes] if isinstance(sizes, int) else list(sizes)
    kernel = _even(x, sizes)
    if kernel is not None:
        return functional.avg_pool2d(_as_image(x), kernel).reshape(*x.shape[:-2], *sizes)
    return _adaptive(x, sizes, largest=False)


def adaptive_max_pool(x: Tensor, sizes: Any) -> tuple[Tensor, None]:
    """Values without indices."""
    sizes = [sizes] if isinstance(sizes, int) else list(sizes)
    kernel = _even(x, sizes)
    if kernel is not None:
        found = functional.max_pool2d(_as_image(x), kernel).reshape(*x.shape[:-2], *sizes)
    else:
        found = _adaptive(x, sizes, largest=True)
    return found, None


# Norms --------------------------------------------------------------------------------------------


def instance_norm(x: Tensor, weight: Tensor | None, bias: Tensor | None, mean: Tensor | None,
                  variance: Tensor | None, use_input_stats: bool, momentum: float, eps: float,
                  cudnn: bool = True) -> Tensor:  # fmt: skip
    """A group for each channel, or a batch norm by its own statistics."""
    if not use_input_stats:
        assert mean is not None and variance is not None
        return functional.batch_norm(x, mean, variance, weight, bias, False, momentum, eps)
    return functional.group_norm(x, x.shape[1], weight, bias, eps)


def layer_norm(
    x: Tensor,
    shape: Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
    cudnn: bool = True,
) -> Tensor:
    """Several trailing dimensions as one."""
    count = math.prod(shape)
    if len(shape) < 2:
        raise ValueError("layer norm over one dimension")
    weight, bias = (v if v is None else v.reshape(count) for v in (weight, bias))
    flat = x.reshape(*x.shape[: x.dim() - len(shape)], count)
    return functional.layer_norm(flat, [count], weight, bias, eps).reshape(x.shape)


def native_layer_norm(x: Tensor, shape: Sequence[int], weight: Tensor | None, bias: Tensor | None,
                      eps: float) -> tuple[Tensor, None, None]:  # fmt: skip
    """The normalized value without its statistics."""
    found = layer_norm(x, shape, weight, bias, eps)
    return found, None, None


def softmax(x: Tensor, dim: int, *_: Any, **__: Any) -> Tensor:
    """Along another dimension than the last one."""
    if dim % x.dim() == x.dim() - 1:
        raise ValueError("softmax along the last dimension")
    return x.transpose(dim, -1).softmax(-1).transpose(dim, -1)

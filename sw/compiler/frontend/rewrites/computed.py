"""What stands for convolutions and norms whose weight or bias is computed."""

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

_MOST_TAPS = 256
"""Elements of a computed kernel: each is a slice of the input."""


_CALLS: Mapping[int, tuple[Callable[..., Tensor], Callable[..., Tensor]]] = {
    3: (functional.conv1d, functional.conv_transpose1d),
    4: (functional.conv2d, functional.conv_transpose2d),
    5: (functional.conv3d, functional.conv_transpose3d),
}
"""The convolution and the transposed one by a kernel of so many dimensions."""


def any_convolution(
    x: Tensor, weight: Tensor, bias: Tensor | None, stride: Any, padding: Any, dilation: Any,
    transposed: bool, output_padding: Any, groups: int,
) -> Tensor:  # fmt: skip
    """`aten.convolution` as the one of its kind and number of dimensions."""
    if transposed:
        return turned(x, weight, bias, stride, padding, output_padding, groups, dilation)
    return convolved(x, weight, bias, stride, padding, dilation, groups)


def affine(x: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
    """x · weight + bias, as far as there are any."""
    x = x if weight is None else x * weight
    return x if bias is None else x + bias


def by_channel(x: Tensor, values: Any) -> Any:
    """Values of channels beside `x`, the second dimension of which they are; None stays None."""
    return None if values is None else values.reshape(1, -1, *[1] * (x.dim() - 2))


def convolved(x: Tensor, weight: Tensor, bias: Tensor | None, stride: Any, padding: Any,
              dilation: Any, groups: int) -> Tensor:  # fmt: skip
    """The bias added behind it; else windows of the input times the kernel, as matrices."""
    if bias is not None:
        call, _ = _CALLS[weight.dim()]
        made = call(x, weight, None, stride, padding, dilation, groups)
        return affine(made, None, by_channel(made, bias))
    kernel = weight.shape[2:]
    _check(x, kernel)
    s, d = (_each(value, len(kernel)) for value in (stride, dilation))
    pads = _pads(padding, kernel, d)
    x = functional.pad(x, [size for pair in reversed(pads) for size in pair])
    spans = [step * (size - 1) for step, size in zip(d, kernel, strict=True)]
    out = [(n - span - 1) // step + 1 for n, span, step in zip(x.shape[2:], spans, s, strict=True)]
    taps = []
    for tap in itertools.product(*map(range, kernel)):
        part = x
        for axis, (at, by, step, count) in enumerate(zip(tap, d, s, out, strict=True)):
            first = at * by
            rows = slice(first, first + (count - 1) * step + 1, step)
            part = part[(*[slice(None)] * (2 + axis), rows)]
        taps.append(part)
    batch, made = x.shape[0], weight.shape[0] // groups
    windows = torch.stack(taps, 2).reshape(batch, groups, -1, math.prod(out))
    matrices = weight.reshape(1, groups, made, -1).expand(batch, -1, -1, -1)
    return (matrices @ windows).reshape(batch, -1, *out)


def turned(x: Tensor, weight: Tensor, bias: Tensor | None, stride: Any, padding: Any,
           output_padding: Any, groups: int, dilation: Any) -> Tensor:  # fmt: skip
    """A convolution of the input with zeros between its elements, by the kernel turned round."""
    plain, call = _CALLS[weight.dim()]
    if bias is not None:
        made = call(x, weight, None, stride, padding, output_padding, groups, dilation)
        return affine(made, None, by_channel(made, bias))
    kernel = weight.shape[2:]
    _check(x, kernel)
    rank = len(kernel)
    s, p, more, d = (_each(v, rank) for v in (stride, padding, output_padding, dilation))
    for axis in range(rank):
        x = _spread(x, 2 + axis, s[axis])
    pads = []
    for axis in range(rank):
        around = d[axis] * (kernel[axis] - 1) - p[axis]
        pads.append((around, around + more[axis]))
    x = functional.pad(x, [size for pair in reversed(pads) for size in pair])
    kernels = weight.flip(tuple(range(2, 2 + rank)))
    inner = weight.shape[0] // groups
    kernels = kernels.reshape(groups, inner, *weight.shape[1:]).transpose(1, 2)
    kernels = kernels.reshape(-1, inner, *kernel)
    return plain(x, kernels, None, 1, 0, d, groups)


def _spread(x: Tensor, axis: int, step: int) -> Tensor:
    """step − 1 zeros between the elements."""
    if step == 1:
        return x
    size = x.shape[axis]
    wide = torch.stack([x, *[torch.zeros_like(x)] * (step - 1)], axis + 1)
    wide = wide.reshape(*x.shape[:axis], size * step, *x.shape[axis + 1 :])
    return wide.narrow(axis, 0, (size - 1) * step + 1)


def _check(x: Tensor, kernel: Sequence[int]) -> None:
    if x.dim() != len(kernel) + 2:
        raise ValueError(f"a computed kernel on {x.dim()} dimensions: only [N, C, …]")
    if math.prod(kernel) > _MOST_TAPS:
        raise ValueError(f"a computed kernel of {list(kernel)}: at most {_MOST_TAPS} elements")


def _each(value: Any, rank: int) -> list[int]:
    """An attribute of each dimension."""
    items = [value] if isinstance(value, int) else list(value)
    return items * rank if len(items) == 1 else items


def _pads(padding: Any, kernel: Sequence[int], dilation: Sequence[int]) -> list[tuple[int, int]]:
    """Zeros before and after, of each dimension."""
    spans = [by * (size - 1) for by, size in zip(dilation, kernel, strict=True)]
    if padding == "same":
        return [(span // 2, span - span // 2) for span in spans]
    if padding == "valid":
        return [(0, 0)] * len(spans)
    return [(size, size) for size in _each(padding, len(spans))]

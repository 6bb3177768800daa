"""Windows of convolutions and pools, and the kernels that go through them.

TOSA allows no rest behind the last window. Transposed convolutions, groups and dilations become
forms that TOSA has.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch.fx import Node

from sw.compiler.frontend.nodes import arguments, name, shape

Float = NDArray[np.float64]

Pads = Sequence[tuple[int, int]]
"""(before, behind) of rows and of columns."""


def pool_pads(
    extent: Sequence[int],
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    ceil: bool,
) -> list[tuple[int, int]]:
    """Padding of a pool of PyTorch; with ceil_mode, what the last window needs more behind."""
    pads = []
    for size, window, step, pad in zip(extent, kernel, stride, padding, strict=True):
        steps, rest = divmod(size + 2 * pad - window, step)
        # PyTorch drops a window that would start in the padding behind the input.
        inside = (steps + 1) * step < size + pad
        pads.append((pad, pad + (step - rest if ceil and rest and inside else 0)))
    return pads


def fit_windows(
    extent: Sequence[int], reach: Sequence[int], stride: Sequence[int], pads: Pads
) -> tuple[list[int], tuple[int, ...]]:
    """(rows and columns to keep, TOSA's pad) such that the last window leaves nothing over.

    A window reaches over `reach` elements, dilation included. What is left over is cut from the
    padding behind, then from the input.
    """
    kept, pad = [], []
    for size, window, step, (before, behind) in zip(extent, reach, stride, pads, strict=True):
        behind -= (size + before + behind - window) % step
        kept.append(size + min(behind, 0))
        pad += [before, max(behind, 0)]
    return kept, tuple(pad)


_MERGED = 16
"""Channels up to which small groups of a transposed convolution or of one in 3-D are merged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Windows:
    """Attributes of a convolution by spatial dimension, at least two.

    pads: (before, behind); for transposed ones `extra` is the output padding.
    """

    stride: tuple[int, ...]
    pads: tuple[tuple[int, int], ...]
    dilation: tuple[int, ...]
    groups: int
    transposed: bool
    extra: tuple[int, ...]


def windows(call: Node, kernel: Sequence[int]) -> Windows:
    """The attributes of any spelling of a convolution whose kernel is [rows, columns] or more."""
    given = arguments(call)
    count, one = len(kernel), len(shape(call)) == 3
    stride = _spread(given["stride"], count, one, 1)
    dilation = _spread(given["dilation"], count, one, 1)
    transposed = given.get("transposed", "transpose" in name(call))
    extra = _spread(given["output_padding"] if transposed else 0, count, one, 0)
    padding = given["padding"]
    if isinstance(padding, str):
        total = [(k - 1) * d * (padding == "same") for k, d in zip(kernel, dilation, strict=True)]
        # PyTorch puts the smaller half in front.
        pads = tuple((t // 2, t - t // 2) for t in total)
    else:
        pads = tuple((p, p) for p in _spread(padding, count, one, 0))
    return Windows(
        stride=stride, pads=pads, dilation=dilation, groups=int(given["groups"]),
        transposed=transposed, extra=extra,
    )  # fmt: skip


def by_weight(channels: Float, kernel: Sequence[int], groups: int) -> Float:
    """Values of input channels as [out, in of a group, 1, …], for a kernel of that shape."""
    out, inner = kernel[:2]
    by_group = channels.reshape(groups, inner).repeat(out // groups, axis=0)
    return by_group.reshape(out, inner, *[1] * (len(kernel) - 2))


def _spread(value: Any, count: int, one: bool, row: int) -> tuple[int, ...]:
    """An attribute for each of `count` dimensions; conv1d has columns only, `row` is of rows."""
    items = [int(v) for v in value] if isinstance(value, list | tuple) else [int(value)]
    if one:
        return (row, items[-1])
    return tuple(items * count if len(items) == 1 else items)


def output_first(kernel: Float, groups: int) -> Float:
    """A transposed convolution's [in, out of a group, …] as [out, in of a group, …]."""
    inner, made = len(kernel) // groups, kernel.shape[1]
    split = kernel.reshape(groups, inner, made, *kernel.shape[2:])
    return split.swapaxes(1, 2).reshape(groups * made, inner, *kernel.shape[2:])


def as_plain(kernel: Float, w: Windows) -> tuple[Float, Windows]:
    """A transposed convolution without strides as one of the mirrored kernel: dilation is free."""
    mirrored = np.flip(kernel, axis=tuple(range(2, kernel.ndim)))
    pads = tuple(
        (d * (k - 1) - before, d * (k - 1) - behind + e)
        for k, d, (before, behind), e in zip(
            kernel.shape[2:], w.dilation, w.pads, w.extra, strict=True
        )
    )
    return mirrored, replace(w, pads=pads, transposed=False, extra=(0,) * len(w.extra))


def merged_groups(weight: Float, w: Windows, zero: int) -> tuple[Float, Windows]:
    """Groups of few channels together, zeros between them: an array's rows work side by side."""
    inner, made = weight.shape[1], len(weight) // w.groups
    most = max(1, _MERGED // max(inner, made))
    by = max(n for n in range(1, w.groups + 1) if w.groups % n == 0 and n <= most)
    if by == 1:
        return weight, w
    split = weight.reshape(w.groups // by, by, made, inner, *weight.shape[2:])
    wide = np.full((w.groups // by, by, made, by, inner, *weight.shape[2:]), float(zero))
    for i in range(by):
        wide[:, i, :, i] = split[:, i]
    return wide.reshape(len(weight), by * inner, *weight.shape[2:]), replace(
        w, groups=w.groups // by
    )


def stuffed(weight: Float, dilation: Sequence[int]) -> Float:
    """A kernel with zeros where the dilation leaves gaps."""
    if all(d == 1 for d in dilation):
        return weight
    sizes = [(k - 1) * d + 1 for k, d in zip(weight.shape[2:], dilation, strict=True)]
    wide = np.zeros((*weight.shape[:2], *sizes))
    wide[(..., *(slice(None, None, d) for d in dilation))] = weight
    return wide

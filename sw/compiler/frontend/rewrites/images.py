"""Padding by what lies inside, and resizing of volumes and by cubic weights."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional


def pad(x: Tensor, pads: Sequence[int], mode: str = "constant", value: float | None = None) -> Any:
    """pad in every mode, from the last dimension on."""
    if mode == "constant":
        return torch.constant_pad_nd(x, list(pads), value or 0.0)
    made = {"reflect": _reflected, "replicate": _replicated, "circular": _circular}[mode]
    for i in range(len(pads) // 2):
        x = made(x, x.dim() - 1 - i, pads[2 * i], pads[2 * i + 1])
    return x


def reflection_pad(x: Tensor, pads: Sequence[int]) -> Any:
    return pad(x, pads, "reflect")


def replication_pad(x: Tensor, pads: Sequence[int]) -> Any:
    return pad(x, pads, "replicate")


def _part(x: Tensor, dim: int, start: int, size: int) -> Tensor:
    """`size` elements from `start` on; negative padding cuts."""
    index = [slice(None)] * x.dim()
    index[dim] = slice(start, start + size)
    return x[tuple(index)]


def _joined(dim: int, *parts: Tensor | None) -> Tensor:
    given = [p for p in parts if p is not None]
    return torch.cat(given, dim) if len(given) > 1 else given[0]


def _inside(x: Tensor, dim: int, before: int, behind: int) -> Tensor:
    """What negative padding leaves."""
    if before >= 0 and behind >= 0:
        return x
    size = x.shape[dim] + min(before, 0) + min(behind, 0)
    return _part(x, dim, max(-before, 0), size)


def _reflected(x: Tensor, dim: int, before: int, behind: int) -> Tensor:
    size = x.shape[dim]
    head = _part(x, dim, 1, before).flip(dim) if before > 0 else None
    tail = _part(x, dim, size - 1 - behind, behind).flip(dim) if behind > 0 else None
    return _joined(dim, head, _inside(x, dim, before, behind), tail)


def _replicated(x: Tensor, dim: int, before: int, behind: int) -> Tensor:
    def copies(at: int, count: int) -> Tensor | None:
        shape = list(x.shape)
        shape[dim] = count
        return _part(x, dim, at, 1).expand(shape) if count > 0 else None

    head, tail = copies(0, before), copies(x.shape[dim] - 1, behind)
    return _joined(dim, head, _inside(x, dim, before, behind), tail)


def _circular(x: Tensor, dim: int, before: int, behind: int) -> Tensor:
    size = x.shape[dim]
    head = _part(x, dim, size - before, before) if before > 0 else None
    tail = _part(x, dim, 0, behind) if behind > 0 else None
    return _joined(dim, head, _inside(x, dim, before, behind), tail)


# Resizing -----------------------------------------------------------------------------------------


def nearest3d(x: Tensor, size: Sequence[int] | None, scales: Sequence[float] | None = None) -> Any:
    """Rows and columns as an image, then depth as rows of one."""
    return _volume(x, size, scales, "nearest", {})


def nearest_exact3d(x: Tensor, size: Sequence[int] | None,
                    scales: Sequence[float] | None = None) -> Any:  # fmt: skip
    return _volume(x, size, scales, "nearest-exact", {})


def trilinear(x: Tensor, size: Sequence[int] | None, align: bool,
              scales: Sequence[float] | None = None) -> Any:  # fmt: skip
    return _volume(x, size, scales, "bilinear", {"align_corners": align})


def _volume(x: Tensor, size: Any, scales: Any, mode: str, more: dict[str, Any]) -> Tensor:
    n, c, depth, height, width = x.shape

    def resized(image: Tensor, at: int, own: Sequence[int]) -> Tensor:
        """The dimensions of `size` from `at` on; of a whole image, `own` stays."""
        if size is not None:
            target = (size[1], size[2]) if at else (size[0], own[1])
            return functional.interpolate(image, size=target, mode=mode, **more)
        factor = (scales[1], scales[2]) if at else (scales[0], 1.0)
        return functional.interpolate(image, scale_factor=factor, mode=mode, **more)

    image = resized(x.reshape(n, c * depth, height, width), 1, ())
    out = image.shape[2] * image.shape[3]
    rows = resized(image.reshape(n, c, depth, out), 0, (depth, out))
    return rows.reshape(n, c, rows.shape[2], image.shape[2], image.shape[3])


def bicubic(x: Tensor, size: Sequence[int] | None, align: bool,
            scales: Sequence[float] | None = None) -> Tensor:  # fmt: skip
    """Two products with the weights of rows and of columns, which PyTorch makes of unit images."""

    def weights(axis: int) -> Tensor:
        count = x.shape[2 + axis]
        target = [count, count]
        factor = None
        if size is not None:
            target[1] = size[axis]
        else:
            assert scales is not None
            target[1] = int(count * scales[axis])
            factor = [1.0, scales[axis]]
        unit = torch.eye(count).reshape(1, 1, count, count)
        op = torch.ops.aten.upsample_bicubic2d
        if factor is None:
            made = op.vec(unit, target, align, None)
        else:
            made = op.default(unit, target, align, *factor)
        return made.reshape(count, target[1]).t()

    x = functional.linear(x, weights(1))
    return functional.linear(x.transpose(2, 3), weights(0)).transpose(2, 3)

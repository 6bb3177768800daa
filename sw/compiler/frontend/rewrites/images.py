"""Padding by what lies inside, and resizing of volumes and by cubic weights."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional


def pad(x: Tensor, pads: list[int], mode: str = "constant", value: float | None = None) -> Tensor:
    """Every mode, from the last dimension on; negative padding cuts."""
    if mode == "constant":
        return torch.constant_pad_nd(x, pads, value or 0.0)
    if mode != "circular":
        name = {"reflect": "reflection", "replicate": "replication"}[mode]
        return getattr(torch.ops.aten, f"{name}_pad{len(pads) // 2}d")(x, pads)
    for i in range(len(pads) // 2):
        dim = x.dim() - 1 - i
        before, behind = pads[2 * i], pads[2 * i + 1]
        size, first = x.shape[dim], max(-before, 0)
        inside = x.narrow(dim, first, size - first - max(-behind, 0))
        head = [x.narrow(dim, size - before, before)] if before > 0 else []
        tail = [x.narrow(dim, 0, behind)] if behind > 0 else []
        x = torch.cat([*head, inside, *tail], dim)
    return x


# Resizing -----------------------------------------------------------------------------------------


def upsample_nearest3d(x: Tensor, *given: Any) -> Tensor:
    return _volume(x, *given, mode="nearest")


def upsample_nearest_exact3d(x: Tensor, *given: Any) -> Tensor:
    return _volume(x, *given, mode="nearest-exact")


def upsample_trilinear3d(x: Tensor, size: Any, align: bool, scales: Any = None) -> Tensor:
    return _volume(x, size, scales, mode="bilinear", align_corners=align)


def _volume(x: Tensor, size: Any, scales: Any = None, **how: Any) -> Tensor:
    """Rows and columns as an image, then depth as rows of one."""
    n, c, depth, height, width = x.shape

    def resized(image: Tensor, at: int, own: Sequence[int]) -> Tensor:
        """The dimensions of `size` from `at` on; of a whole image, `own` stays."""
        if size is not None:
            target = (size[1], size[2]) if at else (size[0], own[1])
            return functional.interpolate(image, size=target, **how)
        factor = (scales[1], scales[2]) if at else (scales[0], 1.0)
        return functional.interpolate(image, scale_factor=factor, **how)

    image = resized(x.reshape(n, c * depth, height, width), 1, ())
    out = image.shape[2] * image.shape[3]
    rows = resized(image.reshape(n, c, depth, out), 0, (depth, out))
    return rows.reshape(n, c, rows.shape[2], image.shape[2], image.shape[3])


def upsample_bicubic2d(x: Tensor, size: Any, align: bool, scales: Any = None) -> Tensor:
    """Two products with the weights of rows and of columns, which PyTorch makes of unit images."""

    def weights(axis: int) -> Tensor:
        count = x.shape[2 + axis]
        unit = torch.eye(count).reshape(1, 1, count, count)
        own = None if size is None else [count, size[axis]]
        factors = None if scales is None else [1.0, scales[axis]]
        return torch.ops.aten.upsample_bicubic2d.vec(unit, own, align, factors)[0, 0].t()

    x = functional.linear(x, weights(1))
    return functional.linear(x.transpose(2, 3), weights(0)).transpose(2, 3)

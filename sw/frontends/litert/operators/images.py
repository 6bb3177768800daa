"""Pools and resizing, whose results are [N, C, H, W] (`Row.image`), and moves of images."""

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from sw.frontends.litert.call import Call, same_pads


def average_pool_2d(call: Call, x: Tensor) -> Tensor:
    """The mean of what is inside of the image."""
    return _pooled(call, x, average=True)


def max_pool_2d(call: Call, x: Tensor) -> Tensor:
    return _pooled(call, x, average=False)


def _pooled(call: Call, x: Tensor, average: bool) -> Tensor:
    """PyTorch pads both ends alike. Where SAME pads one more behind, windows reach over the end
    (`ceil_mode`), or with stride 1 the first one is cut off.
    """
    o = call.options
    kernel, stride = [o.FilterHeight(), o.FilterWidth()], [o.StrideH(), o.StrideW()]
    padding, first, ceil = [0, 0], [0, 0], False
    pads = call.operator.pads
    if pads is None and o.Padding() == 0:
        pads = same_pads(x.shape[1:3], kernel, stride, (1, 1))
    if pads is not None:
        for i, (before, behind) in enumerate(pads):
            padding[i] = before
            if before != behind and stride[i] == 1:
                padding[i], first[i] = behind, 1
            ceil = ceil or before != behind
    image = call.image(x)
    if average:
        out = F.avg_pool2d(image, kernel, stride, padding, ceil, count_include_pad=False)
    else:
        out = F.max_pool2d(image, kernel, stride, padding, 1, ceil)
    return call.activated(out[:, :, first[0] :, first[1] :])


# Resizing -----------------------------------------------------------------------------------------


def resize_bilinear(call: Call, x: Tensor) -> Tensor:
    o, size = call.options, call.ints(1)
    image = call.image(x)
    if o.AlignCorners() or o.HalfPixelCenters():
        corners = bool(o.AlignCorners())
        return F.interpolate(image, size, mode="bilinear", align_corners=corners)
    if all(out % old == 0 for out, old in zip(size, image.shape[2:], strict=True)):
        return _multiplied(image, size)
    for axis, out in ((2, size[0]), (3, size[1])):
        image = _interpolated(image, axis, out)
    return image


def _multiplied(image: Tensor, size: list[int]) -> Tensor:
    """Pixels at their corners and whole factors: as with aligned corners, one pixel further."""
    image = torch.cat([image, image[:, :, -1:]], 2)
    image = torch.cat([image, image[:, :, :, -1:]], 3)
    further = [v + 1 for v in size]
    out = F.interpolate(image, further, mode="bilinear", align_corners=True)
    return out[:, :, : size[0], : size[1]]


def _interpolated(image: Tensor, axis: int, out: int) -> Tensor:
    """Linear between neighbours, with pixels at their corners."""
    last = image.shape[axis] - 1
    at = _counted(out) * float(np.float32(image.shape[axis] / out))
    low = torch.clamp_max(torch.floor(at), last)
    weight = (at - low).reshape(-1, *[1] * (3 - axis))
    near = image.index_select(axis, low.long())
    far = image.index_select(axis, torch.clamp_max(low.long() + 1, last))
    return near + (far - near) * weight


def _counted(count: int) -> Tensor:
    return torch.arange(count, dtype=torch.float32)


def resize_nearest_neighbor(call: Call, x: Tensor) -> Tensor:
    o, size = call.options, call.ints(1)
    image = call.image(x)
    if not o.AlignCorners():
        mode = "nearest-exact" if o.HalfPixelCenters() else "nearest"
        return F.interpolate(image, size, mode=mode)
    for axis, out in ((2, size[0]), (3, size[1])):
        last = image.shape[axis] - 1
        step = float(np.float32(last / (out - 1))) if out > 1 else 1.0
        shift = 0.5 if o.HalfPixelCenters() else 0.0
        at = torch.floor((_counted(out) + shift) * step + 0.5)
        image = image.index_select(axis, torch.clamp_max(at, last).long())
    return image


# Moves --------------------------------------------------------------------------------------------


def depth_to_space(call: Call, x: Tensor) -> Tensor:
    b = int(call.options.BlockSize())
    n, h, w, c = x.shape
    parts = x.reshape(n, h, w, b, b, c // (b * b)).permute(0, 1, 3, 2, 4, 5)
    return parts.reshape(n, h * b, w * b, c // (b * b))


def space_to_depth(call: Call, x: Tensor) -> Tensor:
    b = int(call.options.BlockSize())
    n, h, w, c = x.shape
    parts = x.reshape(n, h // b, b, w // b, b, c).permute(0, 1, 3, 2, 4, 5)
    return parts.reshape(n, h // b, w // b, b * b * c)


def space_to_batch_nd(call: Call, x: Tensor) -> Tensor:
    blocks, pads = call.ints(1), call.ints(2)
    behind = [0, 0] * (x.dim() - 1 - len(blocks))
    flat = [p for i in reversed(range(len(blocks))) for p in pads[2 * i : 2 * i + 2]]
    x = F.pad(x, (*behind, *flat))
    m, rest = len(blocks), x.shape[1 + len(blocks) :]
    split = [v for size, b in zip(x.shape[1 : 1 + m], blocks, strict=True) for v in (size // b, b)]
    order = [2 + 2 * i for i in range(m)] + [0] + [1 + 2 * i for i in range(m)]
    order += range(1 + 2 * m, 1 + 2 * m + len(rest))
    out = [x.shape[0] * int(np.prod(blocks)), *split[::2], *rest]
    return x.reshape(x.shape[0], *split, *rest).permute(order).reshape(out)


def batch_to_space_nd(call: Call, x: Tensor) -> Tensor:
    blocks, crops = call.ints(1), call.ints(2)
    m, rest = len(blocks), x.shape[1 + len(blocks) :]
    n = x.shape[0] // int(np.prod(blocks))
    space = x.shape[1 : 1 + m]
    order = [m, *(v for i in range(m) for v in (m + 1 + i, i))]
    order += range(2 * m + 1, 2 * m + 1 + len(rest))
    wide = [size * b for size, b in zip(space, blocks, strict=True)]
    out = x.reshape(*blocks, n, *space, *rest).permute(order).reshape(n, *wide, *rest)
    for i, size in enumerate(wide):
        out = out.narrow(1 + i, crops[2 * i], size - crops[2 * i] - crops[2 * i + 1])
    return out

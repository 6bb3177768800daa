"""Shapes, parts, and concatenations."""

from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from sw.frontends.litert.call import Call
from sw.frontends.litert.records import Array


def reshape(call: Call, x: Tensor) -> Tensor:
    """The shape is operand 1, or among the options."""
    if call.has(1):
        return x.reshape(call.ints(1))
    o = call.options
    return x.reshape([o.NewShape(i) for i in range(o.NewShapeLength())])


def squeeze(call: Call, x: Tensor) -> Tensor:
    o = call.options
    axes = [call.axis(o.SqueezeDims(i), x.dim()) for i in range(o.SqueezeDimsLength())]
    gone = [a for a in axes or range(x.dim()) if x.shape[a] == 1]
    return x.reshape([size for a, size in enumerate(x.shape) if a not in gone])


def expand_dims(call: Call, x: Tensor) -> Tensor:
    return x.unsqueeze(call.axes(1, x.dim() + 1)[0])


def transpose(call: Call, x: Tensor) -> Tensor:
    return x.permute(call.axes(1, x.dim()))


def concatenation(call: Call, *parts: Tensor) -> Tensor:
    axis = call.axis(call.options.Axis(), parts[0].dim())
    return call.activated(torch.cat(parts, axis))


def split(call: Call, x: Tensor) -> tuple[Tensor, ...]:
    """Operand 0 is the dimension."""
    count, axis = int(call.options.NumSplits()), call.axes(0, x.dim())[0]
    if count < 1 or x.shape[axis] % count:
        call.fail(f"{x.shape[axis]} elements in {count} equal parts")
    return torch.split(x, x.shape[axis] // count, axis)


def split_v(call: Call, x: Tensor) -> tuple[Tensor, ...]:
    """Operand 1: sizes, one of which may be −1; operand 2: the dimension."""
    sizes, axis = call.ints(1), call.axes(2, x.dim())[0]
    rest = x.shape[axis] - sum(s for s in sizes if s >= 0)
    return torch.split(x, [rest if s < 0 else s for s in sizes], axis)


def pack(call: Call, *parts: Tensor) -> Tensor:
    return torch.stack(parts, call.axis(call.options.Axis(), parts[0].dim() + 1))


def unpack(call: Call, x: Tensor) -> tuple[Tensor, ...]:
    return torch.unbind(x, call.axis(call.options.Axis(), x.dim()))


def slice_(call: Call, x: Tensor) -> Tensor:
    """Operand 1: where it begins; operand 2: its sizes, −1 for all that is left."""
    for axis, (start, size) in enumerate(zip(call.ints(1), call.ints(2), strict=True)):
        x = x.narrow(axis, start, x.shape[axis] - start if size < 0 else size)
    return x


def strided_slice(call: Call, x: Tensor) -> Tensor:
    """Operands 1, 2, 3: begin, end, stride by index; the masks are those of NumPy's `a[…]`."""
    o, at = call.options, 0
    starts, ends, steps = (call.ints(i) for i in (1, 2, 3))
    indices = range(len(starts))
    spanned = x.dim() - sum(not (o.EllipsisMask() | o.NewAxisMask()) >> i & 1 for i in indices)
    for i, (start, end, step) in enumerate(zip(starts, ends, steps, strict=True)):
        if o.EllipsisMask() >> i & 1:
            at += spanned
        elif o.NewAxisMask() >> i & 1:
            x, at = x.unsqueeze(at), at + 1
        elif o.ShrinkAxisMask() >> i & 1:
            x = x.select(at, start)
        else:
            first = None if o.BeginMask() >> i & 1 else start
            last = None if o.EndMask() >> i & 1 else end + start * bool(o.Offset())
            x = _strided(x, at, range(*slice(first, last, step).indices(x.shape[at])))
            at += 1
    return x


def _strided(x: Tensor, axis: int, at: range) -> Tensor:
    """The elements `at` of a dimension; PyTorch has no negative strides."""
    if not at:
        return x.narrow(axis, 0, 0)
    low, high = min(at[0], at[-1]), max(at[0], at[-1])
    x = x[(*[slice(None)] * axis, slice(low, high + 1, abs(at.step)))]
    return x if at.step > 0 else x.flip(axis)


def reverse_v2(call: Call, x: Tensor) -> Tensor:
    return x.flip(call.axes(1, x.dim()))


def pad(call: Call, x: Tensor) -> Tensor:
    """Operand 1: (before, behind) of each dimension; operand 2, if any: the value."""
    value = call.real(2) if call.has(2) else 0.0
    if not x.is_floating_point():
        value = int(value)
    return F.pad(x, _flat(call), value=value)


def _flat(call: Call) -> list[int]:
    """Paddings as PyTorch has them: the last dimension first."""
    pads = call.ints(1)
    return [p for i in reversed(range(len(pads) // 2)) for p in pads[2 * i : 2 * i + 2]]


def mirror_pad(call: Call, x: Tensor) -> Tensor:
    """REFLECT, or SYMMETRIC, which repeats the edge; by the indices of each dimension."""
    mode: Any = "symmetric" if call.options.Mode() else "reflect"
    pads = call.ints(1)
    for axis in range(x.dim()):
        ends = (pads[2 * axis], pads[2 * axis + 1])
        if max(ends) > x.shape[axis]:
            call.fail(f"{max(ends)} elements mirrored of {x.shape[axis]}")
        if any(ends):
            at: Array = np.pad(np.arange(x.shape[axis]), ends, mode=mode)
            x = x.index_select(axis, torch.from_numpy(at))
    return x


def tile(call: Call, x: Tensor) -> Tensor:
    return x.repeat(call.ints(1))


def broadcast_to(call: Call, x: Tensor) -> Tensor:
    return x.expand(call.ints(1))


def fill(call: Call, value: Tensor) -> Tensor:
    """Operand 0: the shape."""
    return value.reshape(()).expand(call.ints(0))


def range_(call: Call) -> Tensor:
    start, limit, step = (call.array(i).reshape(-1)[0].item() for i in range(3))
    return torch.arange(start, limit, step)

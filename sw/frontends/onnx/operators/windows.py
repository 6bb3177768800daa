"""Windows of convolutions and pools: padding as ONNX gives it."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F

from sw.frontends.onnx.node import Node


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """A window of each spatial dimension; begin and end: padding before and after."""

    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    dilation: tuple[int, ...]
    begin: tuple[int, ...]
    end: tuple[int, ...]

    @property
    def is_even(self) -> bool:
        """Whether there is as much padding after as before."""
        return self.begin == self.end

    def extent(self, axis: int) -> int:
        """Elements from the first of a window to its last."""
        return (self.kernel[axis] - 1) * self.dilation[axis] + 1

    def last(self, axis: int, size: int, ceil: bool, end: int | None = None) -> int:
        """The position of the last window; sizes are rounded up with ceil. end: other padding."""
        room = size + self.begin[axis] + (self.end[axis] if end is None else end)
        room -= self.extent(axis)
        last = -(-room // self.stride[axis]) if ceil else room // self.stride[axis]
        # A window that begins in the padding after is left out.
        return last - 1 if ceil and last * self.stride[axis] >= size + self.begin[axis] else last

    def beyond(self, sizes: Sequence[int], ceil: bool) -> tuple[int, ...]:
        """Elements after all padding that the last windows need where sizes are rounded up."""
        return tuple(
            max(0, self.last(i, n, ceil) * self.stride[i] + self.extent(i) - n - b - e)
            for i, (n, b, e) in enumerate(zip(sizes, self.begin, self.end, strict=True))
        )

    def rounding(self, sizes: Sequence[int], ceil: bool) -> bool | None:
        """The ceil_mode with which PyTorch has these windows, None if it has none.

        PyTorch pads as much after as before, which changes nothing but how many windows there are.
        """
        if any(2 * b > k for b, k in zip(self.begin, self.kernel, strict=True)):
            return None
        wanted = [self.last(i, n, ceil) for i, n in enumerate(sizes)]
        for up in (ceil, not ceil):
            if wanted == [self.last(i, n, up, self.begin[i]) for i, n in enumerate(sizes)]:
                return up
        return None

    def padded(self, x: torch.Tensor, value: float, beyond: Sequence[int] = ()) -> torch.Tensor:
        """x (…, spatial) with its padding."""
        end = [e + b for e, b in zip(self.end, beyond or [0] * len(self.end), strict=True)]
        sides = [side for pair in zip(self.begin, end, strict=True) for side in reversed(pair)]
        sides = sides[::-1]
        return F.pad(x, sides, value=value) if any(sides) else x


def window_of(node: Node, sizes: Sequence[int], kernel: Sequence[int]) -> Window:
    """The window of a node whose input has these spatial sizes."""
    rank = len(sizes)
    kernel = tuple(node.get("kernel_shape", kernel))
    stride = tuple(node.get("strides", [1] * rank))
    dilation = tuple(node.get("dilations", [1] * rank))
    auto = node.only("auto_pad", "NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID")
    pads = node.get("pads", [0] * (2 * rank))
    begin, end = tuple(pads[:rank]), tuple(pads[rank:])
    if auto == "VALID":
        begin = end = (0,) * rank
    elif auto != "NOTSET":
        extents = [(k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True)]
        total = [
            max(0, (math.ceil(n / s) - 1) * s + k - n)
            for n, s, k in zip(sizes, stride, extents, strict=True)
        ]
        less, more = tuple(t // 2 for t in total), tuple(t - t // 2 for t in total)
        begin, end = (less, more) if auto == "SAME_UPPER" else (more, less)
    return Window(kernel=kernel, stride=stride, dilation=dilation, begin=begin, end=end)

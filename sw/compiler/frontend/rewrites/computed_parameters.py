"""Convolutions whose kernel or bias is computed: kernels that a network makes for each input,
correlation of two images, offsets from another branch.
"""

from typing import Any

from torch import Tensor
from torch.nn import functional

from sw.compiler.frontend.rewrites.computed import convolved, turned


def conv1d(x: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Any = 1,
           padding: Any = 0, dilation: Any = 1, groups: int = 1) -> Tensor:  # fmt: skip
    call = functional.conv1d
    return convolved(call, x, weight, bias, stride, padding, dilation, groups)


def conv2d(x: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Any = 1,
           padding: Any = 0, dilation: Any = 1, groups: int = 1) -> Tensor:  # fmt: skip
    call = functional.conv2d
    return convolved(call, x, weight, bias, stride, padding, dilation, groups)


def conv3d(x: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Any = 1,
           padding: Any = 0, dilation: Any = 1, groups: int = 1) -> Tensor:  # fmt: skip
    call = functional.conv3d
    return convolved(call, x, weight, bias, stride, padding, dilation, groups)


def conv_transpose1d(x: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Any = 1,
                     padding: Any = 0, output_padding: Any = 0, groups: int = 1,
                     dilation: Any = 1) -> Tensor:  # fmt: skip
    call = functional.conv_transpose1d
    sizes = stride, padding, output_padding, groups, dilation
    return turned(call, functional.conv1d, x, weight, bias, *sizes)


def conv_transpose2d(x: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Any = 1,
                     padding: Any = 0, output_padding: Any = 0, groups: int = 1,
                     dilation: Any = 1) -> Tensor:  # fmt: skip
    call = functional.conv_transpose2d
    sizes = stride, padding, output_padding, groups, dilation
    return turned(call, functional.conv2d, x, weight, bias, *sizes)

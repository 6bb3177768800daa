"""Convolutions whose kernel or bias is computed: kernels that a network makes for each input,
correlation of two images, offsets from another branch.
"""

from typing import Any

from torch import Tensor

from sw.compiler.frontend.rewrites.computed import convolved, turned


def conv2d(x: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Any = 1,
           padding: Any = 0, dilation: Any = 1, groups: int = 1) -> Tensor:  # fmt: skip
    return convolved(x, weight, bias, stride, padding, dilation, groups)


conv1d = conv3d = conv2d


def conv_transpose2d(x: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Any = 1,
                     padding: Any = 0, output_padding: Any = 0, groups: int = 1,
                     dilation: Any = 1) -> Tensor:  # fmt: skip
    return turned(x, weight, bias, stride, padding, output_padding, groups, dilation)


conv_transpose1d = conv_transpose2d

"""DepthwiseLayer: a convolution of each channel by itself, with its epilogue."""

from collections.abc import Hashable, Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from spec.isa import Engine
from sw.compiler.kernels.base import Layer
from sw.compiler.kernels.operands import Epilogue, Residual, describe, epilogue_signature
from sw.compiler.kernels.views import View
from sw.compiler.kernels.windows import WindowAxis, WindowPart, crop, cut_residual, window_parts


@dataclass(frozen=True, slots=True, kw_only=True)
class DepthwiseLayer(Layer):
    """DEPTHWISE_CONV2D with one result per channel, and its epilogue.

    `weights`: [KH,KW,C] int8; or None, and `weight_view` has them in memory, as [1,KH,KW,C] and
    dense. `pad` is (top, left); the other sides follow from the output's size.
    """

    engine: ClassVar[Engine] = Engine.DEPTHWISE
    follows_rows: ClassVar[bool] = True

    input: View
    epilogue: Epilogue
    weights: NDArray[np.int8] | None = None
    weight_view: View | None = None
    stride: tuple[int, int] = (1, 1)
    dilation: tuple[int, int] = (1, 1)
    pad: tuple[int, int] = (0, 0)
    input_zp: int = 0
    weight_zp: int = 0
    residual: Residual | None = None

    @property
    def kernel(self) -> tuple[int, int]:
        if self.weights is None:
            assert self.weight_view is not None
            return self.weight_view.shape[1:3]
        kh, kw, _ = self.weights.shape
        return kh, kw

    @property
    def inputs(self) -> tuple[View, ...]:
        weight = () if self.weight_view is None else (self.weight_view,)
        added = () if self.residual is None else (self.residual.operand.view,)
        params = () if self.epilogue.params is None else (self.epilogue.params,)
        return (self.input, *added, *weight, *params)

    @property
    def product_op(self) -> str:
        return self.name

    @property
    def uses_table(self) -> bool:
        return any(p.table is not None for p in self.epilogue.passes)

    @property
    def memory_views(self) -> tuple[View, ...]:
        views = (self.weight_view, self.epilogue.params)
        return tuple(view for view in views if view is not None)

    @property
    def signature(self) -> Hashable:
        shape = (self.kernel, self.stride, self.dilation, self.pad)
        return epilogue_signature(self.epilogue), shape

    def split(self) -> Iterator["DepthwiseLayer"]:
        axes = WindowAxis.of(self, self.dilation)
        yield from (self if part is None else self._cut(*part) for part in window_parts(axes))

    def _cut(self, y: WindowPart, x: WindowPart) -> "DepthwiseLayer":
        """The part that computes outputs y.o0…y.o1, x.o0…x.o1."""
        weights, view = self.weights, self.weight_view
        return replace(
            self,
            name=f"{self.name}.y{y.o0}x{x.o0}",
            output=crop(self.output, y.outputs, x.outputs),
            input=crop(self.input, y.inputs, x.inputs),
            pad=(y.pad, x.pad),
            weights=None if weights is None else weights[y.t0 : y.t1, x.t0 : x.t1],
            weight_view=None if view is None else crop(view, (y.t0, y.t1), (x.t0, x.t1)),
            residual=None if self.residual is None else cut_residual(self.residual, y, x),
        )

    def __str__(self) -> str:
        kernel = f"k={self.kernel} s={self.stride} d={self.dilation} p={self.pad}"
        return (
            f"depthwise {self.name}: {self.output} = {self.input} {kernel} "
            f"zp={self.input_zp},{self.weight_zp}; {describe(self.epilogue, self.residual)}"
        )

"""ConvLayer: what the array computes, a convolution or a matrix product with its epilogue."""

from collections.abc import Hashable, Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from spec.config import NpuConfig
from spec.isa import Engine
from sw.compiler.kernels.base import EngineCycles, Layer
from sw.compiler.kernels.epilogue import epilogue_cycles
from sw.compiler.kernels.operands import (
    Epilogue,
    Residual,
    RowFactor,
    describe,
    epilogue_signature,
)
from sw.compiler.kernels.views import View
from sw.compiler.kernels.windows import WindowAxis, WindowPart, crop, cut_residual, window_parts


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvLayer(Layer):
    """CONV2D, fully connected or MATMUL with its epilogue.

    `weights`: constant [OC,KH,KW,IC] int8; or None, and `weight_view` has them in memory, as
    [batch or 1, IC, KH·KW, OC]; `weight_pitch`: bytes between its kernel rows, where it is a part.
    `transposed`: as [batch or 1, OC, 1, IC] (KH = KW = 1). `common`: the name under which several
    layers with the same `weights` can have them on chip.
    `pad` is (top, left); the other sides follow from the output's size.
    """

    engine: ClassVar[Engine] = Engine.MATRIX
    follows_rows: ClassVar[bool] = True

    input: View
    epilogue: Epilogue
    kernel: tuple[int, int] = (1, 1)
    stride: tuple[int, int] = (1, 1)
    dilation: tuple[int, int] = (1, 1)
    pad: tuple[int, int] = (0, 0)
    input_zp: int = 0
    weight_zp: int = 0
    weights: NDArray[np.int8] | None = None
    weight_view: View | None = None
    weight_pitch: int = 0
    transposed: bool = False
    common: str = ""
    residual: Residual | RowFactor | None = None

    @property
    def inputs(self) -> tuple[View, ...]:
        weight = () if self.weight_view is None else (self.weight_view,)
        added = () if self.residual is None else (self.residual.operand.view,)
        params = () if self.epilogue.params is None else (self.epilogue.params,)
        return (self.input, *weight, *added, *params)

    @property
    def weight_row(self) -> int:
        """Bytes between kernel rows of `weight_view`."""
        assert self.weight_view is not None
        return self.weight_pitch or self.kernel[1] * self.weight_view.strides[2]

    @property
    def weights_by_image(self) -> bool:
        """Whether every image of the batch has weights of its own."""
        return self.weight_view is not None and self.weight_view.shape[0] > 1

    @property
    def is_pointwise(self) -> bool:
        """Whether every output pixel reads just the input pixel in its own place."""
        same = self.input.shape[:3] == self.output.shape[:3]
        return same and self.kernel == (1, 1) and self.stride == (1, 1) and self.pad == (0, 0)

    @property
    def product_weights(self) -> NDArray[np.int8] | None:
        return self.weights

    def sharing(self, name: str) -> "ConvLayer":
        return replace(self, common=name)

    @property
    def product_op(self) -> str:
        return self.name

    @property
    def memory_views(self) -> tuple[View, ...]:
        views = (self.weight_view, self.epilogue.params)
        return tuple(view for view in views if view is not None)

    @property
    def uses_table(self) -> bool:
        return any(p.table is not None for p in self.epilogue.passes)

    @property
    def signature(self) -> Hashable:
        shape = (self.kernel, self.stride, self.dilation, self.pad)
        return epilogue_signature(self.epilogue), shape, self.weights is not None

    def engine_cycles(self, config: NpuConfig) -> EngineCycles | None:
        if self.weights_by_image:
            return None
        n, oh, ow, oc = self.output.shape
        depth = self.kernel[0] * self.kernel[1] * self.input.shape[3]
        vectors = n * oh * ow * -(-oc // config.cols)
        finish = epilogue_cycles(self.epilogue, self.residual, config, oc)
        return EngineCycles(array=vectors * -(-depth // config.rows), vector=vectors * finish)

    def samples(self, part: int, parts: int) -> "ConvLayer":
        return replace(
            self,
            name=f"{self.name}.n{part}",
            output=self.output.samples(part, parts),
            input=self.input.samples(part, parts),
            residual=None if self.residual is None else self.residual.samples(part, parts),
        )

    def columns(self, part: slice) -> "ConvLayer":
        assert self.weights is not None
        return replace(
            self,
            name=f"{self.name}.c{part.start}",
            output=self.output.channels(part),
            epilogue=self.epilogue.channels(part),
            weights=self.weights[part],
            residual=None if self.residual is None else self.residual.channels(part),
        )

    def split(self) -> Iterator["ConvLayer"]:
        # A pointwise layer is one tall column of pixels: the array needs no coordinates.
        if self.is_pointwise:
            yield self
            return
        axes = WindowAxis.of(self, self.dilation)
        yield from (self if part is None else self._cut(*part) for part in window_parts(axes))

    def _cut(self, y: WindowPart, x: WindowPart) -> "ConvLayer":
        """The part that computes outputs y.o0…y.o1, x.o0…x.o1."""
        view = self.weight_view
        if view is not None:
            skip = y.t0 * self.weight_row + x.t0 * view.strides[2]
            view = replace(view, offset=view.offset + skip)
        weights = self.weights
        return replace(
            self,
            name=f"{self.name}.y{y.o0}x{x.o0}",
            output=crop(self.output, y.outputs, x.outputs),
            input=crop(self.input, y.inputs, x.inputs),
            pad=(y.pad, x.pad),
            kernel=(y.taps, x.taps),
            weights=None if weights is None else weights[:, y.t0 : y.t1, x.t0 : x.t1],
            weight_view=view,
            weight_pitch=0 if view is None else self.weight_row,
            residual=None if self.residual is None else cut_residual(self.residual, y, x),
        )

    def __str__(self) -> str:
        weight = str(self.weight_view) if self.weight_view else "constant weights"
        weight += " transposed" if self.transposed else ""
        kernel = f"k={self.kernel} s={self.stride} d={self.dilation} p={self.pad}"
        return (
            f"conv {self.name}: {self.output} = {self.input} * {weight} {kernel} "
            f"zp={self.input_zp},{self.weight_zp}; {describe(self.epilogue, self.residual)}"
        )

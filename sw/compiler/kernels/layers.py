"""Layers: what one pass through the engines computes, with everything fused into it.

A layer reads and writes tensors in memory through `View`s; its constants are NumPy arrays. Each is
defined by the TOSA operators it was made from (`ops`, for messages and reports).
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spec.isa import Alu, DType, Scale, Table
from spec.numerics import RANGES
from sw.compiler.kernels.views import DTYPE, MemoryMap, View


@dataclass(frozen=True, slots=True, kw_only=True)
class Epilogue:
    """What VECTOR does to int32 results: bias, RESCALE, zero point, clamp, TABLE, type.

    bias, multiplier, shift: int32/int32/int8 per channel (length 1: the same for all), or None.
    `low`/`high` bound the value after `zero_point` was added. `table`: 256 int8, or 513 int16 that
    are interpolated, or None. `input_zp`: taken from what comes in. `params`: tensor in memory with
    the parameter entries, where the bias is known at run time only. `first`: what an earlier VECTOR
    does in place in the accumulator.
    """

    dtype: DType
    low: int
    high: int
    zero_point: int = 0
    bias: NDArray[np.int32] | None = None
    multiplier: NDArray[Any] | None = None
    shift: NDArray[Any] | None = None
    table: NDArray[Any] | None = None
    input_zp: int = 0
    params: View | None = None
    first: "Epilogue | None" = None

    @property
    def passes(self) -> tuple["Epilogue", ...]:
        """One for each VECTOR, in order; this one is the last."""
        return (*(self.first.passes if self.first is not None else ()), self)

    @property
    def lookup(self) -> Table:
        """What the TABLE holds."""
        if self.table is None:
            return Table.OFF
        return Table.I8 if self.table.dtype == np.int8 else Table.I16

    @property
    def has_bias(self) -> bool:
        return self.params is not None or (self.bias is not None and bool(self.bias.any()))

    @property
    def scale(self) -> Scale:
        if self.multiplier is None:
            return Scale.OFF
        return Scale.TENSOR if self.multiplier.size == 1 else Scale.CHANNEL

    @property
    def uses_params(self) -> bool:
        """Whether this pass reads parameters of the channels."""
        return self.scale is Scale.CHANNEL or self.has_bias

    @property
    def param_passes(self) -> tuple["Epilogue", ...]:
        """The passes that read parameters: a column block has an entry for each."""
        return tuple(p for p in self.passes if p.uses_params)

    def channels(self, part: slice) -> "Epilogue":
        """The epilogue of some of the channels."""

        def cut(values: NDArray[Any] | None) -> NDArray[Any] | None:
            return values if values is None or values.size == 1 else values[part]

        return replace(
            self,
            bias=cut(self.bias),
            multiplier=cut(self.multiplier),
            shift=cut(self.shift),
            first=None if self.first is None else self.first.channels(part),
        )

    def __str__(self) -> str:
        parts = [f"scale={self.scale.name}", f"zp={self.zero_point}", f"[{self.low},{self.high}]"]
        if self.bias is not None:
            parts.insert(0, "bias")
        if self.table is not None:
            parts.append("table")
        before = "" if self.first is None else f"{self.first}; "
        return f"{before}{' '.join(parts)} -> {self.dtype.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Operand:
    """An elementwise operand: its view, element type, zero point and RESCALE (shift 0: none)."""

    view: View
    dtype: DType
    zero_point: int = 0
    multiplier: int = 0
    shift: int = 0

    def __str__(self) -> str:
        scale = f"*{self.multiplier}>>{self.shift}" if self.shift else ""
        return f"({self.view} - {self.zero_point}){scale}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Residual:
    """A sum behind a product: clamp(RESCALE(product), low, high) << shift_left, plus `operand`.

    RESCALE is the epilogue's; its zero point, range, type and TABLE are those of the sum's result,
    which `multiplier` and `shift` rescale (shift 0: not at all).
    """

    operand: Operand
    low: int
    high: int
    shift_left: int
    multiplier: int = 0
    shift: int = 0

    @property
    def clamps(self) -> bool:
        """Whether the bounds are narrower than int32's."""
        return (self.low, self.high) != RANGES[DType.I32]

    def channels(self, part: slice) -> "Residual":
        """The same for some of the channels."""
        view = self.operand.view.channels(part)
        return replace(self, operand=replace(self.operand, view=view))

    def __str__(self) -> str:
        scale = f" *{self.multiplier}>>{self.shift}" if self.shift else ""
        return f"[{self.low},{self.high}]<<{self.shift_left} + {self.operand}{scale}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RowFactor:
    """A MUL behind a product, before all else: result · operand >> shift.

    The operand is int32, one element for all channels of a pixel (1 channel).
    """

    operand: Operand
    shift: int

    def channels(self, part: slice) -> "RowFactor":
        """The same for some of the channels."""
        return self

    def __str__(self) -> str:
        return f"* {self.operand} >> {self.shift}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """What every layer has. `ops`: names of the TOSA operators; `source`: line of the model."""

    name: str
    output: View
    ops: tuple[str, ...] = ()
    source: str = ""

    @property
    def inputs(self) -> tuple[View, ...]:
        raise NotImplementedError

    @property
    def outputs(self) -> tuple[View, ...]:
        """Everything that it writes, `output` first."""
        return (self.output,)


def _finish(epilogue: Epilogue, residual: Residual | RowFactor | None) -> str:
    return str(epilogue) if residual is None else f"{residual}; {epilogue}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvLayer(Layer):
    """CONV2D, fully connected or MATMUL with its epilogue.

    `weights`: constant [OC,KH,KW,IC] int8; or None, and `weight_view` has them in memory, as
    [batch or 1, IC, KH·KW, OC]; `weight_pitch`: bytes between its kernel rows, where it is a part.
    `transposed`: as [batch or 1, OC, 1, IC] (KH = KW = 1).
    `pad` is (top, left); the other sides follow from the output's size.
    """

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

    def __str__(self) -> str:
        weight = str(self.weight_view) if self.weight_view else "constant weights"
        weight += " transposed" if self.transposed else ""
        kernel = f"k={self.kernel} s={self.stride} d={self.dilation} p={self.pad}"
        return (
            f"conv {self.name}: {self.output} = {self.input} * {weight} {kernel} "
            f"zp={self.input_zp},{self.weight_zp}; {_finish(self.epilogue, self.residual)}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class DepthwiseLayer(Layer):
    """DEPTHWISE_CONV2D with one result per channel, and its epilogue.

    `weights`: [KH,KW,C] int8; or None, and `weight_view` has them in memory, as [1,KH,KW,C] and
    dense. `pad` is (top, left); the other sides follow from the output's size.
    """

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

    def __str__(self) -> str:
        kernel = f"k={self.kernel} s={self.stride} d={self.dilation} p={self.pad}"
        return (
            f"depthwise {self.name}: {self.output} = {self.input} {kernel} "
            f"zp={self.input_zp},{self.weight_zp}; {_finish(self.epilogue, self.residual)}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolLayer(Layer):
    """MAX_POOL2D or AVG_POOL2D with the epilogue's zero point, clamp and TABLE.

    `sums`: of an average only the int32 sums.
    """

    input: View
    epilogue: Epilogue
    average: bool
    sums: bool = False
    kernel: tuple[int, int]
    stride: tuple[int, int]
    pad: tuple[int, int]
    input_zp: int = 0

    @property
    def inputs(self) -> tuple[View, ...]:
        return (self.input,)

    def __str__(self) -> str:
        kind = "avg_pool" if self.average else "max_pool"
        return (
            f"{kind} {self.name}: {self.output} = {self.input} k={self.kernel} s={self.stride} "
            f"p={self.pad} zp={self.input_zp}; {self.epilogue}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ElementwiseLayer(Layer):
    """RESCALE, CLAMP, TABLE, ADD, SUB, MAXIMUM, MINIMUM on equal shapes: alu(a, b), epilogue.

    The epilogue's bias is unused; its RESCALE may be per channel (last dimension).
    """

    a: Operand
    epilogue: Epilogue
    alu: Alu = Alu.PASS
    b: Operand | None = None

    @property
    def inputs(self) -> tuple[View, ...]:
        return (self.a.view,) if self.b is None else (self.a.view, self.b.view)

    def __str__(self) -> str:
        right = f", {self.b}" if self.b is not None else ""
        return (
            f"elementwise {self.name}: {self.output} = {self.alu.name}({self.a}{right}); "
            f"{self.epilogue}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveLayer(Layer):
    """PAD, TRANSPOSE or a copy: element i is source element i − `before`, or `value` outside.

    The source is `tensor` at `offset` bytes, with `source_shape` and byte strides (of any sign)
    per dimension. The result has as many dimensions; where `shape` is given, it is that piece of
    the output's tensor, at `target_offset` with `target_strides`, and otherwise the output itself.
    """

    tensor: str
    offset: int
    source_shape: tuple[int, ...]
    source_strides: tuple[int, ...]
    before: tuple[int, ...] = (0, 0, 0, 0)
    value: int = 0
    shape: tuple[int, ...] = ()
    target_offset: int = 0
    target_strides: tuple[int, ...] = ()

    @property
    def dtype(self) -> DType:
        return DTYPE[self.output.dtype]

    @property
    def target(self) -> tuple[int, tuple[int, ...], tuple[int, ...]]:
        """(offset, shape, strides) of the result in the output's tensor, bytes."""
        if self.shape:
            return self.target_offset, self.shape, self.target_strides
        view = self.output
        return view.offset, view.shape, (*view.strides, view.item)

    @property
    def inputs(self) -> tuple[View, ...]:
        (n, h, w), shape = (0, 0, 0), (1, 1, 1, 1)
        if len(self.source_shape) == 4:
            n, h, w, _ = self.source_strides
            a, b, c, d = self.source_shape
            shape = (a, b, c, d)
        return (
            View(
                tensor=self.tensor,
                dtype=self.output.dtype,
                shape=shape,
                strides=(n, h, w),
                offset=self.offset,
            ),
        )

    def __str__(self) -> str:
        offset, shape, strides = self.target
        where = f"+{offset}{list(shape)}@{list(strides)}" if self.shape else ""
        return (
            f"move {self.name}: {self.output}{where} = %{self.tensor}+{self.offset}"
            f"{list(self.source_shape)}@{list(self.source_strides)} before={list(self.before)} "
            f"value={self.value}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerProgram:
    """The layers in execution order, and where their tensors lie in memory."""

    layers: tuple[Layer, ...]
    storage: MemoryMap

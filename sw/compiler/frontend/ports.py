"""Float tensors of a model to int8 ports and back, exactly as PT2E quantizes them.

This file and what it imports need no PyTorch: a saved model runs without it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sw.compiler.errors import CompileError
from sw.compiler.frontend.layout import Layout
from sw.compiler.frontend.quantization.precision import Width
from sw.compiler.tosa.graph import Graph


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelPort:
    """A model's input or output: real = scale · (integer − zero_point), stored as `layout` says.

    `dtype`: int8, int16, int32 or bool. Scale 0: the integers themselves, indices for example.
    """

    name: str
    layout: Layout
    scale: float
    zero_point: int
    dtype: str = "int8"

    @property
    def ends(self) -> tuple[float, float]:
        """The smallest and the largest real value that the port holds."""
        limits = np.iinfo(self.dtype)
        low, high = (self.scale * (int(v) - self.zero_point) for v in (limits.min, limits.max))
        return low, high

    @property
    def shape(self) -> tuple[int, ...]:
        """The model's own shape (NCHW for images)."""
        return self.layout.shape


@dataclass(frozen=True, slots=True, kw_only=True)
class Operands:
    """What a layer with weights multiplies: real activation = scale · (integer − zero_point).

    scale: one, or by input channel (dimension `axis`). by_row: the scale is also multiplied by the
    largest value of each row, divided by 127. width: see `Width`. weights: the step of
    each output's weights, of which `unit` times the real ones are multiples. module: its path.
    restored: what its bias adds to each output for the rounding of its weights, None for nothing.
    """

    scale: float | NDArray[np.float64]
    zero_point: int
    weights: NDArray[np.float64]
    unit: float | NDArray[np.float64]
    by_row: bool
    width: Width
    module: str
    restored: NDArray[np.float64] | None = None
    axis: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """A TOSA graph and how the model's tensors lie in its ports.

    `quantized`: by name of each value of the imported graph that reaches the result, the TOSA
    tensor that holds its integers (`name`), and how it lies in memory. Of a graph with quantize
    nodes those are their results. Empty for a graph that was read from a file or made for a larger
    batch.

    policy, reason: how values became integers, and why so. notes: what else a user may want to
    know. samples: how many calibrated it (rows of the first input). source: the graph of PyTorch
    that was imported (quantized, for policy `pt2e`). seen: by TOSA tensor, what calibration saw of
    integers and bools that float values are computed from: the least and the largest. layers: the
    operands of the layers with weights, by node. widths: of these and of products of activations.
    """

    graph: Graph
    inputs: tuple[ModelPort, ...]
    outputs: tuple[ModelPort, ...]
    quantized: Mapping[str, ModelPort] = field(default_factory=dict)
    policy: str = ""
    reason: str = ""
    notes: tuple[str, ...] = ()
    samples: int = 0
    source: Any = None
    seen: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    layers: Mapping[str, Operands] = field(default_factory=dict)
    widths: Mapping[str, Width] = field(default_factory=dict)


def quantize_input(port: ModelPort, value: Any) -> NDArray[Any]:
    """A float array of the model's shape as the port's integers, in memory order (NHWC for images).

    Rounds half to even in float32, as PT2E does. `CompileError` on another shape, NaN, or integers
    that do not fit.
    """
    if port.scale == 0:
        return _integers(port, np.asarray(value))
    array = np.asarray(value, np.float32)
    if array.shape != port.shape:
        raise CompileError(
            f"input {port.name!r} has shape {list(array.shape)}, the program was compiled for "
            f"{list(port.shape)}",
            hint="compile again with example inputs of that shape",
        )
    if np.isnan(array).any():
        raise CompileError(f"input {port.name!r} has {int(np.isnan(array).sum())} NaN values")
    limits = np.iinfo(port.dtype)
    steps = _steps(port, array)
    return port.layout.to_memory(np.clip(steps, limits.min, limits.max).astype(port.dtype))


def _steps(port: ModelPort, array: NDArray[np.float32]) -> NDArray[np.float32]:
    """Integers of a port, as floats and without limits."""
    return np.rint(array * np.float32(1.0 / port.scale)) + np.float32(port.zero_point)


def saturated_share(port: ModelPort, value: Any) -> float:
    """Share (0 to 1) of a float array's values that `quantize_input` cuts to the port's range.

    0 for a port that takes integers. NaN is in no range and does not count.
    """
    array = np.asarray(value, np.float32)
    if port.scale == 0 or not array.size:
        return 0.0
    steps, limits = _steps(port, array), np.iinfo(port.dtype)
    return float(np.mean((steps < limits.min) | (steps > limits.max)))


def _integers(port: ModelPort, array: NDArray[Any]) -> NDArray[Any]:
    good = np.issubdtype(array.dtype, np.integer) or array.dtype == np.bool_
    if array.shape != port.shape or not good:
        raise CompileError(
            f"input {port.name!r} is {array.dtype}{list(array.shape)}, the program takes integers "
            f"of shape {list(port.shape)}",
            hint="compile again with example inputs of that shape and type",
        )
    if port.dtype == "bool":
        return port.layout.to_memory(array.astype(np.bool_))
    limits = np.iinfo(port.dtype)
    if array.min() < limits.min or array.max() > limits.max:
        raise CompileError(
            f"input {port.name!r} has values {array.min()}…{array.max()}, which {port.dtype} does "
            "not hold"
        )
    return port.layout.to_memory(array.astype(port.dtype))


def dequantize_output(port: ModelPort, value: NDArray[Any]) -> NDArray[Any]:
    """A port's integers as the float array of the model's shape; as they are for scale 0."""
    if port.scale == 0:
        return port.layout.to_logical(value)
    centred = port.layout.to_logical(value).astype(np.int32) - port.zero_point
    return np.asarray(centred * np.float32(port.scale), np.float32)


def unpack_outputs(imported: Imported, arrays: Mapping[str, NDArray[Any]]) -> list[NDArray[Any]]:
    """Arrays in the model's output order from those of the ports, as `dequantize_output` says."""
    return [dequantize_output(p, arrays[p.name]) for p in imported.outputs]

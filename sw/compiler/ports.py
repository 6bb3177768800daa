"""Float tensors of a model to int8 ports and back, exactly as PT2E quantizes them.

This file and what it imports need no PyTorch: a saved model runs without it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sw.compiler.errors import CompileError
from sw.compiler.layout import Layout
from sw.compiler.tosa import Graph


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelPort:
    """A model's input or output: real = scale · (int8 − zero_point), stored as `layout` says."""

    name: str
    layout: Layout
    scale: float
    zero_point: int

    @property
    def shape(self) -> tuple[int, ...]:
        """The model's own shape (NCHW for images)."""
        return self.layout.shape


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """A TOSA graph and how the model's tensors lie in its ports.

    `quantized`: by name of each of PT2E's quantize nodes whose value reaches the result, the TOSA
    tensor that holds the same integers (`name`), and how it lies in memory. Empty for a graph
    that was read from a file or made for a larger batch.
    """

    graph: Graph
    inputs: tuple[ModelPort, ...]
    outputs: tuple[ModelPort, ...]
    quantized: Mapping[str, ModelPort] = field(default_factory=dict)


def quantize_input(port: ModelPort, value: Any) -> NDArray[np.int8]:
    """A float array of the model's shape as the int8 port, in memory order (NHWC for images).

    Rounds half to even in float32, as PT2E does. `CompileError` on another shape or NaN.
    """
    array = np.asarray(value, np.float32)
    if array.shape != port.shape:
        raise CompileError(
            f"input {port.name!r} has shape {list(array.shape)}, the program was compiled for "
            f"{list(port.shape)}",
            hint="compile again with example inputs of that shape",
        )
    if np.isnan(array).any():
        raise CompileError(f"input {port.name!r} has {int(np.isnan(array).sum())} NaN values")
    steps = np.rint(array * np.float32(1.0 / port.scale)) + np.float32(port.zero_point)
    return port.layout.to_memory(np.clip(steps, -128, 127).astype(np.int8))


def dequantize_output(port: ModelPort, value: NDArray[Any]) -> NDArray[np.float32]:
    """An int8 port as the float array of the model's shape."""
    centred = port.layout.to_logical(value).astype(np.int32) - port.zero_point
    return np.asarray(centred * np.float32(port.scale), np.float32)


def pack_inputs(imported: Imported, tensors: Sequence[Any]) -> dict[str, NDArray[Any]]:
    """int8 arrays by port name from float tensors or arrays in the model's argument order."""
    if len(tensors) != len(imported.inputs):
        raise CompileError(
            f"{len(tensors)} inputs given, the module takes {len(imported.inputs)}: "
            + ", ".join(p.name for p in imported.inputs)
        )
    return {
        p.name: quantize_input(p, t.detach() if hasattr(t, "detach") else t)
        for p, t in zip(imported.inputs, tensors, strict=True)
    }


def unpack_outputs(
    imported: Imported, arrays: Mapping[str, NDArray[Any]]
) -> list[NDArray[np.float32]]:
    """Float arrays in the model's output order from the arrays of the ports."""
    return [dequantize_output(p, arrays[p.name]) for p in imported.outputs]

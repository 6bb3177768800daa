"""What a LiteRT file holds, as records: tensors, operators, the model."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

Pads = tuple[tuple[int, int], tuple[int, int]]
"""(before, behind) of height and width."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantization:
    """real = scale · (integer − zero_point); one of each, or one for each index of `axis`.

    axis: −1 for one scale. Integers of uint8 are shifted to int8 when they are read, and their zero
    points with them.
    """

    scale: tuple[float, ...]
    zero_point: tuple[int, ...]
    axis: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Tensor:
    """A tensor of the file.

    dtype: NumPy's name; int8 for int4 and uint8 that are quantized. shifted: whether the file has
    uint8 where `dtype` and `data` are int8. data: of a constant. signature: the shape with −1 for
    the sizes that the file leaves open; () where it says nothing.
    """

    index: int
    name: str
    shape: tuple[int, ...]
    dtype: str
    quantization: Quantization | None = None
    shifted: bool = False
    data: Array | None = None
    signature: tuple[int, ...] = ()

    @property
    def is_fixed(self) -> bool:
        """Whether the file says that every size is known."""
        return min(self.signature, default=0) >= 0

    @property
    def elements(self) -> int:
        return math.prod(self.shape)


@dataclass(frozen=True, slots=True, kw_only=True)
class Operator:
    """An operator of the file: `inputs` and `outputs` are indices of tensors, −1: left out.

    options: the flatbuffer's own table of them. pads: of the image that a convolution or a pool
    reads, in place of what its options say; see `sw.frontends.litert.pads`.
    """

    number: int
    kind: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    options: Any
    pads: Pads | None = None

    def __str__(self) -> str:
        return f"operator {self.number} ({self.kind})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Contents:
    """The model of a file; `inputs` and `outputs`: indices of tensors."""

    file: str
    tensors: tuple[Tensor, ...]
    operators: tuple[Operator, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Port:
    """An input or output of the file.

    dtype: the file's own type, also where the module takes and gives floats for it. scale: of
    quantized ones, else 0; zero_point: of `dtype`, as the file says.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    scale: float = 0.0
    zero_point: int = 0

    def to_real(self, stored: Array) -> Array:
        """What the module takes or gives for an array of `dtype`."""
        if not self.scale:
            return stored
        centred = stored.astype(np.int32) - self.zero_point
        return np.asarray(centred * np.float32(self.scale), np.float32)

    def to_stored(self, real: Array) -> Array:
        """The inverse of `to_real`: rounds half to even, and saturates."""
        if not self.scale:
            return real
        limits = np.iinfo(self.dtype)
        steps = np.rint(real * np.float32(1 / self.scale)) + self.zero_point
        return np.clip(steps, limits.min, limits.max).astype(self.dtype)

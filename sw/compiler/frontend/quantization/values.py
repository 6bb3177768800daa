"""What stands for a real value: the type, scale and zero point of a tensor of integers."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Scale = float | NDArray[np.float64]

Resolved = Literal["pt2e", "wide"]
"""How the values of a model become integers; `policy.py` says what each means."""

Policy = Literal["auto", "pt2e", "wide"]
"""A policy, or the choice of one."""

TINY = 2.0**-120
"""Magnitudes up to this count as zero: float32's normal numbers end at 2^-126."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """Real value = scale · (integer − zero_point). `scale`: one, or by channel along `axis`."""

    dtype: str
    scale: Scale
    zero_point: int = 0
    axis: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """The format that a quantized graph gives to a value: one scale, integers in low…high."""

    scale: float
    zero_point: int
    low: int
    high: int

    @property
    def format(self) -> Format:
        return Format(dtype="int8", scale=self.scale, zero_point=self.zero_point)

    @property
    def ends(self) -> tuple[float, float]:
        """The smallest and the largest real value."""
        return (
            self.scale * (self.low - self.zero_point),
            self.scale * (self.high - self.zero_point),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """A parameter that a quantized graph stores as integers.

    `scale` is an array where it differs along dimension `axis` (−1: one scale).
    """

    integers: NDArray[np.int64]
    scale: Scale
    zero_point: int = 0
    axis: int = -1

    @property
    def real(self) -> NDArray[np.float64]:
        """The numbers that the integers stand for, in float64."""
        scale = self.scale
        if isinstance(scale, np.ndarray):
            shape = [-1 if i == self.axis else 1 for i in range(self.integers.ndim)]
            scale = scale.reshape(shape)
        return np.asarray((self.integers - self.zero_point) * scale, np.float64)

"""A sequence: TOSA operators over named values, with their constants, as plain data.

    s = Sequence()
    x = s.input("x", "int16")
    y = s.rescale(x, 0.5, "int8")
    s.outputs = [y]

The compiler emits a sequence operator by operator into its graph; nothing else gives it a meaning.
Values whose last axis is reduced keep it with size 1, so every value has the rank of the input.
"""

from collections.abc import Sequence as Items
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spec.numerics import scale_to_multiplier

Float = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One operator: TOSA's name, operands in the specification's order, attributes, one result."""

    kind: str
    inputs: tuple[str, ...]
    output: str
    dtype: str
    attributes: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True, kw_only=True)
class Sequence:
    """Inputs and constants by name, then steps in order. dtypes: of every value."""

    inputs: list[str] = field(default_factory=list)
    outputs: list[str] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    constants: dict[str, NDArray[Any]] = field(default_factory=dict)
    dtypes: dict[str, str] = field(default_factory=dict)

    def input(self, name: str, dtype: str) -> str:
        """Declare an input; its shape is the caller's."""
        self.inputs.append(name)
        self.dtypes[name] = dtype
        return name

    def constant(self, data: ArrayLike, dtype: str) -> str:
        """Add a constant; ValueError if it does not fit in `dtype`."""
        array = np.asarray(data, np.int64)
        if dtype != "shape":
            bits = {"int8": 8, "int16": 16, "int32": 32}[dtype]
            low, high = -(1 << (bits - 1)), (1 << (bits - 1)) - 1
            if array.size and (array.min() < low or array.max() > high):
                raise ValueError(f"constant {array.min()}…{array.max()} does not fit in {dtype}")
        name = f"c{len(self.constants)}"
        self.constants[name] = array
        self.dtypes[name] = dtype
        return name

    def scalar(self, value: int, rank: int) -> str:
        """An int32 constant of one element that broadcasts to `rank` dimensions."""
        return self.constant(np.full((1,) * rank, value), "int32")

    def op(self, kind: str, *inputs: str, dtype: str = "int32", **attributes: Any) -> str:
        """Append an operator and return the name of its result."""
        name = f"t{len(self.steps)}"
        self.steps.append(
            Step(kind=kind, inputs=inputs, output=name, dtype=dtype, attributes=attributes)
        )
        self.dtypes[name] = dtype
        return name

    # Operators with operands that are always constants -------------------------------------------

    def rescale(
        self, x: str, ratio: float | Float, dtype: str, *, input_zp: int = 0, output_zp: int = 0
    ) -> str:
        """RESCALE by a ratio, per channel if it is an array; saturates to `dtype`."""
        ratios = np.atleast_1d(np.asarray(ratio, np.float64))
        pairs = [scale_to_multiplier(max(float(r), 2.0**-60)) for r in ratios]
        return self.op(
            "RESCALE",
            x,
            self.constant([m for m, _ in pairs], "int32"),
            self.constant([n for _, n in pairs], "int8"),
            self.constant([input_zp], self.dtypes[x]),
            self.constant([output_zp], dtype),
            dtype=dtype,
            per_channel=isinstance(ratio, np.ndarray),
        )

    def cast(self, x: str, dtype: str) -> str:
        """CAST, unless `x` has that type."""
        return x if self.dtypes[x] == dtype else self.op("CAST", x, dtype=dtype)

    def mul(self, a: str, b: str, shift: int) -> str:
        """MUL of int32 values: (a·b + 2^(shift−1)) >> shift in 64 bits, which must fit in 32."""
        return self.op("MUL", a, b, self.constant([shift], "int8"))

    def reshape(self, x: str, shape: Items[int]) -> str:
        """RESHAPE to the same elements in the same order."""
        return self.op("RESHAPE", x, self.constant(list(shape), "shape"), dtype=self.dtypes[x])

    def table16(self, x: str, entries: ArrayLike) -> str:
        """TABLE of an int16 value by 513 int16 entries: int32, entries in steps of 1/128."""
        return self.op("TABLE", x, self.constant(entries, "int16"))


def shape_of_rows(shape: Items[int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """(shape of one value a row, the same values side by side as channels), rank as `shape`.

    Arithmetic on row statistics runs on the second form, where it fills the lanes of a vector.
    """
    *lead, _ = shape
    packed = (1,) * (len(shape) - 1) + (int(np.prod(lead, dtype=np.int64)),)
    return (*lead, 1), packed

"""What a graph is made of: tensors with their element types, and operators."""

import math
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

DTYPES: dict[str, type[np.generic]] = {
    "bool": np.bool_,
    "int8": np.int8,
    "int16": np.int16,
    "int32": np.int32,
    "shape": np.int64,
}
"""Element types of tensors: TOSA's bool_t (a byte, 0 or 1), i8_t, i16_t, i32_t and shape_t."""


@dataclass(slots=True, kw_only=True, eq=False)
class Tensor:
    """A named value. `data` is set for constants; scale 0 means that no quantization is known."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    data: NDArray[Any] | None = None
    scale: float = 0.0
    zero_point: int = 0

    @property
    def is_constant(self) -> bool:
        return self.data is not None

    @property
    def size(self) -> int:
        # Exact integers: NumPy's product would wrap around on a forged shape.
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        return self.size * np.dtype(DTYPES[self.dtype]).itemsize

    def __str__(self) -> str:
        return f"%{self.name}: {self.dtype}[{','.join(map(str, self.shape))}]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What a product does: multiply-accumulates, and bytes of weights."""

    macs: int
    weight_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Striped:
    """Layers `first` to `last` are computed in `count` stripes of rows.

    `kept_bytes`: of the tensors between them, which then need not be in memory.
    """

    first: str
    last: str
    count: int
    kept_bytes: int

    def __str__(self) -> str:
        return (
            f"{self.first} … {self.last} in {self.count} stripes of rows: "
            f"{self.kept_bytes:,} bytes between them stay on chip"
        )


@dataclass(slots=True, kw_only=True, eq=False)
class Op:
    """One operator: `inputs` and `outputs` are tensor names, operands in the specification's order.

    `source` is the line of the user's model that it came from, for messages. `work`: of a product
    whose weights a pass has filled up with zeros, what it does without them.
    """

    kind: str
    name: str
    inputs: list[str]
    outputs: list[str]
    attributes: dict[str, Any] = field(default_factory=dict)
    source: str = ""
    work: Work | None = None

    def copy(self) -> "Op":
        """An operator of its own: what either is connected to may change."""
        return replace(
            self,
            inputs=list(self.inputs),
            outputs=list(self.outputs),
            attributes=dict(self.attributes),
        )

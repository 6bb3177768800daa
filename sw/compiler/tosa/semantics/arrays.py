"""What the families share: types, limits, and views of operands."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sw.compiler.tosa.nodes import Op

Array = NDArray[Any]
Int = NDArray[np.int64]
Evaluate = Callable[[Op, list[Array], str], Array]

LIMITS = {"int8": (-128, 127), "int16": (-32768, 32767), "int32": (-(1 << 31), (1 << 31) - 1)}


def scalar(array: Array, *, unsigned: bool = False) -> int:
    """The one element, its bits read as unsigned if asked."""
    value = array.reshape(-1)[:1]
    return int(as_unsigned(value)[0] if unsigned else value[0])


def as_unsigned(array: Array) -> Array:
    """The same bits as an unsigned type."""
    return array.view(np.dtype(f"uint{array.dtype.itemsize * 8}"))


def wide(array: Array) -> Int:
    """The values as int64."""
    return array.astype(np.int64)

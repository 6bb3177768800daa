"""The arithmetic of VECTOR on arrays of lanes, int32 with wrap; the last dimension is lanes."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from golden_model.loops import Ints
from spec.isa import Alu, Reduce

Lanes = NDArray[np.int32]
Fields = dict[str, Any]

IDENTITY = {Reduce.SUM: 0, Reduce.MAX: -(1 << 31), Reduce.MIN: (1 << 31) - 1}
COMBINE: dict[Reduce, np.ufunc] = {
    Reduce.SUM: np.add,
    Reduce.MAX: np.maximum,
    Reduce.MIN: np.minimum,
}
ALU: dict[Alu, np.ufunc] = {
    Alu.ADD: np.add,
    Alu.SUB: np.subtract,
    Alu.MIN: np.minimum,
    Alu.MAX: np.maximum,
}


def rescale(value: Lanes, multiplier: Ints | int, shift: Ints | int) -> Lanes:
    """apply_scale of `spec.numerics`, in few passes; shifts are legal."""
    wide = value.astype(np.int64)
    wide *= multiplier
    wide += np.left_shift(np.int64(1), np.subtract(shift, 1))
    wide >>= shift
    return wide.astype(np.int32)


def clamp_and_shift(v: Fields, value: Lanes) -> Lanes:
    """A before the ALU."""
    if v["a_clamp"]:
        value = np.minimum(np.maximum(value, np.int32(v["a_min"])), np.int32(v["a_max"]))
    return value << np.int32(v["a_shl"]) if v["a_shl"] else value


def finish(v: Fields, value: Lanes, table: NDArray[np.uint8]) -> Lanes:
    """Zero point, clamp, table."""
    if v["o_zp"]:
        value = value + np.int32(v["o_zp"])
    value = np.minimum(np.maximum(value, np.int32(v["o_min"])), np.int32(v["o_max"]))
    if v["table"]:
        value = table.view(np.int8)[(value + 128) & 0xFF].astype(np.int32)
    return value

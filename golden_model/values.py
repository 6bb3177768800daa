"""Operands of products: scratchpad bytes minus their zero point, held exactly by floats."""

import numpy as np
from numpy.typing import NDArray

from golden_model.access import Context
from golden_model.loops import Bools, Ints
from golden_model.state import gather
from spec.isa import DType
from spec.numerics import RANGES

Floats = NDArray[np.float32]
Fields = dict[str, int]

BLOCK = 1 << 18
"""Activations gathered at a time: as float32 they stay in a second-level cache."""


def bounds(v: Fields, operand: str) -> tuple[int, int]:
    """The values that `operand` (act or wgt) can have before its zero point is subtracted."""
    return RANGES[DType.U8 if v[f"{operand}_unsigned"] else DType.I8]


def largest(v: Fields, operand: str) -> int:
    """Largest magnitude of an operand minus its zero point (at least 1)."""
    low, high = bounds(v, operand)
    zero = v[f"{operand}_zp"]
    return max(abs(low - zero), abs(high - zero), 1)


def operands(
    context: Context, address: Ints, run: int, v: Fields, operand: str, out: Floats
) -> None:
    """out [..., run]: operands from the scratchpad minus their zero point."""
    raw = gather(context.state.padded, address, run)
    np.copyto(out, raw if v[f"{operand}_unsigned"] else raw.view(np.int8))
    if v[f"{operand}_zp"]:
        out -= v[f"{operand}_zp"]


def activations(
    context: Context, address: Ints, inside: Bools | None, run: int, v: Fields
) -> Floats:
    """[..., run]: activations minus zero point, 0 where not inside; valid until the next call.

    address: [...] of the runs; inside: [...], None for all.
    """
    values = context.state.scratch((*address.shape, run))
    if inside is None:
        operands(context, address, run, v, "act", values)
        return values
    low, high = bounds(v, "act")
    representable = low <= v["act_zp"] <= high
    void = context.state.void
    if representable:
        context.state.padded[void : void + run] = v["act_zp"] & 0xFF
    operands(context, np.where(inside, address, void), run, v, "act", values)
    if not representable:
        values[~inside] = 0
    return values

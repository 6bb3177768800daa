"""Widths of vector elements in the scratchpad, from the element types of the contract."""

from amaranth.hdl import *
from amaranth.utils import exact_log2

from spec.isa import DType


def element_bits(dtype: DType) -> int:
    """Bits of an element in the scratchpad."""
    return 8 * dtype.bytes


def log2_bytes(dtype: Value) -> Value:
    """log2 of the bytes of an element."""
    out: Value = Const(0)
    for size in sorted({kind.bytes for kind in DType} - {1}):
        wide = Cat(dtype == kind for kind in DType if kind.bytes == size).any()
        out = Mux(wide, exact_log2(size), out)
    return out

"""VECTOR behind a product: what every layer does that leaves its sums in the accumulator."""

from typing import Any

from spec.isa import Alu, DType, Scale, Space
from sw.compiler.layers import Epilogue


def accumulator_values(epilogue: Epilogue) -> dict[str, Any]:
    """Fields of a VECTOR that takes A from the accumulator and writes the scratchpad.

    Bases, lanes and loops are the caller's.
    """
    values: dict[str, Any] = {
        "a_space": Space.ACC,
        "a_type": DType.I32,
        "alu": Alu.PASS,
        "bias": int(epilogue.bias is not None and epilogue.bias.any()),
        "a_scale": epilogue.scale,
        "o_zp": epilogue.zero_point,
        "o_min": epilogue.low,
        "o_max": epilogue.high,
        "table": int(epilogue.table is not None),
        "o_space": Space.SPAD,
        "o_type": epilogue.dtype,
    }
    if epilogue.scale is Scale.TENSOR:
        assert epilogue.multiplier is not None and epilogue.shift is not None
        values |= {"a_mult": int(epilogue.multiplier[0]), "a_shift": int(epilogue.shift[0])}
    return values

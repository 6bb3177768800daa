"""Fields of VECTOR that layers share: behind a product, and for elementwise operands."""

from typing import Any

from spec.isa import Alu, DType, Scale, Space
from sw.compiler.kernels.operands import Epilogue, Operand, Residual, RowFactor


def accumulator_values(epilogue: Epilogue, residual: Residual | RowFactor | None) -> dict[str, Any]:
    """Fields of a VECTOR that takes A from the accumulator and writes the scratchpad.

    Bases, lanes and loops are the caller's.
    """
    values: dict[str, Any] = {
        "a_space": Space.ACC,
        "a_type": DType.I32,
        "a_zp": epilogue.input_zp,
        "alu": Alu.PASS,
        "bias": int(epilogue.has_bias),
        "o_zp": epilogue.zero_point,
        "o_min": epilogue.low,
        "o_max": epilogue.high,
        "table": epilogue.lookup,
        "o_space": Space.SPAD,
        "o_type": epilogue.dtype,
    }
    if isinstance(residual, RowFactor):
        values |= {"a_scale": Scale.OPERAND, "a_shift": residual.shift, "b_one": 1}
        return values | _scale("o", epilogue) | operand_values("b", residual.operand)
    values |= _scale("a", epilogue)
    if residual is not None:
        if residual.clamps:
            values |= {"a_clamp": 1, "a_min": residual.low, "a_max": residual.high}
        values |= {
            "a_shl": residual.shift_left,
            "alu": Alu.ADD,
            **operand_values("b", residual.operand),
        }
        if residual.shift:
            values |= {
                "o_scale": Scale.TENSOR,
                "o_mult": residual.multiplier,
                "o_shift": residual.shift,
            }
    return values


def _scale(stream: str, epilogue: Epilogue) -> dict[str, Any]:
    """Fields of the epilogue's RESCALE; `stream`: a, before the ALU, or o, behind it."""
    values: dict[str, Any] = {f"{stream}_scale": epilogue.scale}
    if epilogue.scale is Scale.TENSOR:
        assert epilogue.multiplier is not None and epilogue.shift is not None
        mult, shift = int(epilogue.multiplier[0]), int(epilogue.shift[0])
        values |= {f"{stream}_mult": mult, f"{stream}_shift": shift}
    return values


def operand_values(stream: str, operand: Operand) -> dict[str, Any]:
    """Fields of an operand that comes from the scratchpad; `stream`: a or b."""
    values: dict[str, Any] = {f"{stream}_type": operand.dtype, f"{stream}_zp": operand.zero_point}
    if operand.shift:
        values |= {
            f"{stream}_scale": Scale.TENSOR,
            f"{stream}_mult": operand.multiplier,
            f"{stream}_shift": operand.shift,
        }
    return values

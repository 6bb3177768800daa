"""Fields of VECTOR that layers share: behind a product, and for elementwise operands."""

from spec.config import NpuConfig
from spec.isa import Alu, DType, Scale, Space
from sw.compiler.kernels.operands import Epilogue, Operand, Residual, RowFactor
from sw.compiler.program.cycles import step_cycles
from sw.compiler.program.records import VectorFields


def accumulator_fields(epilogue: Epilogue, residual: Residual | RowFactor | None) -> VectorFields:
    """Fields of a VECTOR that takes A from the accumulator and writes the scratchpad.

    Bases, lanes and loops are the caller's.
    """
    fields = VectorFields(
        a_space=Space.ACC,
        a_type=DType.I32,
        a_zp=epilogue.input_zp,
        bias=int(epilogue.has_bias),
        o_zp=epilogue.zero_point,
        o_min=epilogue.low,
        o_max=epilogue.high,
        table=epilogue.lookup,
        o_type=epilogue.dtype,
    )
    if residual is None:
        return fields | rescale_of_a(epilogue)
    if isinstance(residual, RowFactor):
        # The product with the factor takes the place of A's RESCALE, so the result has it.
        fields |= VectorFields(a_scale=Scale.OPERAND, a_shift=residual.shift, b_one=1)
        return fields | rescale_of_result(epilogue) | operand_b(residual.operand)
    fields |= rescale_of_a(epilogue)
    if residual.clamps:
        fields |= VectorFields(a_clamp=1, a_min=residual.low, a_max=residual.high)
    fields |= VectorFields(a_shl=residual.shift_left, alu=Alu.ADD)
    fields |= operand_b(residual.operand)
    if residual.shift:
        fields |= VectorFields(
            o_scale=Scale.TENSOR, o_mult=residual.multiplier, o_shift=residual.shift
        )
    return fields


def extra_of(
    part: Epilogue, epilogue: Epilogue, extra: Residual | RowFactor | None
) -> Residual | RowFactor | None:
    """What a pass of an epilogue reads besides: the first one a factor, the last one a residual."""
    at = 0 if isinstance(extra, RowFactor) else -1
    return extra if epilogue.passes[at] is part else None


def epilogue_cycles(
    epilogue: Epilogue, extra: Residual | RowFactor | None, config: NpuConfig, channels: int
) -> int:
    """Cycles of the vector engine for each vector behind a product, in all passes together."""
    return sum(
        step_cycles(accumulator_fields(part, extra_of(part, epilogue, extra)), config, channels)
        for part in epilogue.passes
    )


def rescale_of_a(epilogue: Epilogue) -> VectorFields:
    """The epilogue's RESCALE before the ALU."""
    if epilogue.scale is not Scale.TENSOR:
        return VectorFields(a_scale=epilogue.scale)
    multiplier, shift = epilogue.tensor_scale
    return VectorFields(a_scale=Scale.TENSOR, a_mult=multiplier, a_shift=shift)


def rescale_of_result(epilogue: Epilogue) -> VectorFields:
    """The epilogue's RESCALE behind the ALU."""
    if epilogue.scale is not Scale.TENSOR:
        return VectorFields(o_scale=epilogue.scale)
    multiplier, shift = epilogue.tensor_scale
    return VectorFields(o_scale=Scale.TENSOR, o_mult=multiplier, o_shift=shift)


def operand_a(operand: Operand) -> VectorFields:
    """Operand A from the scratchpad."""
    fields = VectorFields(a_type=operand.dtype, a_zp=operand.zero_point)
    if operand.shift:
        fields |= VectorFields(
            a_scale=Scale.TENSOR, a_mult=operand.multiplier, a_shift=operand.shift
        )
    return fields


def operand_b(operand: Operand) -> VectorFields:
    """Operand B from the scratchpad."""
    fields = VectorFields(b_type=operand.dtype, b_zp=operand.zero_point)
    if operand.shift:
        fields |= VectorFields(
            b_scale=Scale.TENSOR, b_mult=operand.multiplier, b_shift=operand.shift
        )
    return fields

"""Elementwise operators and reductions as steps of a fused layer: a VECTOR each, or several.

STEPS has a row an operator. `value` finds an operand, in a register of the layer or in memory.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from spec.isa import Alu, DType, Reduce, Scale, Table
from spec.numerics import RANGES
from sw.compiler.kernels.epilogue import operand_a, operand_b
from sw.compiler.kernels.fused.builder import FusedBuilder, Value
from sw.compiler.kernels.layers import Epilogue
from sw.compiler.kernels.views import UNSIGNED, dense
from sw.compiler.lower.context import Context
from sw.compiler.lower.fusion.epilogues import rescale_values, zero_point
from sw.compiler.lower.fusion.fusion import ALU
from sw.compiler.lower.fusion.short_tables import shortened
from sw.compiler.lower.narrow import READERS
from sw.compiler.program.records import VectorFields
from sw.compiler.tosa.graph import Op

MINUS = {"mult": -4, "shift": 2}
"""A RESCALE by −1: (−4·v + 2) >> 2 is −v exactly."""

BINARY = {
    **ALU,
    "BITWISE_AND": Alu.AND,
    "BITWISE_OR": Alu.OR,
    "BITWISE_XOR": Alu.XOR,
    "LOGICAL_AND": Alu.AND,
    "LOGICAL_OR": Alu.OR,
    "LOGICAL_XOR": Alu.XOR,
    "LOGICAL_LEFT_SHIFT": Alu.LSL,
    "LOGICAL_RIGHT_SHIFT": Alu.LSR,
    "ARITHMETIC_RIGHT_SHIFT": Alu.ASR,
    "EQUAL": Alu.EQ,
    "GREATER": Alu.GT,
    "GREATER_EQUAL": Alu.GE,
}
"""Operators that are one operation of the vector engine's ALU."""

REDUCTIONS = {
    "REDUCE_SUM": (Reduce.SUM, Alu.ADD),
    "REDUCE_MAX": (Reduce.MAX, Alu.MAX),
    "REDUCE_MIN": (Reduce.MIN, Alu.MIN),
    "REDUCE_ALL": (Reduce.MIN, Alu.MIN),
    "REDUCE_ANY": (Reduce.MAX, Alu.MAX),
}
"""How the lanes and vectors of an axis are combined, and how two results of parts are."""

Recipe = Callable[[Context, FusedBuilder, Op, list[Value], DType], None]


@dataclass(frozen=True, slots=True)
class Step:
    """`add` appends the steps of an operator that reads its first `operands` inputs as data.

    The result, of the type given, is what the last step makes.
    """

    add: Recipe
    operands: int = 1


def add_steps(ctx: Context, builder: FusedBuilder, op: Op) -> Value:
    """Append the steps of `op` and return its result."""
    row = STEPS[op.kind]
    names = data_operands(ctx, op)
    if op.kind in READERS:
        names = [ctx.narrow(name) for name in names]
    operands = [value(ctx, builder, name) for name in names]
    row.add(ctx, builder, op, operands, ctx.kind(op.outputs[0]))
    return builder.steps[-1].out


def data_operands(ctx: Context, op: Op) -> list[str]:
    """Tensors that an operator reads as data, through the RESCALEs that its step computes."""
    count = STEPS[op.kind].operands if op.kind in STEPS else 1
    rescales = ctx.fusion.operand_rescales
    return [rescales[n].inputs[0] if n in rescales else n for n in op.inputs[:count]]


def value(ctx: Context, builder: FusedBuilder, name: str) -> Value:
    """Operand `name`: what a step has made, or as it lies in memory."""
    if name in builder.made:
        return builder.made[name]
    tensor = ctx.graph.tensors[name]
    data = ctx.graph.constant(name) if tensor.is_constant and ctx.fold else None
    return builder.source(ctx.storage.get(name), tensor.dtype, data)


# One operation of the ALU ---------------------------------------------------------------------


def _binary(ctx: Context, b: FusedBuilder, op: Op, x: list[Value], kind: DType) -> None:
    alu = BINARY[op.kind]
    values = VectorFields(alu=alu)
    for fields_of, name in zip((operand_a, operand_b), op.inputs, strict=True):
        rescale = ctx.fusion.operand_rescales.get(name)
        if rescale is not None:
            anywhere = dense("", ctx.dtype(rescale.inputs[0]), (1, 1, 1, 1))
            values |= fields_of(ctx.rescaled(rescale, anywhere))
    if op.kind == "LOGICAL_RIGHT_SHIFT":
        values["a_type"] = UNSIGNED[ctx.dtype(op.inputs[0])]
    if op.attributes.get("round"):
        values["alu"] = Alu.ASR_ROUND
    b.step(x[0], x[1], kind, values=values)


def _unary(alu: Alu) -> Recipe:
    def add(ctx: Context, b: FusedBuilder, op: Op, x: list[Value], kind: DType) -> None:
        b.step(x[0], None, kind, alu=alu)

    return add


def _with_constant(alu: Alu, constant: int) -> Recipe:
    def add(ctx: Context, b: FusedBuilder, op: Op, x: list[Value], kind: DType) -> None:
        b.immediate(x[0], constant, kind, alu=alu)

    return add


def _reduce(ctx: Context, b: FusedBuilder, op: Op, x: list[Value], kind: DType) -> None:
    reduce, _ = REDUCTIONS[op.kind]
    b.step(x[0], None, kind, reduce=reduce, axis=op.attributes["axis"])


# Scales, bounds and tables --------------------------------------------------------------------


def _mul(ctx: Context, b: FusedBuilder, op: Op, x: list[Value], kind: DType) -> None:
    b.step(x[0], x[1], kind, a_scale=Scale.OPERAND, a_shift=ctx.integer(op.inputs[2]))


def _negate(ctx: Context, b: FusedBuilder, op: Op, x: list[Value], kind: DType) -> None:
    low, high = RANGES[kind]
    b.step(
        x[0],
        None,
        kind,
        a_zp=ctx.integer(op.inputs[1]),
        a_scale=Scale.TENSOR,
        a_mult=MINUS["mult"],
        a_shift=MINUS["shift"],
        o_zp=ctx.integer(op.inputs[2]),
        o_min=low,
        o_max=high,
    )


def _cast(ctx: Context, b: FusedBuilder, op: Op, x: list[Value], kind: DType) -> None:
    """Low bits; to bool 1 − (x = 0)."""
    if ctx.dtype(op.outputs[0]) != "bool":
        b.step(x[0], None, kind)
        return
    mult, shift = MINUS["mult"], MINUS["shift"]
    b.immediate(x[0], 0, kind, alu=Alu.EQ, o_scale=Scale.TENSOR, o_zp=1, o_mult=mult, o_shift=shift)


def _clamp(ctx: Context, b: FusedBuilder, op: Op, x: list[Value], kind: DType) -> None:
    low, high = RANGES[x[0].kind]
    low, high = max(low, op.attributes["min_val"]), min(high, op.attributes["max_val"])
    b.step(x[0], None, kind, o_min=low, o_max=high)


def _table(ctx: Context, b: FusedBuilder, op: Op, x: list[Value], kind: DType) -> None:
    low, high = RANGES[x[0].kind]
    b.step(x[0], None, kind, o_min=low, o_max=high)
    table = ctx.graph.constant(op.inputs[1])
    b.look_up(b.steps[-1], table, Table.I8 if x[0].kind is DType.I8 else Table.I16)


def _shorten(ctx: Context, b: FusedBuilder, op: Op, x: Value, kind: DType) -> bool:
    """Whether the TABLE before can have the RESCALE `op` in its entries; then it has."""
    before = next((s for s in b.steps if s.out is x and s.values.get("table") is Table.I16), None)
    name = op.inputs[0]
    if before is None or ctx.fusion.users[name] != [op] or name in ctx.graph.outputs:
        return False
    entries = shortened(ctx.graph, list(b.tables.values())[before.lookup], op)
    if entries is None:
        return False
    b.look_up_instead(before, entries, Table.I16_I8)
    before.out = Value(kind, x.shape)
    b.steps.remove(before)
    b.steps.append(before)
    return True


def _rescale(ctx: Context, b: FusedBuilder, op: Op, x: list[Value], kind: DType) -> None:
    if _shorten(ctx, b, op, x[0], kind):
        return
    known = rescale_values(ctx.graph, op)
    multiplier, shift = known["multiplier"], known["shift"]
    fields = VectorFields(
        a_zp=zero_point(ctx.graph, op.inputs[3], unsigned=False),
        o_zp=known["zero_point"],
        o_min=known["low"],
        o_max=known["high"],
    )
    if multiplier.size == 1:
        fields |= VectorFields(o_mult=int(multiplier[0]), o_shift=int(shift[0]))
        b.step(x[0], None, kind, values=fields, o_scale=Scale.TENSOR)
        return
    b.step(x[0], None, kind, values=fields, o_scale=Scale.CHANNEL)
    b.steps[-1].params = Epilogue(
        dtype=kind, low=known["low"], high=known["high"], multiplier=multiplier, shift=shift
    )


# Several steps --------------------------------------------------------------------------------


def _select(ctx: Context, b: FusedBuilder, op: Op, x: list[Value], kind: DType) -> None:
    """no + chosen · (yes − no), with wrap."""
    chosen, yes, no = x
    part = times(b, chosen, b.step(yes, no, alu=Alu.SUB))
    b.step(part, no, kind, alu=Alu.ADD)


def _intdiv(ctx: Context, b: FusedBuilder, op: Op, x: list[Value], kind: DType) -> None:
    """Restoring division of −|a| by −|b|, which always fit, bit by bit; then the sign.

    Division by 0 gives a quotient of 32 ones.
    """
    size = b.step(x[0], None, alu=Alu.ABS)
    divisor = _minus(b, b.step(x[1], None, alu=Alu.ABS))
    rest = quotient = None
    for bit in reversed(range(32)):
        one = b.immediate(size, 31, a_shl=31 - bit, alu=Alu.LSR)
        rest = _minus(b, one) if rest is None else b.step(rest, one, alu=Alu.SUB, a_shl=1)
        fits = b.step(divisor, rest, alu=Alu.GE)
        rest = b.step(rest, times(b, fits, divisor), alu=Alu.SUB)
        quotient = fits if quotient is None else b.step(quotient, fits, alu=Alu.ADD, a_shl=1)
    assert quotient is not None
    signs = b.step(x[0], x[1], alu=Alu.XOR)
    # 1 or −1: the sign bit, twice, with the lowest bit set.
    sign = b.immediate(b.immediate(signs, 31, alu=Alu.ASR), 1, alu=Alu.OR)
    b.step(quotient, sign, kind, a_scale=Scale.OPERAND, a_shift=0)


def _minus(b: FusedBuilder, x: Value) -> Value:
    return b.step(x, None, a_scale=Scale.TENSOR, a_mult=MINUS["mult"], a_shift=MINUS["shift"])


def times(
    b: FusedBuilder, x: Value, y: Value, reduce: Reduce = Reduce.NONE, axis: int = -1
) -> Value:
    """The low 32 bits of a product, reduced along `axis` if asked."""
    return b.step(x, y, reduce=reduce, axis=axis, a_scale=Scale.OPERAND, a_shift=0)


STEPS: Mapping[str, Step] = {
    **dict.fromkeys(BINARY, Step(_binary, operands=2)),
    **dict.fromkeys(REDUCTIONS, Step(_reduce)),
    "MUL": Step(_mul, operands=2),
    "INTDIV": Step(_intdiv, operands=2),
    "SELECT": Step(_select, operands=3),
    "ABS": Step(_unary(Alu.ABS)),
    "CLZ": Step(_unary(Alu.CLZ)),
    "BITWISE_NOT": Step(_with_constant(Alu.XOR, -1)),
    "LOGICAL_NOT": Step(_with_constant(Alu.XOR, 1)),
    "NEGATE": Step(_negate),
    "CAST": Step(_cast),
    "RESCALE": Step(_rescale),
    "CLAMP": Step(_clamp),
    "TABLE": Step(_table),
}

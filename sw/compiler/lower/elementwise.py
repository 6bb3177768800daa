"""Lowering of elementwise operators with broadcasting, and of those that take several steps."""

from collections.abc import Callable
from typing import Any

from spec.isa import Alu, DType, Scale, Table
from spec.numerics import RANGES
from sw.compiler.kernels.epilogue import operand_values
from sw.compiler.kernels.fused.builder import MapBuilder, Target, Value
from sw.compiler.kernels.layers import Operand
from sw.compiler.kernels.views import DTYPE, ITEM, UNSIGNED, dense, row_major, to_nhwc
from sw.compiler.lower.builder import LayerBuilder
from sw.compiler.lower.fusion import ALU
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

STEPS = (
    "MUL",
    "ABS",
    "CLZ",
    "BITWISE_NOT",
    "LOGICAL_NOT",
    "NEGATE",
    "SELECT",
    "CAST",
    "INTDIV",
)
"""Operators that are steps of their own making."""

Recipe = Callable[[MapBuilder, Op, list[Value], DType], Value]


class MapLowering(LayerBuilder):
    """Handlers that each add a MapLayer."""

    def elementwise(self, op: Op) -> None:
        """Any elementwise operator, whatever its operands' ranks and shapes."""
        builder, names = MapBuilder(), [op.kind]
        out = op.outputs[0]
        kind = DTYPE[self.graph.tensors[out].dtype]
        if op.kind in BINARY:
            self._binary_step(builder, op, kind)
        else:
            count = {"MUL": 2, "INTDIV": 2, "SELECT": 3}.get(op.kind, 1)
            operands = [self.value(builder, name) for name in op.inputs[:count]]
            self._recipe(op)(builder, op, operands, kind)
        out = self._epilogue(builder, out, names)
        self.append_map(builder, op, out, names)

    def value(self, builder: MapBuilder, name: str) -> Value:
        """Operand `name`: what a step has made, or as it lies in memory."""
        if name in builder.made:
            return builder.made[name]
        tensor = self.graph.tensors[name]
        data = self.graph.constant(name) if tensor.is_constant and self.fold else None
        return builder.source(self.storage.get(name), tensor.dtype, data)

    def append_map(self, builder: MapBuilder, op: Op, out: str, names: list[str]) -> None:
        """The layer whose last step writes tensor `out`."""
        tensor = self.graph.tensors[out]
        self.layers.append(
            builder.layer(
                Target(
                    dense(self.storage.add(out), tensor.dtype, to_nhwc(tensor.shape)),
                    0,
                    row_major(tensor.shape, ITEM[tensor.dtype]),
                ),
                name=op.name,
                ops=tuple(names),
                source=op.source,
            )
        )

    def _binary_step(self, builder: MapBuilder, op: Op, kind: DType) -> None:
        alu, operands = BINARY[op.kind], []
        values: dict[str, int] = {}
        for stream, name in zip("ab", op.inputs, strict=True):
            rescale = self.fusion.operand_rescales.get(name)
            inner = name if rescale is None else rescale.inputs[0]
            operands.append(self.value(builder, inner))
            if rescale is not None:
                values |= self._operand_values(stream, rescale)
        if op.kind == "LOGICAL_RIGHT_SHIFT":
            values["a_type"] = UNSIGNED[self.graph.tensors[op.inputs[0]].dtype]
        if op.attributes.get("round"):
            alu = Alu.ASR_ROUND
        builder.step(operands[0], operands[1], kind, values={"alu": alu, **values})

    def _operand_values(self, stream: str, rescale: Op) -> dict[str, Any]:
        """Fields of an operand with the RESCALE before it."""
        unsigned = rescale.attributes["input_unsigned"]
        dtype = self.graph.tensors[rescale.inputs[0]].dtype
        view = dense("", dtype, (1, 1, 1, 1))
        operand = Operand(
            view=view,
            dtype=(UNSIGNED if unsigned else DTYPE)[dtype],
            zero_point=self.fusion.zero_point(rescale.inputs[3], unsigned),
            multiplier=int(self.graph.constant(rescale.inputs[1])[0]),
            shift=int(self.graph.constant(rescale.inputs[2])[0]),
        )
        return operand_values(stream, operand)

    def _epilogue(self, builder: MapBuilder, out: str, names: list[str]) -> str:
        """Let the last step RESCALE, clamp and look up what it has; returns what that makes."""
        follows = self.fusion.next(out, "RESCALE")
        last = builder.steps[-1]
        used = {"o_scale", "o_zp", "table"} & set(last.values)
        if follows is None or follows.attributes["per_channel"] or used:
            return out
        out, epilogue = self.fusion.after_int32(out, names)
        assert epilogue.multiplier is not None and epilogue.shift is not None
        last.values |= {
            "o_scale": Scale.TENSOR,
            "o_mult": int(epilogue.multiplier[0]),
            "o_shift": int(epilogue.shift[0]),
            "o_zp": epilogue.zero_point,
            "o_min": epilogue.low,
            "o_max": epilogue.high,
        }
        last.out.kind = epilogue.dtype
        if epilogue.table is not None:
            builder.look_up(last, epilogue.table, Table.I8)
        return out

    # Recipes ----------------------------------------------------------------------------------

    def _recipe(self, op: Op) -> Recipe:
        return {
            "MUL": self._mul,
            "ABS": _unary(Alu.ABS),
            "CLZ": _unary(Alu.CLZ),
            "BITWISE_NOT": _with(Alu.XOR, -1),
            "LOGICAL_NOT": _with(Alu.XOR, 1),
            "NEGATE": self._negate,
            "SELECT": _select,
            "CAST": self._cast,
            "INTDIV": _intdiv,
            "TABLE": self._table16,
        }[op.kind]

    def _mul(self, b: MapBuilder, op: Op, x: list[Value], kind: DType) -> Value:
        shift = self.fusion.integer(op.inputs[2])
        return b.step(x[0], x[1], kind, a_scale=Scale.OPERAND, a_shift=shift)

    def _negate(self, b: MapBuilder, op: Op, x: list[Value], kind: DType) -> Value:
        low, high = RANGES[kind]
        return b.step(
            x[0],
            None,
            kind,
            a_zp=self.fusion.integer(op.inputs[1]),
            a_scale=Scale.TENSOR,
            a_mult=MINUS["mult"],
            a_shift=MINUS["shift"],
            o_zp=self.fusion.integer(op.inputs[2]),
            o_min=low,
            o_max=high,
        )

    def _cast(self, b: MapBuilder, op: Op, x: list[Value], kind: DType) -> Value:
        """Low bits; to bool 1 − (x = 0)."""
        if self.graph.tensors[op.outputs[0]].dtype != "bool":
            return b.step(x[0], None, kind)
        negative = {f"o_{key}": value for key, value in MINUS.items()}
        return b.immediate(x[0], 0, kind, alu=Alu.EQ, o_scale=Scale.TENSOR, o_zp=1, **negative)

    def _table16(self, b: MapBuilder, op: Op, x: list[Value], kind: DType) -> Value:
        low, high = RANGES[DType.I16]
        out = b.step(x[0], None, kind, o_min=low, o_max=high)
        b.look_up(b.steps[-1], self.graph.constant(op.inputs[1]), Table.I16)
        return out


def _unary(alu: Alu) -> Recipe:
    def recipe(b: MapBuilder, op: Op, x: list[Value], kind: DType) -> Value:
        return b.step(x[0], None, kind, alu=alu)

    return recipe


def _with(alu: Alu, constant: int) -> Recipe:
    def recipe(b: MapBuilder, op: Op, x: list[Value], kind: DType) -> Value:
        return b.immediate(x[0], constant, kind, alu=alu)

    return recipe


def _select(b: MapBuilder, op: Op, x: list[Value], kind: DType) -> Value:
    """no + chosen · (yes − no), with wrap."""
    chosen, yes, no = x
    difference = b.step(yes, no, alu=Alu.SUB)
    part = b.step(chosen, difference, a_scale=Scale.OPERAND, a_shift=0)
    return b.step(part, no, kind, alu=Alu.ADD)


def _intdiv(b: MapBuilder, op: Op, x: list[Value], kind: DType) -> Value:
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
        taken = b.step(fits, divisor, a_scale=Scale.OPERAND, a_shift=0)
        rest = b.step(rest, taken, alu=Alu.SUB)
        quotient = fits if quotient is None else b.step(quotient, fits, alu=Alu.ADD, a_shl=1)
    assert quotient is not None
    signs = b.step(x[0], x[1], alu=Alu.XOR)
    # 1 or −1: the sign bit, twice, with the lowest bit set.
    sign = b.immediate(b.immediate(signs, 31, alu=Alu.ASR), 1, alu=Alu.OR)
    return b.step(quotient, sign, kind, a_scale=Scale.OPERAND, a_shift=0)


def _minus(b: MapBuilder, x: Value) -> Value:
    return b.step(x, None, a_scale=Scale.TENSOR, a_mult=MINUS["mult"], a_shift=MINUS["shift"])

"""Fewer steps for the same values: what an instruction can do besides joins another instruction.

Rules look at neighbours only, and run until none applies. A step has three parts: its operand A
(zero point, bias, RESCALE, clamp), the operation with B, and its result (reduction, RESCALE, zero
point, clamp, TABLE).
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import cast

import numpy as np
from numpy.typing import NDArray

from spec.fields import field_of
from spec.isa import Alu, DType, Opcode, Reduce, Scale, uses_b
from spec.numerics import RANGES, SHIFT_MAX, SHIFT_MIN, keeps_values
from sw.compiler.kernels.fused.builder import FusedBuilder, PendingStep, Value
from sw.compiler.kernels.operands import Epilogue
from sw.compiler.program.records import ArithmeticFields

IMMEDIATE = -field_of(Opcode.VECTOR, "b_zp").minimum
"""Immediates lie in −IMMEDIATE + 1 … IMMEDIATE."""

MAX_SHIFT = field_of(Opcode.VECTOR, "a_shl").maximum
INT32 = RANGES[DType.I32]
A_PART = {"a_zp", "a_scale", "a_mult", "a_shift", "a_clamp", "a_min", "a_max", "a_shl", "a_type"}
B_PART = {"b_zp", "b_scale", "b_mult", "b_shift", "b_none", "b_type"}
RESULT = {"o_scale", "o_mult", "o_shift", "o_zp", "o_min", "o_max", "table"}
_COMMUTES = (Alu.ADD, Alu.MIN, Alu.MAX, Alu.AND, Alu.OR, Alu.XOR, Alu.EQ)


def simplify(builder: FusedBuilder, results: Sequence[Value], cols: int) -> None:
    """Rewrite the steps of `builder`, which make `results`; `cols`: lanes of a vector."""
    _Simplifier(builder, results, cols).run()


class _Simplifier:
    def __init__(self, builder: FusedBuilder, results: Sequence[Value], cols: int) -> None:
        self.builder, self.results, self.cols = builder, results, cols

    def run(self) -> None:
        rules: tuple[Callable[[PendingStep], bool], ...] = (
            self._immediate,
            self._clamping,
            self._multiplier,
            self._multipliers,
            self._bias,
            self._widening,
            self._result,
            self._reduction,
            self._operand,
            self._operand_b,
        )
        for step in self.builder.steps:
            zeros = [k for k, v in step.values.items() if not v and k not in ("o_min", "o_max")]
            step.values = _without(step.values, *zeros)
            if _keeps_value(step):
                step.values = _without(step.values, "o_scale", "o_mult", "o_shift")
            if step.values.get("a_type") is step.a.kind:
                step.values = _without(step.values, "a_type")
            if step.b is not None and step.values.get("b_type") is step.b.kind:
                step.values = _without(step.values, "b_type")
        # An offset leaves no room for a RESCALE of the same result, so offsets come later.
        for chosen in (rules, (*rules, self._offset)):
            while any(rule(step) for rule in chosen for step in self.builder.steps):
                self._sweep()
        self._stage()
        self._sweep()
        self._share_params()

    def _sweep(self) -> None:
        """Forget steps and sources that nothing reads."""
        steps = self.builder.steps
        while dead := [s for s in steps if not self._kept(s.out) and not self._reads(s.out)]:
            for step in dead:
                steps.remove(step)
        used = {id(v) for s in steps for v in (s.a, s.b)}
        self.builder.sources = [v for v in self.builder.sources if id(v) in used]

    def _kept(self, value: Value) -> bool:
        return any(value is result for result in self.results)

    def _reads(self, value: Value) -> list[tuple[PendingStep, str]]:
        """The steps that read a value, and as which operand."""
        steps = self.builder.steps
        return [(s, x) for s in steps for x in "ab" if getattr(s, x) is value]

    def _maker(self, value: Value) -> PendingStep | None:
        return next((s for s in self.builder.steps if s.out is value), None)

    def _only_maker(self, step: PendingStep) -> PendingStep | None:
        """The step that makes A, if nothing else reads A."""
        if self._kept(step.a) or len(self._reads(step.a)) > 1:
            return None
        return self._maker(step.a)

    # Rules: each returns whether it changed something ---------------------------------------------

    def _immediate(self, step: PendingStep) -> bool:
        """A constant operand of one element becomes part of the instruction."""
        if B_PART & set(step.values) or step.b is None or not _uses_b(step):
            return False
        alu = step.values.get("alu", Alu.PASS)
        if _scalar(step.a) is not None and not A_PART & set(step.values):
            if alu in _COMMUTES:
                step.a, step.b = step.b, step.a
            elif alu is Alu.SUB:
                # c − x is −x + c.
                step.a, step.b = step.b, step.a
                step.values |= {"a_scale": Scale.TENSOR, "a_mult": -4, "a_shift": 2}
                step.values["alu"] = Alu.ADD
        value = _scalar(step.b)
        if value is None or not -IMMEDIATE < value <= IMMEDIATE or step.a.shape != _before(step):
            return False
        step.b = None
        step.values["b_none"] = 1
        if value:
            step.values["b_zp"] = -value
        return True

    def _clamping(self, step: PendingStep) -> bool:
        """MIN and MAX with a constant of one element become the clamp of the result."""
        alu = step.values.get("alu", Alu.PASS)
        if alu not in (Alu.MIN, Alu.MAX) or {"a_scale", *RESULT} & set(step.values):
            return False
        if step.reduce is not Reduce.NONE:
            return False
        value = -step.values.get("b_zp", 0) if step.b is None else _scalar(step.b)
        if value is None or (B_PART & set(step.values)) - {"b_none", "b_zp"}:
            return False
        if step.a.shape != step.out.shape:
            return False
        low, high = RANGES[step.out.kind]
        step.values = _without(step.values, "alu", "b_none", "b_zp")
        low, high = (low, value) if alu is Alu.MIN else (value, high)
        step.values |= {"o_min": low, "o_max": high}
        step.b = None
        return True

    def _multiplier(self, step: PendingStep) -> bool:
        """A product with an immediate becomes a RESCALE of A."""
        if step.values.get("a_scale") is not Scale.OPERAND or not step.values.get("b_none"):
            return False
        if (B_PART & set(step.values)) - {"b_none", "b_zp"} or _binary(step):
            return False
        value, shift = -step.values.get("b_zp", 0), step.values.get("a_shift", 0)
        value, shift = (value, shift) if shift > 1 else (value << 2 - shift, 2)
        step.values = _without(step.values, "b_none", "b_zp")
        step.values |= {"a_scale": Scale.TENSOR, "a_mult": value, "a_shift": shift}
        return True

    def _multipliers(self, step: PendingStep) -> bool:
        """A product with a constant along the last dimension becomes a RESCALE by parameters."""
        if step.values.get("a_scale") is not Scale.OPERAND or step.params is not None:
            return False
        if B_PART & set(step.values) or _binary(step) or step.reduce is not Reduce.NONE:
            return False
        if step.b is not None and _channels(step.a) is not None and not _operand_fields(step):
            step.a, step.b = step.b, step.a
        factors = None if step.b is None else _channels(step.b)
        if factors is None or step.a.shape != step.out.shape:
            return False
        # Like a RESCALE, a product has the low 32 bits of what is left after its shift.
        shift = step.values.get("a_shift", 0)
        multipliers = factors.astype(np.int64) << max(0, SHIFT_MIN - shift)
        low, high = INT32
        if multipliers.min() < low or multipliers.max() > high or shift > SHIFT_MAX:
            return False
        step.values = _without(step.values, "a_shift") | {"a_scale": Scale.CHANNEL}
        step.b = None
        step.params = Epilogue(
            dtype=DType.I32,
            low=low,
            high=high,
            multiplier=multipliers,
            shift=np.full(multipliers.size, max(SHIFT_MIN, shift), np.int8),
        )
        return True

    def _offset(self, step: PendingStep) -> bool:
        """Adding an immediate becomes the zero point of the result."""
        offset = _added(step)
        if offset is None or {"o_scale", "o_zp"} & set(step.values):
            return False
        if step.reduce is not Reduce.NONE or not -IMMEDIATE <= offset < IMMEDIATE:
            return False
        step.values = _without(step.values, "alu", "b_none", "b_zp") | {"o_zp": offset}
        return True

    def _bias(self, step: PendingStep) -> bool:
        """A constant along the last dimension that is added becomes the bias of parameters."""
        if step.values.get("alu") is not Alu.ADD or step.params is not None:
            return False
        if {"a_scale", "a_clamp", "a_shl", *B_PART} & set(step.values):
            return False
        if step.b is not None and _channels(step.a) is not None:
            step.a, step.b = step.b, step.a
        if step.b is None or step.reduce is not Reduce.NONE or step.a.shape != step.out.shape:
            return False
        bias = _channels(step.b)
        if bias is None:
            return False
        del step.values["alu"]
        step.b = None
        if bias.any():
            step.params = Epilogue(dtype=DType.I32, low=INT32[0], high=INT32[1], bias=bias)
        return True

    def _widening(self, step: PendingStep) -> bool:
        """A step that changes nothing: its readers take its operand."""
        if step.values or step.b is not None or step.reduce is not Reduce.NONE or step.params:
            return False
        if self._kept(step.out) or step.out.kind not in (step.a.kind, DType.I32):
            return False
        reads = self._reads(step.out)
        if not reads or any(f"{x}_type" in reader.values for reader, x in reads):
            return False
        for reader, x in reads:
            setattr(reader, x, step.a)
        return True

    def _result(self, step: PendingStep) -> bool:
        """What a step does to its operand only, the step before does to its result."""
        before = self._only_maker(step)
        if before is None or step.b is not None or set(step.values) - RESULT:
            return False
        if step.reduce is not Reduce.NONE or not (step.values or step.params):
            return False
        if step.params is not None and (step.params.has_bias or before.reduce is not Reduce.NONE):
            return False
        if not _raw(before) and not self._nested(before, step):
            return False
        if step.params is not None:
            if step.params.multiplier is not None and before.values.get("a_scale") is Scale.CHANNEL:
                return False
            bias = None if before.params is None else before.params.bias
            before.params = replace(step.params, bias=bias)
        self._take(before, step)
        return True

    def _nested(self, before: PendingStep, step: PendingStep) -> bool:
        """Let the clamp of `step` follow that of the step before, if that is all it does."""
        if {"o_scale", "o_zp"} & set(step.values) or step.params is not None:
            return False
        if "table" in before.values or not {"o_min", "o_max"} <= set(before.values):
            return False
        low = step.values.get("o_min", INT32[0])
        high = step.values.get("o_max", INT32[1])
        old = before.values["o_min"], before.values["o_max"]
        step.values |= {"o_min": min(max(old[0], low), high), "o_max": max(min(old[1], high), low)}
        return True

    def _take(self, before: PendingStep, step: PendingStep) -> None:
        """`before` makes what `step` does."""
        before.values |= step.values
        if step.lookup >= 0:
            before.lookup = step.lookup
        before.out = step.out
        self.builder.steps.remove(step)

    def _reduction(self, step: PendingStep) -> bool:
        """The step before reduces what it has."""
        before = self._only_maker(step)
        if before is None or step.reduce is Reduce.NONE or step.b is not None:
            return False
        if set(step.values) - RESULT or step.params is not None or not _raw(before):
            return False
        read = (before.a, before.b)
        if before.reduce is not Reduce.NONE or all(
            v is None or v.shape[step.axis] == 1 for v in read
        ):
            return False
        before.reduce, before.axis = step.reduce, step.axis
        self._take(before, step)
        return True

    def _operand(self, step: PendingStep) -> bool:
        """A RESCALE or a clamp of one operand that its readers do to their operand A.

        Where the value is needed as it is, too, they do it again if that spares them words.
        """
        part = _operand_part(step)
        if part is None:
            return False
        reads = [r for r in self._reads(step.out) if self._may_take(step, *r)]
        others = len(self._reads(step.out)) - len(reads)
        temporary = self._maker(step.a) is not None
        if not reads or (not temporary and (len(reads) > 2 or others or self._kept(step.out))):
            return False
        if (others or self._kept(step.out)) and step.a.kind is not DType.I32:
            return False
        for reader, _ in reads:
            reader.a = step.a
            reader.values |= part
            if step.params is not None:
                own = reader.params
                bias = step.params.bias
                reader.params = step.params if own is None else replace(own, bias=bias)
        return True

    def _operand_b(self, step: PendingStep) -> bool:
        """An offset of a value that is read as B only is B's zero point."""
        offset = step.values.get("o_zp")
        if set(step.values) != {"o_zp"} or offset is None or self._kept(step.out):
            return False
        if step.reduce is not Reduce.NONE or step.out.kind is not DType.I32 or step.params:
            return False
        reads = self._reads(step.out)
        if any(x != "b" or B_PART & set(reader.values) for reader, x in reads):
            return False
        for reader, _ in reads:
            reader.b = step.a
            reader.values["b_zp"] = -offset
        return bool(reads)

    def _may_take(self, step: PendingStep, reader: PendingStep, operand: str) -> bool:
        if operand != "a" or A_PART & set(reader.values) or reader.b is step.out:
            return False
        if reader.params is not None and (step.params is not None and reader.params.has_bias):
            return False
        if reader.params is not None and reader.params.has_bias:
            return False  # a bias comes before the RESCALE of A
        return step.params is None or reader.a.shape == _before(reader)

    def _stage(self) -> None:
        """Sources that several steps read as A are copied to the accumulator first, where a vector
        is one word.
        """
        for value in list(self.builder.sources):
            reads = [s for s, x in self._reads(value) if x == "a" and "a_type" not in s.values]
            words = value.kind.bytes
            # The same words as A and as B are read one after the other.
            squares = sum(s.b is value for s in reads)
            before = words * (len(reads) + squares)
            after = words * (1 + squares) + len(reads) - squares
            if after >= before or value.shape[-1] < self.cols or not self.builder.steps:
                continue
            if _count(value) < max(_count(s.out) for s in self.builder.steps):
                continue
            copy = Value(DType.I32, value.shape)
            at = min(self.builder.steps.index(s) for s in reads)
            self.builder.steps.insert(at, PendingStep(value, None, copy))
            for step in reads:
                step.a = copy

    def _share_params(self) -> None:
        """One entry has a bias for one step and multipliers for another."""
        users = [s for s in self.builder.steps if s.params is not None]
        for step in users:
            if step.params is not None and step.params.has_bias:
                step.values["bias"] = 1
        for step in users:
            for other in users:
                p, q = step.params, other.params
                if p is q or p is None or q is None or p.bias is None or p.multiplier is not None:
                    continue
                if q.bias is None or np.array_equal(q.bias, p.bias):
                    both = replace(q, bias=p.bias)
                    for user in users:
                        if user.params is p or user.params is q:
                            user.params = both


def _without(values: ArithmeticFields, *names: str) -> ArithmeticFields:
    """The other fields, in their order."""
    return cast(ArithmeticFields, {k: v for k, v in values.items() if k not in names})


def _operand_fields(step: PendingStep) -> set[str]:
    """What a step does to its operand A besides multiplying it."""
    return A_PART & set(step.values) - {"a_scale", "a_shift"}


def _count(value: Value) -> int:
    return int(np.prod(value.shape, dtype=np.int64))


def _uses_b(step: PendingStep) -> bool:
    return uses_b({"alu": Alu.PASS, "a_scale": Scale.OFF, **step.values})


def _binary(step: PendingStep) -> bool:
    return not Alu(step.values.get("alu", Alu.PASS)).unary


def _added(step: PendingStep) -> int | None:
    """The immediate that a step adds to A, if that is its operation."""
    alu = step.values.get("alu", Alu.PASS)
    if alu not in (Alu.ADD, Alu.SUB) or not step.values.get("b_none"):
        return None
    if (B_PART & set(step.values)) - {"b_none", "b_zp"} or step.values.get(
        "a_scale"
    ) is Scale.OPERAND:
        return None
    value = -step.values.get("b_zp", 0)
    return value if alu is Alu.ADD else -value


def _raw(step: PendingStep) -> bool:
    """Whether the 32 bits of the result go out as they are."""
    return step.out.kind is DType.I32 and not RESULT & set(step.values)


def _before(step: PendingStep) -> tuple[int, ...]:
    """The shape of what a step computes before it is reduced."""
    shapes = [v.shape for v in (step.a, step.b) if v is not None]
    return tuple(max(sizes) for sizes in zip(*shapes, strict=True))


def _scalar(value: Value | None) -> int | None:
    if value is None or value.data is None or value.data.size != 1:
        return None
    return int(value.data.reshape(-1)[0])


def _channels(value: Value) -> NDArray[np.int32] | None:
    """Constants along the last dimension, one for each channel."""
    if value.data is None or value.data.size < 2 or value.data.size != value.shape[-1]:
        return None
    return value.data.reshape(-1).astype(np.int32)


def _operand_part(step: PendingStep) -> ArithmeticFields | None:
    """The fields of A that do what a step does; None if it does more."""
    values = step.values
    if step.reduce is not Reduce.NONE:
        return None
    if values.get("alu") is Alu.LSL and set(values) == {"alu", "b_none", "b_zp"}:
        shift = -values["b_zp"]
        return {"a_shl": shift} if 0 < shift <= MAX_SHIFT and _raw(step) else None
    if not _only_rescales(step):
        return None
    part = _without(values, *(set(values) - A_PART))
    # A has no type but its register's, and nothing behind its shift.
    if "a_type" in part or "a_shl" in part or values.get("o_zp"):
        return None
    if "o_scale" in values:
        if {"a_scale", "a_clamp"} & set(part) or values["o_scale"] is not Scale.TENSOR:
            return None
        part["a_scale"] = Scale.TENSOR
        part["a_mult"], part["a_shift"] = values["o_mult"], values["o_shift"]
    bounds = values.get("o_min", INT32[0]), values.get("o_max", INT32[1])
    wraps = step.out.kind is not DType.I32 and not _within(bounds, RANGES[step.out.kind])
    if wraps:
        return None
    if bounds != INT32:
        # The clamp of A has narrower fields than that of the result.
        if "a_clamp" in part or not _within(bounds, (-IMMEDIATE, IMMEDIATE - 1)):
            return None
        part |= {"a_clamp": 1, "a_min": bounds[0], "a_max": bounds[1]}
    return part


def _only_rescales(step: PendingStep) -> bool:
    """Whether all that a step does is on one operand: zero points, bias, scales and clamps."""
    values, params = step.values, step.params
    if step.b is not None or step.reduce is not Reduce.NONE or "table" in values:
        return False
    if set(values) - A_PART - RESULT or not (values or params):
        return False
    return params is None or (params.has_bias and params.multiplier is None)


def _keeps_value(step: PendingStep) -> bool:
    """Whether the RESCALE of a step's result is by 1, which has the same 32 bits."""
    values = step.values
    by_tensor = values.get("o_scale") is Scale.TENSOR
    return by_tensor and keeps_values(values.get("o_mult", 0), values.get("o_shift", 0))


def _within(bounds: tuple[int, int], limits: tuple[int, int]) -> bool:
    return limits[0] <= bounds[0] and bounds[1] <= limits[1]

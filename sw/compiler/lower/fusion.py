"""Which operators go into one layer: the chains that follow a product, and RESCALEs of operands.

Only values that nobody else reads, and that are no graph outputs, are fused away.
"""

from dataclasses import replace
from typing import Any

import numpy as np

from spec.isa import Alu, DType
from spec.numerics import RANGES
from sw.compiler.kernels.layers import Epilogue
from sw.compiler.kernels.views import DTYPE, UNSIGNED
from sw.compiler.lower.sums import PRODUCTS, find_sums
from sw.compiler.tosa.graph import Graph, Op

INT32 = RANGES[DType.I32]
MAX_PASSES = 3
"""VECTORs behind a product: each takes as many cycles as the results have vectors."""

ALU = {"ADD": Alu.ADD, "SUB": Alu.SUB, "MAXIMUM": Alu.MAX, "MINIMUM": Alu.MIN}
"""The binary operators that the vector engine computes on int32."""


class Fusion:
    """Follows chains in `graph`; sets hold ids of operators.

    `done`: what a layer has absorbed. `sum_of`, `sum_at`: sums by their product and by their ADD.
    `deferred`: operators that are computed only where the sum that follows them is.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.users = graph.consumers()
        self.producers = graph.producers()
        self.done: set[int] = set()
        self.operand_rescales = self._operand_rescales()
        self.done.update(id(op) for op in self.operand_rescales.values())
        sums = find_sums(graph, self.operand_rescales)
        self.sum_of = {id(s.product): s for s in sums}
        self.sum_at = {id(s.add): s for s in sums}
        self.deferred = {id(op) for s in sums for op in s.before}

    def next(self, name: str, *kinds: str) -> Op | None:
        """The only reader of tensor `name`, if it is one of `kinds` and nobody else sees it.

        It reads the tensor first of all; a sum or a MUL may read it second.
        """
        users = self.users[name]
        if len(users) != 1 or name in self.graph.outputs or users[0].kind not in kinds:
            return None
        op = users[0]
        first = op.inputs[0] == name or op.kind in ("ADD", "MUL")
        return op if first and op.inputs.count(name) == 1 and id(op) not in self.done else None

    def other(self, op: Op, name: str) -> str:
        """The operand of a sum or a MUL that is not `name`."""
        return op.inputs[1] if op.inputs[0] == name else op.inputs[0]

    def absorb(self, op: Op, names: list[str]) -> str:
        """Mark `op` as part of the current layer; returns its output."""
        self.done.add(id(op))
        names.append(op.kind)
        return op.outputs[0]

    def integer(self, name: str) -> int:
        """The value of a one-element constant."""
        return int(self.graph.constant(name).reshape(-1)[0])

    def rescale_values(self, op: Op) -> dict[str, Any]:
        """Epilogue fields of a RESCALE: multiplier, shift, zero point, range, type."""
        name = op.outputs[0]
        kinds = UNSIGNED if op.attributes["output_unsigned"] else DTYPE
        kind = kinds[self.graph.tensors[name].dtype]
        low, high = RANGES[kind]
        return {
            "multiplier": self.graph.constant(op.inputs[1]).astype(np.int64),
            "shift": self.graph.constant(op.inputs[2]).astype(np.int64),
            "zero_point": self.zero_point(op.inputs[4], op.attributes["output_unsigned"]),
            "low": low,
            "high": high,
            "dtype": kind,
        }

    def zero_point(self, name: str, unsigned: bool) -> int:
        """A zero-point operand; TOSA keeps those of unsigned values in signed types."""
        value = self.integer(name)
        if unsigned and value < 0:
            value += {"int8": 256, "int16": 65536}.get(self.graph.tensors[name].dtype, 0)
        return value

    def clamps(self, name: str, epilogue: Epilogue, names: list[str]) -> tuple[str, Epilogue]:
        """Fold the CLAMPs and one TABLE that follow `name` into the epilogue."""
        if epilogue.dtype not in (DType.I8, DType.I16):
            return name, epilogue
        while (op := self.next(name, "CLAMP")) is not None:
            low, high = op.attributes["min_val"], op.attributes["max_val"]
            epilogue = replace(
                epilogue,
                low=min(max(epilogue.low, low), high),
                high=max(min(epilogue.high, high), low),
            )
            name = self.absorb(op, names)
        if epilogue.dtype is not DType.I8 or any(p.table is not None for p in epilogue.passes):
            return name, epilogue
        if (op := self.next(name, "TABLE")) is not None:
            epilogue = replace(epilogue, table=self.graph.constant(op.inputs[1]))
            name = self.absorb(op, names)
        return name, epilogue

    def after_int32(
        self, name: str, names: list[str], *, several: bool = False, **values: Any
    ) -> tuple[str, Epilogue]:
        """The epilogue of int32 tensor `name`: RESCALE, CLAMPs, TABLE, as far as they follow.

        `several`: passes may follow one another, in the accumulator.
        """
        op = self.next(name, "RESCALE")
        if op is None:
            return name, Epilogue(dtype=DType.I32, low=INT32[0], high=INT32[1], **values)
        name = self.absorb(op, names)
        epilogue = Epilogue(**self.rescale_values(op), **values)
        name, epilogue = self.clamps(name, epilogue, names)
        while several and len(epilogue.passes) < MAX_PASSES:
            name, longer = self._another(name, epilogue, names)
            if longer is epilogue:
                break
            epilogue = longer
        return name, epilogue

    def _another(self, name: str, epilogue: Epilogue, names: list[str]) -> tuple[str, Epilogue]:
        """The epilogue with an interpolated TABLE, or with one more pass, if such follow."""
        tables = [p.table for p in epilogue.passes if p.table is not None]
        op = self.next(name, "TABLE")
        if op is not None and not tables and epilogue.dtype is DType.I16:
            table = self.graph.constant(op.inputs[1])
            return self.absorb(op, names), replace(epilogue, dtype=DType.I32, table=table)
        op = self.next(name, "RESCALE")
        if op is None or epilogue.dtype in (DType.U8, DType.U16) or self._is_unsigned(op):
            return name, epilogue
        values = self.rescale_values(op)
        name = self.absorb(op, names)
        before = replace(epilogue, dtype=DType.I32)
        zero_point = self.zero_point(op.inputs[3], unsigned=False)
        after = Epilogue(**values, input_zp=zero_point, first=before)
        return self.clamps(name, after, names)

    def _is_unsigned(self, op: Op) -> bool:
        return bool(op.attributes["input_unsigned"] or op.attributes["output_unsigned"])

    def _operand_rescales(self) -> dict[str, Op]:
        """By output: the RESCALEs that only feed binary operators, whose layers compute them."""
        found = {}
        for op in self.graph.ops:
            if op.kind == "RESCALE" and self._is_operand(op):
                found[op.outputs[0]] = op
        return found

    def _is_operand(self, op: Op) -> bool:
        (name,) = op.outputs
        users = self.users[name]
        if op.attributes["per_channel"] or not users or name in self.graph.outputs:
            return False
        if any(user.kind not in ALU for user in users):
            return False
        before = self.producers.get(op.inputs[0])
        return before is None or not self._fuses_rescale(before, op)

    def _fuses_rescale(self, before: Op, rescale: Op) -> bool:
        """Whether the RESCALE belongs to the layer of the operator before it."""
        return (
            before.kind in (*PRODUCTS, *ALU) and self.next(before.outputs[0], "RESCALE") is rescale
        )

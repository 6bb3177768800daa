"""Which operators go into one layer: the chains that follow a product, and RESCALEs of operands.

Only values that nobody else reads, and that are no graph outputs, are fused away.
"""

from typing import Any

from spec.isa import Alu, DType
from sw.compiler.kernels.layers import Epilogue
from sw.compiler.lower.fusion.epilogues import FOLLOWING, follower, plain, zero_point
from sw.compiler.lower.fusion.sums import PRODUCTS, find_sums
from sw.compiler.tosa.graph import Graph, Op

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
        # The layers that read their results compute them: no other layer may take them.
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

    def follow(
        self, name: str, epilogue: Epilogue, names: list[str], *, several: bool = False
    ) -> tuple[str, Epilogue]:
        """Fold what follows tensor `name` into the epilogue, as long as FOLLOWERS has a row for it.

        Returns the tensor that the layer then makes. `several`: passes may follow one another, in
        the accumulator.
        """
        while (op := self.next(name, *FOLLOWING)) is not None:
            row = follower(self.graph, epilogue, op, several=several)
            if row is None:
                break
            epilogue = row.fold(self.graph, epilogue, op)
            name = self.absorb(op, names)
        return name, epilogue

    def after_int32(
        self, name: str, names: list[str], *, several: bool = False, **values: Any
    ) -> tuple[str, Epilogue]:
        """The same for tensor `name`, of which the layer has int32 sums or selections; `values`:
        fields that its epilogue begins with.
        """
        epilogue = plain(DType.I32, **values)
        op = self.next(name, "RESCALE")
        if op is not None:
            # A narrow value may have a zero point, which no epilogue subtracts.
            moved = zero_point(self.graph, op.inputs[3], unsigned=op.attributes["input_unsigned"])
            if moved or op.attributes["input_unsigned"]:
                return name, epilogue
        return self.follow(name, epilogue, names, several=several)

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
        # The layer of a product or a sum takes the RESCALE behind it into its own epilogue.
        before = self.producers.get(op.inputs[0])
        return before is None or not self._fuses_rescale(before, op)

    def _fuses_rescale(self, before: Op, rescale: Op) -> bool:
        """Whether the RESCALE belongs to the layer of the operator before it."""
        return (
            before.kind in (*PRODUCTS, *ALU) and self.next(before.outputs[0], "RESCALE") is rescale
        )

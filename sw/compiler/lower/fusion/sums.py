"""Sums that a product's layer computes in its epilogue (residual connections).

The vector engine takes its own operand as (result − zero point) << n, so the RESCALE of a narrow
operand must be an exact power of two; where the product is rescaled to int32, it is the operand as
it is. The other operand comes from memory, and has its own RESCALE.
"""

from dataclasses import dataclass

from spec.numerics import SHIFT_MIN
from sw.compiler.tosa.graph import Graph, Op

PRODUCTS = ("CONV2D", "DEPTHWISE_CONV2D", "MATMUL")
"""Operators whose int32 results an epilogue follows."""

MAX_SHIFT = 30 - SHIFT_MIN
"""Largest left shift that a RESCALE can express with a multiplier of 2^30."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sum:
    """`add`, computed by the layer of `product`: its result << shift_left, plus `other`.

    `before`: the product and the operators between it and its operand's RESCALE.
    """

    product: Op
    before: tuple[Op, ...]
    add: Op
    other: str
    shift_left: int


def find_sums(graph: Graph, operand_rescales: dict[str, Op]) -> list[Sum]:
    """Every ADD that can follow one of its operands' products; of two, the later one."""
    finder = _Finder(graph, operand_rescales)
    found = []
    for op in graph.ops:
        if op.kind == "ADD":
            candidates = [finder.sum_behind(op, i) for i in (0, 1)]
            known = [c for c in candidates if c is not None]
            if known:
                found.append(max(known, key=lambda c: finder.place[id(c.product)]))
    return found


class _Finder:
    def __init__(self, graph: Graph, operand_rescales: dict[str, Op]) -> None:
        self.graph, self.operand_rescales = graph, operand_rescales
        self.users, self.producers = graph.consumers(), graph.producers()
        self.place = {id(op): i for i, op in enumerate(graph.ops)}

    def sum_behind(self, add: Op, operand: int) -> Sum | None:
        """`add` behind the product that makes `operand`, if everything between can be fused."""
        name, other = add.inputs[operand], add.inputs[1 - operand]
        rescale = self.operand_rescales.get(name)
        # The other operand is read along with the results, so it must have their shape.
        shapes = {self.graph.tensors[n].shape for n in (name, other)}
        if len(shapes) > 1 or self._only(name) is not add or self._per_channel(add.outputs[0]):
            return None
        if rescale is None:
            before = self._wide(name)
            if not before:
                return None
            return Sum(product=before[-1], before=before, add=add, other=other, shift_left=0)
        if rescale.attributes["input_unsigned"]:
            return None
        shift = self._shift_left(rescale)
        before = () if shift is None else self._product(rescale)
        if not before or shift is None:
            return None
        return Sum(product=before[-1], before=before, add=add, other=other, shift_left=shift)

    def _wide(self, name: str) -> tuple[Op, ...]:
        """(RESCALE, product) that make int32 tensor `name`; () if others do."""
        rescale = self.producers.get(name)
        if rescale is None or rescale.kind != "RESCALE":
            return ()
        if self.graph.tensors[name].dtype != "int32" or rescale.attributes["input_unsigned"]:
            return ()
        before = self.producers.get(rescale.inputs[0])
        if before is None or before.kind not in PRODUCTS:
            return ()
        return (rescale, before) if self._only(rescale.inputs[0]) is rescale else ()

    def _product(self, rescale: Op) -> tuple[Op, ...]:
        """What lies before `rescale`, backwards: CLAMPs, RESCALE to a signed type, product."""
        found: list[Op] = []
        op: Op | None = rescale
        while op is not None:
            name = op.inputs[0]
            reader, op = op, self.producers.get(name)
            if op is None or self._only(name) is not reader:
                return ()
            found.append(op)
            if op.kind == "RESCALE":
                break
            if op.kind != "CLAMP":
                return ()
        assert op is not None
        # The sum takes the product's result without a zero point: the one that the first RESCALE
        # adds must be the one that the second subtracts.
        zero = (op.inputs[4], rescale.inputs[3])
        same = len({int(self.graph.constant(n).reshape(-1)[0]) for n in zero}) == 1
        before = self.producers.get(op.inputs[0])
        if before is None or before.kind not in PRODUCTS or self._only(op.inputs[0]) is not op:
            return ()
        narrow = self.graph.tensors[op.outputs[0]].dtype in ("int8", "int16")
        fits = same and narrow and not op.attributes["output_unsigned"]
        return (*found, before) if fits else ()

    def _only(self, name: str) -> Op | None:
        """The only reader of a tensor that is no graph output."""
        users = self.users[name]
        return users[0] if len(users) == 1 and name not in self.graph.outputs else None

    def _per_channel(self, name: str) -> bool:
        """Whether the sum's own RESCALE needs the parameters that the product's already uses."""
        user = self._only(name)
        return user is not None and user.kind == "RESCALE" and user.attributes["per_channel"]

    def _shift_left(self, rescale: Op) -> int | None:
        """n if the RESCALE multiplies by 2^n exactly, n >= 0."""
        multiplier = int(self.graph.constant(rescale.inputs[1])[0])
        shift = int(self.graph.constant(rescale.inputs[2])[0])
        if multiplier <= 0 or multiplier & (multiplier - 1):
            return None
        left = multiplier.bit_length() - 1 - shift
        return left if 0 <= left <= MAX_SHIFT else None

"""Move a CONCAT behind the elementwise operators that alone read it.

Each operand then has operators of its own, which the layer that makes the operand takes into its
epilogue. Behind the CONCAT they would be layers of their own, that read all of it again.
"""

from collections.abc import Sequence
from dataclasses import replace

from sw.compiler.lower.fusion.sums import PRODUCTS
from sw.compiler.tosa.graph import Graph, Op, Tensor
from sw.compiler.tosa.operators.checker import MAX_TENSORS

_UNARY = ("RESCALE", "CLAMP", "TABLE")
_MAKERS = (*PRODUCTS, *_UNARY, "ADD", "SUB", "MAXIMUM", "MINIMUM", "MUL")
"""Operators whose layers compute what follows them."""

MOST_OPERANDS = 16
"""CONCATs of more operands stay: each would be a layer of few elements."""


def late_concats(graph: Graph) -> None:
    """CONCAT → RESCALE, CLAMP, TABLE, or an ADD with another tensor, as long as one follows."""
    for op in [op for op in graph.ops if op.kind == "CONCAT"]:
        _Mover(graph, op).run()


class _Mover:
    """Moves one CONCAT."""

    def __init__(self, graph: Graph, concat: Op) -> None:
        self.graph, self.concat = graph, concat
        self.axis: int = concat.attributes["axis"]

    def run(self) -> None:
        graph, concat = self.graph, self.concat
        self._flatten()
        if not 1 < len(concat.inputs) <= MOST_OPERANDS or not self._is_worth():
            return
        while (reader := self._only_reader(concat.outputs[0])) is not None:
            if reader.kind in _UNARY and reader.inputs[0] == concat.outputs[0]:
                self._unary(reader)
            elif reader.kind == "ADD" and (other := self._summand(reader)) is not None:
                self._sum(reader, other)
            else:
                return
            graph.ops.remove(concat)
            graph.ops[graph.ops.index(reader)] = concat
            concat.outputs = reader.outputs

    def _flatten(self) -> None:
        """Join the operands of CONCATs that nobody else reads directly."""
        graph, concat = self.graph, self.concat
        makers = {op.outputs[0]: op for op in graph.ops if op.kind == "CONCAT"}
        inputs: list[str] = []
        for left, name in zip(range(len(concat.inputs) - 1, -1, -1), concat.inputs, strict=True):
            inner = makers.get(name)
            same = inner is not None and inner.attributes["axis"] == self.axis
            # One that was joined before may have brought it as an operand of its own.
            alone = self._only_reader(name) is concat and name not in inputs
            few = inner is not None and len(inputs) + len(inner.inputs) + left <= MAX_TENSORS
            if inner is not None and same and alone and few:
                inputs += inner.inputs
                graph.ops.remove(inner)
            else:
                inputs.append(name)
        concat.inputs = inputs

    def _is_worth(self) -> bool:
        """Whether most elements are made by layers that take what follows, for nobody else."""
        graph, total, taken = self.graph, 0, 0
        producers = graph.producers()
        for name in self.concat.inputs:
            tensor, maker = graph.tensors[name], producers.get(name)
            total += tensor.size
            if maker is not None and maker.kind in _MAKERS and self._only_reader(name):
                taken += tensor.size
        return 4 * taken >= 3 * total

    def _only_reader(self, name: str) -> Op | None:
        readers = [op for op in self.graph.ops if name in op.inputs]
        alone = len(readers) == 1 and readers[0].inputs.count(name) == 1
        return readers[0] if alone and name not in self.graph.outputs else None

    def _unary(self, op: Op) -> None:
        """`op` on every operand."""
        start = 0
        for i, name in enumerate(self.concat.inputs):
            stop = start + self.graph.tensors[name].shape[self.axis]
            self.concat.inputs[i] = self._copy(op, [name, *op.inputs[1:]], (start, stop))
            start = stop

    def _copy(self, op: Op, inputs: Sequence[str], part: tuple[int, int]) -> str:
        """`op` of the elements `part` along the axis, before it."""
        graph, result = self.graph, self.graph.tensors[op.outputs[0]]
        shape = list(result.shape)
        shape[self.axis] = part[1] - part[0]
        made = self._tensor(result, tuple(shape))
        inputs = list(inputs)
        if op.attributes.get("per_channel") and self.axis == len(shape) - 1:
            for i in (1, 2):
                data = graph.tensors[inputs[i]]
                inputs[i] = graph.add_constant(
                    f"{made}_{i}", graph.constant(data.name)[slice(*part)], data.dtype
                )
        copied = replace(op, name=made, inputs=inputs, outputs=[made], attributes={**op.attributes})
        graph.ops.insert(graph.ops.index(op), copied)
        return made

    def _tensor(self, like: Tensor, shape: tuple[int, ...]) -> str:
        name = self.graph.fresh_name(f"{like.name}_part")
        return self.graph.add_tensor(replace(like, name=name, shape=shape, data=None))

    def _summand(self, add: Op) -> str | None:
        """The other operand of a sum, if it is a tensor of the same shape, not the CONCAT's."""
        a, b = add.inputs
        other = b if a == self.concat.outputs[0] else a
        shapes = {self.graph.tensors[name].shape for name in add.inputs}
        return other if len(shapes) == 1 and not self.graph.tensors[other].is_constant else None

    def _sum(self, add: Op, other: str) -> None:
        """The sum of each operand and its part of the other tensor, before it is rescaled."""
        graph = self.graph
        rescale = graph.producers().get(other)
        early = (
            rescale is not None
            and rescale.kind == "RESCALE"
            and not rescale.attributes["per_channel"]
            and self._only_reader(other) is add
        )
        start = 0
        for i, name in enumerate(self.concat.inputs):
            size = graph.tensors[name].shape[self.axis]
            part = (start, start + size)
            if early:
                assert rescale is not None
                piece = self._slice(add, rescale.inputs[0], part)
                piece = self._copied_before(add, rescale, piece, part)
            else:
                piece = self._slice(add, other, part)
            inputs = [piece if operand == other else name for operand in add.inputs]
            self.concat.inputs[i] = self._copy(add, inputs, part)
            start += size
        if early:
            assert rescale is not None
            graph.ops.remove(rescale)

    def _copied_before(self, at: Op, op: Op, name: str, part: tuple[int, int]) -> str:
        """A copy of `op` that reads `name`, before operator `at`."""
        made = self._copy(op, [name, *op.inputs[1:]], part)
        copied = next(o for o in self.graph.ops if o.outputs == [made])
        self.graph.ops.remove(copied)
        self.graph.ops.insert(self.graph.ops.index(at), copied)
        return made

    def _slice(self, at: Op, name: str, part: tuple[int, int]) -> str:
        """Elements `part` of a tensor along the axis, before operator `at`."""
        graph, tensor = self.graph, self.graph.tensors[name]
        start, size = [0] * len(tensor.shape), list(tensor.shape)
        start[self.axis], size[self.axis] = part[0], part[1] - part[0]
        made = self._tensor(tensor, tuple(size))
        inputs = [
            name,
            graph.add_constant(f"{made}_start", start, "shape"),
            graph.add_constant(f"{made}_size", size, "shape"),
        ]
        op = Op(kind="SLICE", name=made, inputs=inputs, outputs=[made])
        graph.ops.insert(graph.ops.index(at), op)
        return made

"""A MATMUL of several heads for each of several samples becomes one for each head.

The heads of one sample lie side by side in the channels of a token: a step to the next head is
another one than to the next sample, and a product of both at once needs copies of its operands and
of its result. A product of one head takes the samples in equal steps and reads and writes them
where they lie.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from spec.config import NpuConfig
from sw.compiler.passes.dead_code import remove_dead_code
from sw.compiler.tosa.graph import Graph, Op

START = 100
"""Cycles that a layer takes besides its work."""

_SWAPPED = (0, 2, 1, 3)
"""The order of dimensions that brings heads before or behind tokens."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Heads:
    """A MATMUL with what follows it, up to the TRANSPOSE that brings heads into the channels."""

    chain: list[Op]
    turn: Op
    samples: int
    count: int


def split_heads(graph: Graph, config: NpuConfig) -> None:
    """Every such product whose copies take longer than the layers that come instead."""
    readers, producers = graph.consumers(), graph.producers()
    for op in [op for op in graph.ops if op.kind == "MATMUL"]:
        heads = _heads(graph, readers, op)
        if heads is not None and _is_worth(graph, heads, config):
            _Split(graph, producers, heads).run()
    remove_dead_code(graph)


def _heads(graph: Graph, readers: Mapping[str, Sequence[Op]], product: Op) -> _Heads | None:
    chain = [product]
    while (op := _only_reader(graph, readers, chain[-1])) is not None and op.kind != "RESHAPE":
        if op.kind not in ("MUL", "RESCALE", "CLAMP") or op.attributes.get("per_channel"):
            return None
        chain.append(op)
    turn = None if op is None else _only_reader(graph, readers, op)
    if op is None or turn is None or turn.kind != "TRANSPOSE":
        return None
    shape, before = graph.tensors[op.outputs[0]].shape, graph.tensors[chain[-1].outputs[0]].shape
    swapped = tuple(turn.attributes["perms"]) == _SWAPPED
    if not swapped or shape[2:] != before[1:] or min(shape[:2]) < 2:
        return None
    return _Heads(chain=chain, turn=turn, samples=shape[0], count=shape[1])


def _only_reader(graph: Graph, readers: Mapping[str, Sequence[Op]], op: Op) -> Op | None:
    (name,) = op.outputs
    users = readers.get(name, ())
    alone = len(users) == 1 and name not in graph.outputs
    return users[0] if alone and users[0].inputs.count(name) == 1 else None


def _is_worth(graph: Graph, heads: _Heads, config: NpuConfig) -> bool:
    copied = 2 * graph.tensors[heads.turn.outputs[0]].nbytes / config.bus_bytes
    return copied > heads.count * START


@dataclass(slots=True)
class _Split:
    graph: Graph
    producers: Mapping[str, Op]
    heads: _Heads

    def run(self) -> None:
        """Put the products of each head in the place of that of all."""
        graph, heads = self.graph, self.heads
        made: list[Op] = []
        parts = [self._part(head, made) for head in range(heads.count)]
        (result,) = heads.turn.outputs
        whole = graph.tensors[result]
        joined = self._add(made, "CONCAT", parts, result, (*whole.shape[:2], -1), {"axis": 2})
        shape = graph.add_constant(f"{result}_shape", list(whole.shape), "shape")
        made.append(replace(heads.turn, kind="RESHAPE", inputs=[joined, shape], attributes={}))
        at = graph.ops.index(heads.chain[-1]) + 1
        graph.ops[at:at] = made
        graph.ops.remove(heads.turn)

    def _part(self, head: int, made: list[Op]) -> str:
        """The chain for one head; its result."""
        product, *behind = self.heads.chain
        results = {op.outputs[0] for op in self.heads.chain}
        # A layer takes what is there before its product.
        others = [
            [x if x in results else self._other(x, head, made) for x in op.inputs] for op in behind
        ]
        a, b, *rest = product.inputs
        inputs = [self._rows(a, head, made), self._columns(b, head, made), *rest]
        name = self._copied(product, inputs, made)
        for op, operands in zip(behind, others, strict=True):
            name = self._copied(op, [name if x in results else x for x in operands], made)
        return name

    def _copied(self, op: Op, inputs: list[str], made: list[Op]) -> str:
        whole = self.graph.tensors[op.outputs[0]]
        shape = (self.heads.samples, *whole.shape[1:])
        return self._add(made, op.kind, inputs, whole.name, shape, dict(op.attributes), op)

    def _other(self, name: str, head: int, made: list[Op]) -> str:
        """Another operand of what follows the product: of each row, or one for all."""
        batch = self.heads.samples * self.heads.count
        whole = self.graph.tensors[name].shape[:1] == (batch,)
        return self._rows(name, head, made) if whole else name

    def _rows(self, name: str, head: int, made: list[Op]) -> str:
        """One head of a tensor [samples · heads, …]."""
        samples, count = self.heads.samples, self.heads.count
        rest = self.graph.tensors[name].shape[1:]
        apart = self._reshaped(made, name, (samples, count, *rest))
        part = self._slice(made, apart, 1, head)
        return self._reshaped(made, part, (samples, *rest))

    def _columns(self, name: str, head: int, made: list[Op]) -> str:
        """The same of the other factor, from before a TRANSPOSE that took its heads out of the
        channels.
        """
        graph, op = self.graph, self.producers.get(name)
        turn = self.producers.get(op.inputs[0]) if op is not None and op.kind == "RESHAPE" else None
        if turn is None or turn.kind != "TRANSPOSE" or tuple(turn.attributes["perms"]) != _SWAPPED:
            return self._rows(name, head, made)
        source = graph.tensors[turn.inputs[0]]
        if (source.shape[0], source.shape[2]) != (self.heads.samples, self.heads.count):
            return self._rows(name, head, made)
        part = self._slice(made, source.name, 2, head)
        return self._reshaped(made, part, (source.shape[0], source.shape[1], source.shape[3]))

    # New operators ------------------------------------------------------------------------------

    def _reshaped(self, made: list[Op], name: str, shape: Sequence[int]) -> str:
        target = self.graph.add_constant(f"{name}_heads_shape", list(shape), "shape")
        return self._add(made, "RESHAPE", [name, target], name, shape, {})

    def _slice(self, made: list[Op], name: str, axis: int, at: int) -> str:
        size = [*self.graph.tensors[name].shape]
        start = [0] * len(size)
        start[axis], size[axis] = at, 1
        bounds = [
            self.graph.add_constant(f"{name}_head_{label}", values, "shape")
            for label, values in (("start", start), ("size", size))
        ]
        return self._add(made, "SLICE", [name, *bounds], name, size, {})

    def _add(
        self, made: list[Op], kind: str, inputs: Sequence[str], like: str, shape: Sequence[int],
        attributes: dict[str, object], source: Op | None = None,
    ) -> str:  # fmt: skip
        """An operator whose result is as tensor `like` but for its shape; −1: what is left."""
        graph = self.graph
        tensor = graph.tensors[like]
        known = math.prod(n for n in shape if n > 0)
        size = tuple(n if n > 0 else tensor.size // known for n in shape)
        name = graph.fresh_name(f"{like}_head")
        graph.add_tensor(replace(tensor, name=name, shape=size, data=None))
        made.append(
            Op(
                kind=kind,
                name=name,
                inputs=list(inputs),
                outputs=[name],
                attributes=attributes,
                source=(source or self.heads.turn).source,
            )
        )
        return name

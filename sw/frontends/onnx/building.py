"""A graph of ONNX's operators that is written down node by node, without the package `onnx`.

Formats whose operators are ONNX's by other names become modules this way: the walk folds constants,
checks each node on tensors without data, and names what does not fit.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor as T

from sw.frontends.onnx.biases import join_biases
from sw.frontends.onnx.errors import refused
from sw.frontends.onnx.module import GraphModule, module_class
from sw.frontends.onnx.node import VERSION, Node
from sw.frontends.onnx.operators.table import OPERATORS
from sw.frontends.onnx.walk import Walk

Operand = Any
"""The name of a value, None for one that is left out, or a constant: numbers, or a tensor."""


class Building:
    """`add` writes down a node and names its results; `module` is the graph.

    inputs: tensors of their shapes and types, by name. known: constants, by name. place: what nodes
    are called that are written down next.
    """

    def __init__(self, inputs: Mapping[str, T], known: Mapping[str, T] | None = None) -> None:
        self.walk = Walk(known or {}, inputs, ())
        self.inputs = list(inputs)
        self.place = ""
        self._count = 0

    def open(self, name: str, shape: Sequence[int], dtype: torch.dtype) -> None:
        """Take a value as an input, of whatever makes it."""
        self.walk.open(name, shape, dtype)

    def hold(self, value: Any) -> str:
        """The name of a new constant."""
        tensor = value if isinstance(value, T) else torch.from_numpy(np.array(value))
        name = self._new("constant")
        self.walk.known[name] = self.walk.values[name] = tensor
        return name

    def value(self, name: str) -> T:
        """What is known of a value: its shape and type, and its numbers where it is constant."""
        return self.walk.values[name]

    def shape(self, name: str) -> tuple[int, ...]:
        return tuple(self.walk.values[name].shape)

    def constant(self, name: str) -> T | None:
        """The value where no input reaches it."""
        return self.walk.known.get(name, self.walk.real.get(name))

    def add(self, kind: str, *operands: Operand, results: int = 1, **attributes: Any) -> Any:
        """The name of a node's result, or of several. `OnnxError` where it cannot be computed."""
        names = ["" if o is None else o if isinstance(o, str) else self.hold(o) for o in operands]
        made = tuple(self._new(kind) for _ in range(results))
        fixed = [i for i, name in enumerate(names) if self.constant(name) is not None]
        node = Node(
            name=self.place or made[0],
            op=kind,
            inputs=tuple(names),
            outputs=made,
            attributes=attributes,
            version=VERSION,
            fixed=frozenset(fixed),
        )
        self.walk.take(node, OPERATORS[kind])
        for name in made:
            if name not in self.walk.values:
                raise refused(f"{kind} gives fewer results than {results}")
        return made[0] if results == 1 else made

    def module(self, outputs: Sequence[str]) -> GraphModule:
        """The module that computes these values."""
        return module_of(self.walk, self.inputs, outputs)

    def _new(self, kind: str) -> str:
        self._count += 1
        return f"{self.place or kind.lower()}/{self._count}"


def module_of(walk: Walk, inputs: Sequence[str], outputs: Sequence[str]) -> GraphModule:
    """The module of a graph that has been walked over."""
    steps = join_biases(walk.steps, walk.known, outputs)
    read = {name for step in steps for name in step.reads} | set(outputs)
    used = {name: tensor for name, tensor in walk.known.items() if name in read}
    return module_class(list(inputs))(steps, used, list(inputs), list(outputs))

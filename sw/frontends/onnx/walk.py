"""The walk over a graph at load time: constants are folded, operands bound, shapes inferred.

Steps run once on tensors without data, so that a node that does not fit is found and named here,
and so that whatever is computed from shapes is a constant.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor as T
from torch._subclasses.fake_tensor import FakeTensorMode

from sw.frontends.onnx.errors import OnnxError
from sw.frontends.onnx.functions import expanded, is_function
from sw.frontends.onnx.microsoft.writer import FUNCTIONS
from sw.frontends.onnx.module import Step
from sw.frontends.onnx.node import VERSION, Node, attributes_of
from sw.frontends.onnx.operators.attention import is_plain
from sw.frontends.onnx.operators.operator import KEEP, SHAPE, Operator
from sw.frontends.onnx.operators.table import OPERATORS
from sw.frontends.onnx.reading import CONTROL, DOMAINS
from sw.frontends.onnx.types import number_of


class Walk:
    """What is known of a graph's values so far, by name.

    known: constants. real: what is kept as steps although it is constant. values: all of them,
    those that inputs reach without data. sources: the inputs that a value is computed from.
    position: of the graph's node that is visited.
    """

    def __init__(
        self, known: Mapping[str, T], inputs: Mapping[str, T], shifted: Iterable[str]
    ) -> None:
        self.mode = FakeTensorMode(allow_non_fake_inputs=True)
        self.known = dict(known)
        self.real: dict[str, T] = {}
        self.values: dict[str, T] = dict(known)
        self.sources: dict[str, frozenset[str]] = {}
        self.shifted = frozenset(shifted)
        self.steps: list[Step] = []
        self.position = 0
        for name, tensor in inputs.items():
            self.open(name, tensor.shape, tensor.dtype)

    def open(self, name: str, shape: Sequence[int], dtype: torch.dtype) -> None:
        """Take a value as an input."""
        with self.mode:
            self.values[name] = torch.empty(tuple(shape), dtype=dtype)
        self.sources[name] = frozenset([name])

    def visit(self, proto: Any, version: int) -> None:
        """A node: a constant, a step, or the nodes that it is made of."""
        version = VERSION if proto.domain == FUNCTIONS else version
        node = self._node(proto, version)
        row = OPERATORS.get(node.op) if proto.domain in (*DOMAINS, FUNCTIONS) else None
        if row is not None and node.op == "Attention" and not is_plain(node):
            row = None
        try:
            if node.op == "If":
                self._branch(node, version)
            elif row is not None:
                self._computed(node, row)
            elif is_function(proto, version):
                nodes, inside = expanded(proto, version, [self._type(n) for n in node.inputs])
                for each in nodes:
                    self.visit(each, inside)
            else:
                self._refuse(node)
        except OnnxError as error:
            raise node.located(error) from error.__cause__

    def take(self, node: Node, row: Operator) -> None:
        """A node that is no proto."""
        try:
            self._computed(node, row)
        except OnnxError as error:
            raise node.located(error) from error.__cause__

    def _node(self, proto: Any, version: int) -> Node:
        inputs, outputs = tuple(proto.input), tuple(proto.output)
        place = {"node": proto.name or next(iter(outputs), ""), "operator": proto.op_type}
        try:
            attributes = attributes_of(proto, {})
        except OnnxError as error:
            raise error.at(**place) from None
        fixed = [i for i, n in enumerate(inputs) if n in self.known or n in self.real]
        return Node(
            name=place["node"],
            op=proto.op_type,
            inputs=inputs,
            outputs=outputs,
            attributes=attributes,
            version=version,
            shifted=self.shifted,
            fixed=frozenset(fixed),
        )

    def _refuse(self, node: Node) -> None:
        if node.op in CONTROL:
            raise OnnxError(
                "control flow, which a program of fixed length does not have",
                hint="export the model with the loop unrolled",
            )
        raise OnnxError(f"operator {node.op} is not supported", hint="export the model without it")

    def _branch(self, node: Node, version: int) -> None:
        """The branch of an If whose condition is known."""
        condition = self.known.get(node.inputs[0])
        if condition is None:
            raise OnnxError(
                f"control flow by {node.inputs[0]!r}, which is computed from inputs",
                hint="export the model with one branch, or with Where",
            )
        graph = node.attributes["then_branch" if condition.item() else "else_branch"]
        from onnx import helper

        from sw.frontends.onnx.types import tensor_of

        for each in graph.initializer:
            self.known[each.name] = self.values[each.name] = tensor_of(each)
        for each in graph.node:
            self.visit(each, version)
        for inner, outer in zip(graph.output, node.outputs, strict=True):
            self.visit(helper.make_node("Identity", [inner.name], [outer]), version)

    def _type(self, name: str) -> Any:
        from onnx import TypeProto, helper

        if not name:
            return TypeProto()
        value = self.values[name]
        return helper.make_tensor_type_proto(number_of(value.dtype), list(value.shape))

    def _computed(self, node: Node, row: Operator) -> None:
        for name in node.inputs:
            if name and name not in self.values:
                raise OnnxError(f"operand {name!r} is made by no node", hint="mend the model")
        if row.constants == SHAPE:
            shapes = [torch.empty(self.values[n].shape, dtype=self.values[n].dtype, device="meta")
                      for n in node.inputs]  # fmt: skip
            self._fold(node, self._run(node, row.function, shapes))
            return
        bound = [self._operand(node, row, i, name) for i, name in enumerate(node.inputs)]
        step = Step(node, row.function, bound, self.position)
        constant = len(node.fixed) == sum(map(bool, node.inputs))
        if constant:
            args = [self._constant(name) for name in step.reads]
            made = self._run(node, step, args)
            if row.constants != KEEP and not any(n in self.real for n in node.inputs):
                self._fold(node, made)
                return
            self.real.update(_named(node, made))
        with self.mode:
            made = self._run(node, step, [self.values[name] for name in step.reads])
        self.values.update(_named(node, made))
        sources = frozenset[str]().union(*(self.sources.get(n, ()) for n in step.reads))
        self.sources.update(dict.fromkeys(node.outputs, sources))
        self.steps.append(step)

    def _operand(self, node: Node, row: Operator, position: int, name: str) -> Any:
        if not name:
            return None
        constant = self.known.get(name, self.real.get(name))
        if position in row.static:
            if constant is None:
                raise self._not_constant(name)
            return _array(constant)
        if constant is None or constant.dtype is torch.bfloat16:
            return name
        single = position in row.numbers and constant.numel() == 1
        return _array(constant) if single or position in row.arrays else name

    def _not_constant(self, name: str) -> OnnxError:
        sources = sorted(self.sources.get(name, ()))
        names = ", ".join(map(repr, sources))
        return OnnxError(
            f"operand {name!r} must be a constant, and is computed from input {names}",
            hint=f"give the value: load_onnx(…, constants={{{sources[0]!r}: …}})"
            if sources
            else "make it an initializer",
            inputs=sources,
        )

    def _constant(self, name: str) -> T:
        return self.known[name] if name in self.known else self.real[name]

    def _fold(self, node: Node, made: tuple[T, ...]) -> None:
        found = _named(node, made)
        self.known.update(found)
        self.values.update(found)

    def _run(self, node: Node, function: Any, args: list[T]) -> tuple[T, ...]:
        """The results of a node; whatever goes wrong becomes an `OnnxError`."""
        try:
            with torch.no_grad():
                made = function(*args) if isinstance(function, Step) else function(node, *args)
        except (OnnxError, MemoryError):
            raise
        except Exception as error:
            shapes = ", ".join(f"{a.dtype}{list(a.shape)}".removeprefix("torch.") for a in args)
            first = (str(error).strip().splitlines() or [repr(error)])[0]
            raise OnnxError(
                f"PyTorch cannot compute it of {shapes}: {first}"[:300],
                hint="check the shapes and types of the model's inputs",
            ) from error
        node.require_all_seen()
        return made if isinstance(made, tuple) else (made,)


def _array(constant: T) -> Any:
    if constant.dtype is torch.bfloat16:
        raise OnnxError("a constant operand of type BFLOAT16", hint="store it as FLOAT")
    return constant.detach().numpy()


def _named(node: Node, made: tuple[T, ...]) -> dict[str, T]:
    return {name: value for name, value in zip(node.outputs, made, strict=False) if name}

"""What a rule writes down in place of a node."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from sw.frontends.onnx.errors import refused

FUNCTIONS = "pytorch.operators"
"""The domain of nodes that mean what the table of operators has, whatever the model's opset is."""


class Writer:
    """Nodes in place of one node of `com.microsoft`; the last one has its results' names.

    attributes: the node's; one that no rule asks for is refused by `require_all_seen`. read: the
    operators that read each value; of an output of the graph "" does.
    """

    def __init__(
        self, node: Any, attributes: Mapping[str, Any], read: Mapping[str, Collection[str]]
    ) -> None:
        self.node = node
        self._read = read
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self._attributes = dict(attributes)
        self._seen: set[str] = set()
        self._prefix = next(name for name in node.output if name)

    def get(self, name: str, default: Any = None) -> Any:
        """An attribute, or the default where it is not given."""
        self._seen.add(name)
        return self._attributes.get(name, default)

    def only(self, name: str, *supported: Any) -> None:
        """`OnnxError` unless the attribute has one of the values, of which the first is usual."""
        value = self.get(name, supported[0])
        if value not in supported:
            known = ", ".join(map(str, supported))
            raise refused(f"attribute {name} is {value!r}, not {known}")

    def take(self, *names: str) -> dict[str, Any]:
        """Those of the attributes that are given, for a node that has them too."""
        self._seen.update(names)
        return {name: self._attributes[name] for name in names if name in self._attributes}

    def require_all_seen(self) -> None:
        for name, value in self._attributes.items():
            if name not in self._seen:
                raise refused(f"attribute {name} ({value!r}) is not supported")

    def inputs(self, count: int, least: int) -> list[str]:
        """The node's operands, empty where one is left out; `OnnxError` for another number."""
        given = list(self.node.input)
        if not least <= len(given) <= count or not all(given[:least]):
            raise refused(f"{len(given)} operands, of {least} to {count}", "export it again")
        return [*given, *[""] * (count - len(given))]

    def result(self, position: int = 0) -> str:
        """The name of a result; empty where nobody wants it."""
        name = self.node.output[position] if position < len(self.node.output) else ""
        return name if name in self._read else ""

    def readers(self, position: int) -> set[str]:
        """The operators that read a result."""
        return set(self._read.get(self.result(position), ()))

    def unwanted(self, *positions: int) -> None:
        """`OnnxError` for a result that is not written down."""
        for position in positions:
            if self.result(position):
                raise refused(f"result {position} ({self.result(position)!r}) is not supported")

    def add(
        self, op: str, *inputs: str, to: str = "", domain: str = FUNCTIONS, **attributes: Any
    ) -> str:
        """The name of a new node's result: `to`, or a new one. `to_` is the attribute `to`."""
        return self.many(op, inputs, (to or self._new(op),), domain, **attributes)[0]

    def many(
        self,
        op: str,
        inputs: Sequence[str],
        results: Sequence[str],
        domain: str = FUNCTIONS,
        **attributes: Any,
    ) -> Sequence[str]:
        """The same of a node with several results."""
        from onnx import helper

        given = list(inputs)
        while given and not given[-1]:
            given.pop()
        node = helper.make_node(
            op, given, list(results), name=f"{self._prefix}/{len(self.nodes)}", domain=domain
        )
        node.attribute.extend(
            helper.make_attribute(name.rstrip("_"), value) for name, value in attributes.items()
        )
        self.nodes.append(node)
        return results

    def names(self, op: str, count: int) -> list[str]:
        """New names."""
        return [f"{self._new(op)}.{i}" for i in range(count)]

    def hold(self, values: Any, dtype: str = "float32") -> str:
        """The name of a new constant."""
        import numpy as np
        from onnx import numpy_helper

        name = f"{self._prefix}/constant{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.array(values, dtype), name))
        return name

    def _new(self, op: str) -> str:
        return f"{self._prefix}/{op.lower()}{len(self.nodes)}"

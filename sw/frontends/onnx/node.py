"""A node of the graph as the functions of operators see it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sw.frontends.onnx.errors import OnnxError, refused
from sw.frontends.onnx.types import tensor_of

VERSION = 20
"""Of the operator set whose meaning nodes have that no file has written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """Operator, names of its values (empty: left out) and attributes.

    version: of the operator set that the node was written for. shifted: the values of the graph
    that are uint8 and computed with as int8, 128 less. fixed: the operands that are constants.
    seen: the attributes that were asked for.
    """

    name: str
    op: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Any]
    version: int
    shifted: frozenset[str] = frozenset()
    fixed: frozenset[int] = frozenset()
    seen: set[str] = field(default_factory=set)

    def get(self, name: str, default: Any = None) -> Any:
        """An attribute, or the default where it is not given."""
        self.seen.add(name)
        return self.attributes.get(name, default)

    def ignore(self, *names: str) -> None:
        """Attributes that change nothing in inference."""
        self.seen.update(names)

    def only(self, name: str, *supported: Any) -> Any:
        """An attribute that has one of the values; the first is the default."""
        value = self.get(name, supported[0])
        if value not in supported:
            known = ", ".join(map(str, supported))
            raise refused(
                f"attribute {name} is {value!r}", f"export the model with {name} of {known}"
            )
        return value

    def wants(self, position: int) -> bool:
        """Whether the result at `position` has a name."""
        return position < len(self.outputs) and bool(self.outputs[position])

    def require_all_seen(self) -> None:
        """`OnnxError` for an attribute that the function did not ask for."""
        for name, value in self.attributes.items():
            if name not in self.seen:
                raise refused(f"attribute {name} ({value!r}) is not supported")

    def located(self, error: OnnxError) -> OnnxError:
        return error.at(node=self.name, operator=self.op)


def attributes_of(proto: Any, given: Mapping[str, Any]) -> dict[str, Any]:
    """The attributes of a node: numbers, texts, tensors, lists of them, graphs as they are.

    given: what a function was called with, for attributes that refer to it.
    """
    from onnx import AttributeProto, helper

    found: dict[str, Any] = {}
    for each in proto.attribute:
        if each.ref_attr_name:
            if each.ref_attr_name in given:
                found[each.name] = given[each.ref_attr_name]
            continue
        value = helper.get_attribute_value(each)
        if each.type == AttributeProto.STRING:
            value = value.decode(errors="replace")
        elif each.type == AttributeProto.STRINGS:
            value = [text.decode(errors="replace") for text in value]
        elif each.type == AttributeProto.TENSOR:
            value = tensor_of(value)
        elif each.type in (AttributeProto.INTS, AttributeProto.FLOATS):
            value = list(value)
        found[each.name] = value
    return found


def reads_of(node: Any) -> set[str]:
    """What a node (a NodeProto) reads, in its branches too."""
    inner = (each for attribute in node.attribute for each in attribute.g.node)
    return set(node.input).union(*map(reads_of, inner)) - {""}

"""Operators that ONNX itself defines by others: taken apart as its standard says."""

from collections.abc import Mapping, Sequence
from typing import Any


def _schema(node: Any, version: int) -> Any:
    from onnx import defs

    try:
        return defs.get_schema(node.op_type, version, node.domain)
    except Exception:  # onnx raises its own SchemaError, which it does not export
        return None


def is_function(node: Any, version: int) -> bool:
    """Whether the standard defines a node's operator by others."""
    schema = _schema(node, version)
    if schema is None:
        return False
    return bool(schema.has_function or schema.has_context_dependent_function)


def expanded(node: Any, version: int, types: Sequence[Any]) -> tuple[list[Any], int]:
    """(nodes that compute the same, version of the operator set that they are of).

    node: a NodeProto. types: a TypeProto for each of its operands. Names inside begin with the
    name of the node's first result; attributes are the node's own.
    """
    from onnx import FunctionProto

    schema = _schema(node, version)
    body = FunctionProto()
    if schema.has_function:
        best = _best(schema.function_opset_versions, version)
        body.ParseFromString(schema.get_function_with_opset_version(best))
    else:
        best = _best(schema.context_dependent_function_opset_versions, version)
        serialized = [each.SerializeToString() for each in types]
        body.ParseFromString(
            schema.get_context_dependent_function_with_opset_version(
                best, node.SerializeToString(), serialized
            )
        )
    inside = next((int(i.version) for i in body.opset_import if not i.domain), version)
    return _renamed(node, body, schema), inside


def _best(versions: Sequence[int], wanted: int) -> int:
    return max((v for v in versions if v <= wanted), default=min(versions))


def _renamed(node: Any, body: Any, schema: Any) -> list[Any]:
    from onnx import NodeProto

    given = {each.name: each for each in node.attribute}
    for name, each in schema.attributes.items():
        if name not in given and each.default_value.name:
            given[name] = each.default_value
    given |= {each.name: each for each in body.attribute_proto if each.name not in given}
    names = dict(zip(body.input, [*node.input, *[""] * len(body.input)], strict=False))
    names |= {inner: outer for inner, outer in zip(body.output, node.output, strict=False) if outer}
    prefix = next(name for name in node.output if name)
    nodes = []
    for each in body.node:
        copy = NodeProto()
        copy.CopyFrom(each)
        copy.name = f"{node.name or prefix}/{each.name or each.output[0]}"
        _rename(copy, names, prefix)
        _resolve(copy, given)
        nodes.append(copy)
    return nodes


def _rename(node: Any, names: Mapping[str, str], prefix: str) -> None:
    """Give the values of a node and of its branches their names outside."""
    for row in (node.input, node.output):
        renamed = [names.get(n, f"{prefix}/{n}") if n else "" for n in row]
        del row[:]
        row.extend(renamed)
    for attribute in node.attribute:
        for each in attribute.g.output:
            each.name = names.get(each.name, f"{prefix}/{each.name}")
        for each in attribute.g.node:
            _rename(each, names, prefix)


def _resolve(node: Any, given: Mapping[str, Any]) -> None:
    """Put the function's attributes where a node of its body refers to them."""
    kept = []
    for each in node.attribute:
        if each.ref_attr_name and each.ref_attr_name in given:
            name = each.name
            each.CopyFrom(given[each.ref_attr_name])
            each.name = name
        if not each.ref_attr_name:
            kept.append(each)
    del node.attribute[:]
    node.attribute.extend(kept)

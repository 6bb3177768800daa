"""`graph.nnef` by Khronos' parser, in a process of its own: damaged texts end that."""

import json
import re
from collections.abc import Mapping
from typing import Any

from sw.frontends.apart import ApartError, answer, question, reply
from sw.frontends.nnef.errors import NnefError
from sw.frontends.nnef.records import Contents, Operation, Ref

_CHILD = "from sw.frontends.nnef.parsing import child; child()"
_SECONDS = 60
_MEND = "the file is damaged: export the model again"

LOWERED = (
    "separable_conv", "separable_deconv", "rms_pool", "local_mean_normalization",
    "local_variance_normalization", "local_contrast_normalization", "l1_normalization",
    "l2_normalization", "moments", "softabs", "log2", "rsqr",
)  # fmt: skip
"""Operations that the parser takes apart by the language's own definitions, as it does fragments
that the text defines."""


def parse(text: bytes, quantization: bytes | None) -> Contents:
    """The records of a graph. `NnefError` if it cannot be parsed, however that ends."""
    try:
        texts = [text.decode(), None if quantization is None else quantization.decode()]
    except UnicodeDecodeError as error:
        raise NnefError(f"it is no text: {error.reason}", hint=_MEND) from None
    try:
        found = answer(_CHILD, json.dumps(texts).encode(), _SECONDS)
    except ApartError as error:
        raise NnefError(f"the parser of NNEF {error}", hint=_MEND) from None
    if isinstance(found, dict):
        raise NnefError(**found)
    assert isinstance(found, Contents)
    return found


def child() -> None:
    """Read the texts from standard input, and send the records, or the error."""
    text, quantization = json.loads(question())
    found: Contents | dict[str, str]
    try:
        import nnef
    except ImportError as error:
        hint = "pip install 'systola[nnef]'"
        reply({"reason": f"the package nnef is needed ({error})", "hint": hint})
        return
    try:
        own = re.findall(r"\bfragment\s+(\w+)", text)
        graph = nnef.parse_string(text, quantization, lowered=[*LOWERED, *own])
        found = _contents(graph, nnef.Identifier)
    except Exception as error:  # what the parser raises, and what its answers lack
        lines = str(error).strip().splitlines() or [type(error).__name__]
        found = {"reason": f"it cannot be parsed: {lines[0][:200]}", "hint": "mend that line"}
    reply(found)


def _contents(graph: Any, identifier: type) -> Contents:
    return Contents(
        name=str(graph.name),
        inputs=tuple(map(str, graph.inputs)),
        outputs=tuple(map(str, graph.outputs)),
        operations=tuple(
            Operation(
                kind=str(each.name),
                attributes=_plain(each.attribs, identifier),
                inputs=_plain(each.inputs, identifier),
                outputs=_plain(each.outputs, identifier),
                dtype=str(each.dtype or ""),
            )
            for each in graph.operations
        ),
        quantized=tuple(str(n) for n, t in graph.tensors.items() if t.quantization),
    )


def _plain(value: Any, identifier: type) -> Any:
    """Without the parser's classes."""
    if isinstance(value, Mapping):
        return {str(name): _plain(each, identifier) for name, each in value.items()}
    if isinstance(value, tuple):
        return tuple(_plain(each, identifier) for each in value)
    if isinstance(value, list):
        return [_plain(each, identifier) for each in value]
    if isinstance(value, identifier):
        return Ref(name=str(value))
    if isinstance(value, str):
        return str(value)
    return value.tolist() if hasattr(value, "tolist") else value

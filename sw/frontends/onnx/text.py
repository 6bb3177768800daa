"""Text of a file that is none: names, domains and operators that are not UTF-8."""

from collections.abc import Iterator
from typing import Any

from sw.frontends.onnx.errors import OnnxError

_STRING, _MESSAGE = 9, 11
"""Types of fields, by protobuf's descriptor.proto. A string that is no UTF-8 is read as bytes."""


def require_text(model: Any, file: str) -> None:
    """`OnnxError` for the first string of a ModelProto that is not UTF-8."""
    for place, value in _strings(model, ""):
        if isinstance(value, bytes):
            shown = value[:40].decode(errors="backslashreplace")
            raise OnnxError(
                f"not a valid model: {place} is no text: '{shown}' is not UTF-8",
                file=file,
                hint="copy the file again",
            )


def _strings(message: Any, place: str) -> Iterator[tuple[str, str | bytes]]:
    for field, value in message.ListFields():
        if field.type not in (_STRING, _MESSAGE):
            continue
        here = f"{place}.{field.name}" if place else field.name
        many = not isinstance(value, (str, bytes)) and hasattr(value, "__len__")
        for index, each in enumerate(value if many else (value,)):
            at = f"{here}[{index}]" if many else here
            if field.type == _MESSAGE:
                yield from _strings(each, at)
            else:
                yield at, each

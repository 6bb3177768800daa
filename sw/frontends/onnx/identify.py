"""Whether a file is an ONNX model: by its content."""

from collections.abc import Iterator
from pathlib import Path
from typing import IO

_GRAPH, _VERSION = 7, 1
_FIELDS = {1: 0, 5: 0, **dict.fromkeys((2, 3, 4, 6, 7, 8, 14, 20, 25, 26), 2)}
"""Fields of a ModelProto and their wire types: 0 a number, 2 bytes with a length."""


def is_onnx(path: str | Path) -> bool:
    """Whether the file's content is an ONNX model; its name does not matter.

    Only the outermost fields are read, so that a file of gigabytes takes no longer than a small
    one, and the package `onnx` is not needed.
    """
    try:
        with Path(path).open("rb") as file:
            size = file.seek(0, 2)
            file.seek(0)
            found = list(_fields(file, size))
    except (OSError, ValueError):
        return False
    return _GRAPH in found and _VERSION in found


def _fields(file: IO[bytes], size: int) -> Iterator[int]:
    """The numbers of a message's fields; `ValueError` for what no ModelProto has."""
    while file.tell() < size:
        tag = _number(file)
        field, kind = tag >> 3, tag & 7
        if _FIELDS.get(field) != kind:
            raise ValueError(field)
        value = _number(file)
        if kind == 2 and file.seek(value, 1) > size:
            raise ValueError(field)
        yield field


def _number(file: IO[bytes]) -> int:
    value = 0
    for shift in range(0, 70, 7):
        byte = file.read(1)
        if not byte:
            break
        value |= (byte[0] & 127) << shift
        if byte[0] < 128:
            return value
    raise ValueError("no number")

"""The classes and names of LiteRT's schema, from package `tflite`, which is imported when used."""

from functools import cache
from typing import Any

from sw.frontends.litert.errors import LiteRtError

VERSION = 3
"""Of the schema: the only one since files have the identifier TFL3."""

TYPES = (
    *("FLOAT32", "FLOAT16", "FLOAT64", "INT4", "INT8"),
    *("UINT8", "INT16", "INT32", "INT64", "BOOL"),
)
"""Types of tensors that are taken; in lower case they are NumPy's names."""


@cache
def _package() -> Any:
    import tflite

    return tflite


def tflite(file: str) -> Any:
    """Package `tflite`. `LiteRtError` where it is not installed."""
    try:
        return _package()
    except ImportError:
        raise LiteRtError(
            "LiteRT files are read with the package tflite, which is not installed",
            file=file,
            hint="pip install 'systola[tflite]'",
        ) from None


@cache
def names(kind: str) -> dict[int, str]:
    """Names of the members of an enumeration of the schema, by their codes."""
    members = vars(getattr(_package(), kind)).items()
    return {value: name for name, value in members if isinstance(value, int)}


def no_options(name: str) -> Any:
    """Options of class `name` with all values as the schema has them by default."""
    options = getattr(_package(), name)()
    options.Init(_EMPTY, 4)
    return options


_EMPTY = b"\x04\x00\x04\x00\x04\x00\x00\x00"
"""A flatbuffer's table without fields: its vtable (of 4 bytes), and at 4 the way back to it."""

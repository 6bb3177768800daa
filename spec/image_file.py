"""The file of a program image: safetensors, read and written without its package."""

import json
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spec.available import require_memory
from spec.errors import SystolaError

_MAX_HEADER = 64 << 20


class ImageError(SystolaError, ValueError):
    """An image that is cut off, malformed, or made for another machine."""


def is_whole(value: object) -> bool:
    """An int of at most 64 bits; True and False are none."""
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) < 1 << 64


def shown(value: object) -> str:
    """A value for a message, cut off where it is long."""
    try:
        text = repr(value)
    except ValueError:  # whole numbers of thousands of digits have no text
        text = "of thousands of digits"
    return text if len(text) <= 80 else f"{text[:77]}..."


def cut(text: object) -> str:
    """A text for a message, cut off where it is long."""
    out = str(text)
    return out if len(out) <= 200 else f"{out[:197]}..."


def file_bytes(tensors: Mapping[str, NDArray[np.uint8]], meta: Mapping[str, str]) -> bytes:
    """The content of such a file."""
    header: dict[str, Any] = {"__metadata__": dict(meta)}
    at = 0
    for name, data in tensors.items():
        header[name] = {"dtype": "U8", "shape": [data.size], "data_offsets": [at, at + data.size]}
        at += data.size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    body = (np.ascontiguousarray(data, np.uint8).tobytes() for data in tensors.values())
    return b"".join((struct.pack("<Q", len(text)), text, *body))


def write_file(path: Path, data: bytes) -> None:
    """Write atomically: a reader sees the old file or the new one."""
    temporary = path.with_name(path.name + ".part")
    temporary.write_bytes(data)
    temporary.replace(path)


def read_file(path: Path) -> bytes:
    """What the file holds; `ImageError` where it cannot be read."""
    try:
        size = path.stat().st_size
        if not path.is_file() and size == 0:
            raise ImageError(f"{path}: cannot read: it is no file")
        require_memory(2 * size, f"{path}: reading it")
        return path.read_bytes()
    except (OSError, ValueError) as error:
        if isinstance(error, ImageError):
            raise
        text = getattr(error, "strerror", None) or error
        raise ImageError(f"{path}: cannot read: {text}") from None


def parse_file(
    data: bytes, path: str | Path
) -> tuple[dict[str, NDArray[np.uint8]], dict[str, str]]:
    """(tensors, metadata) of a file's content. path: its name, for messages."""
    if len(data) < 8:
        raise ImageError(f"{path}: {len(data)} bytes: too short for a program image (cut off?)")
    (size,) = struct.unpack_from("<Q", data)
    if size > _MAX_HEADER:
        raise ImageError(f"{path}: header length {size} is not credible: no program image")
    if len(data) < 8 + size:
        raise ImageError(
            f"{path}: cut off: header needs {8 + size} bytes, the file has {len(data)}"
        )
    try:
        header = json.loads(data[8 : 8 + size])
        meta = header.pop("__metadata__")
        spans = {name: _span(name, entry["data_offsets"]) for name, entry in header.items()}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ImageError(f"{path}: malformed header: {cut(error)}") from None
    if not isinstance(meta, dict) or not all(isinstance(v, str) for v in meta.values()):
        raise ImageError(f"{path}: malformed header: __metadata__ must map names to texts")
    need = 8 + size + max((end for _, end in spans.values()), default=0)
    if len(data) < need:
        raise ImageError(f"{path}: cut off: {need} bytes expected, the file has {len(data)}")
    body = np.frombuffer(data, np.uint8, offset=8 + size)
    return {name: body[a:b].copy() for name, (a, b) in spans.items()}, meta


def _span(name: str, offsets: Any) -> tuple[int, int]:
    """(start, end) of a tensor in the file's body."""
    if isinstance(offsets, list) and len(offsets) == 2 and all(map(is_whole, offsets)):
        start, end = offsets
        if 0 <= start <= end:
            return start, end
    raise ImageError(
        f"{cut(name)}: data_offsets {shown(offsets)}: must be two whole numbers, 0 <= start <= end"
    )

"""Reading flatbuffers: tables, vectors and texts at offsets, every access within the file.

The format is that of flatbuffers.dev ("Internals"): little endian; a table begins with the signed
distance back to its vtable, which gives each field's place; what is not inline is at a forward
distance. Nothing is copied: large constants stay views of the file.
"""

import struct
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray


class FormatError(Exception):
    """The bytes are no flatbuffer: an offset leads outside."""


class Table:
    """A table at `position` of `data`; fields by their index in the schema.

    Of a union the type is the field of its index, the value that of the next one.
    """

    def __init__(self, data: bytes, position: int) -> None:
        self._data, self._position = data, position
        self._vtable = position - self._read("<i", position)
        self._size = self._read("<H", self._vtable)

    @classmethod
    def root(cls, data: bytes) -> "Table":
        """The table that the file begins with."""
        if len(data) < 8:
            raise FormatError(f"{len(data)} bytes: too short")
        return cls(data, int.from_bytes(data[:4], "little"))

    def _read(self, form: str, at: int) -> int:
        size = struct.calcsize(form)
        if at < 0 or at + size > len(self._data):
            raise FormatError(f"offset {at} leads outside of {len(self._data)} bytes")
        return int(struct.unpack_from(form, self._data, at)[0])

    def _place(self, field: int) -> int | None:
        """Where the field lies; None if the file leaves it out."""
        entry = 4 + 2 * field
        if entry + 2 > self._size:
            return None
        offset = self._read("<H", self._vtable + entry)
        return self._position + offset if offset else None

    def _target(self, field: int) -> int | None:
        """Where that begins to which the field points."""
        place = self._place(field)
        return None if place is None else place + self._read("<I", place)

    def number(self, field: int, form: str = "<i", default: int = 0) -> int:
        place = self._place(field)
        return default if place is None else self._read(form, place)

    def flag(self, field: int) -> bool:
        return bool(self.number(field, "<B"))

    def table(self, field: int) -> "Table | None":
        target = self._target(field)
        return None if target is None else Table(self._data, target)

    def vector(self, field: int, dtype: str) -> NDArray[np.generic]:
        """A vector of numbers of NumPy type `dtype`, empty if left out."""
        return self._vector(self._target(field), dtype)

    def _vector(self, target: int | None, dtype: str) -> NDArray[np.generic]:
        kind = np.dtype(dtype)
        if target is None:
            return np.zeros(0, kind)
        count = self._read("<I", target)
        if target + 4 + count * kind.itemsize > len(self._data):
            raise FormatError(f"{count} elements at {target}: the file has {len(self._data)} bytes")
        return np.frombuffer(self._data, kind, count, target + 4)

    def text(self, field: int) -> str:
        return self._text(self._target(field))

    def _text(self, target: int | None) -> str:
        try:
            return self._vector(target, "<u1").tobytes().decode()
        except UnicodeDecodeError as error:
            raise FormatError(f"a name is no UTF-8 text: {error}") from None

    def tables(self, field: int) -> "Iterator[Table]":
        for target in self._targets(field):
            yield Table(self._data, target)

    def texts(self, field: int) -> list[str]:
        return [self._text(target) for target in self._targets(field)]

    def _targets(self, field: int) -> Iterator[int]:
        start = self._target(field)
        for i, distance in enumerate(self._vector(start, "<u4").tolist()):
            yield (start or 0) + 4 + 4 * i + distance

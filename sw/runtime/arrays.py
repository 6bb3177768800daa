"""`.npy` files: every array that a user hands over is read, checked and converted here.

A file holds one array of numbers. Its header is parsed without NumPy's loader, so that nothing in
it is executed, and its size is compared with the file's before memory is taken for it.
"""

import ast
import math
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from spec.errors import SystolaError

Array = NDArray[Any]
Say = Callable[[str], None]

_MAGIC = b"\x93NUMPY"
_LENGTH_BYTES = {1: 2, 2: 4, 3: 4}
"""Bytes of the header's length, by major version of the format."""
_MOST_HEADER = 10_000
_MOST_DIMENSIONS = 32
_TYPE = re.compile(r"[<>|=]?(b1|[iu][1248]|f[248])")


class ArrayFileError(SystolaError, ValueError):
    """A file that holds no array of numbers, or one whose values do not fit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Header:
    """What the header of a `.npy` file says."""

    dtype: np.dtype[Any]
    fortran: bool
    shape: tuple[int, ...]

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize


def load_array(path: Path, where: str = "") -> Array:
    """The array in a `.npy` file: booleans, integers or floats, in C order and native bytes.

    where: what messages begin with (default: the path). `ArrayFileError` says what is wrong.
    """
    where = where or str(path)
    try:
        if not path.exists():
            raise ArrayFileError(f"{where}: no readable .npy file: there is no such file")
        if not path.is_file():
            raise ArrayFileError(f"{where}: no readable .npy file: it is no regular file")
        with path.open("rb") as file:
            return _read(file, path.stat().st_size, where)
    except (OSError, ValueError) as error:
        if isinstance(error, ArrayFileError):
            raise
        text = getattr(error, "strerror", None) or error
        raise ArrayFileError(f"{where}: no readable .npy file: {text}") from None


def _read(file: BinaryIO, size: int, where: str) -> Array:
    header = _header(file, where)
    rest = size - file.tell()
    if rest < header.nbytes:
        raise ArrayFileError(
            f"{where}: no readable .npy file: cut off: {header.dtype}{list(header.shape)} needs "
            f"{header.nbytes} bytes, the file holds {rest}"
        )
    data = np.fromfile(file, header.dtype, math.prod(header.shape))
    array = data.reshape(header.shape, order="F" if header.fortran else "C")
    # astype with order="C" keeps the shape of an array without dimensions.
    return array.astype(header.dtype.newbyteorder("="), order="C", copy=False)


def _header(file: BinaryIO, where: str) -> _Header:
    def error(text: str) -> ArrayFileError:
        return ArrayFileError(f"{where}: no readable .npy file: {text}")

    start = file.read(8)
    if start[:2] == b"PK":
        raise ArrayFileError(
            f"{where}: holds several arrays (.npz); one array of numbers is needed"
        )
    if len(start) < 8 or start[:6] != _MAGIC:
        raise error(f"it begins with {start[:6]!r}, not {_MAGIC!r}" if start else "it is empty")
    width = _LENGTH_BYTES.get(start[6])
    if width is None:
        raise error(f"version {start[6]}.{start[7]} of the format; versions are 1.0 to 3.0")
    length = int.from_bytes(file.read(width), "little")
    if length > _MOST_HEADER:
        raise error(f"a header of {length} bytes; {_MOST_HEADER} are credible")
    text = file.read(length)
    if len(text) < length:
        raise error(f"cut off: a header of {length} bytes is announced, {len(text)} are there")
    try:
        fields = ast.literal_eval(text.decode("utf-8" if start[6] == 3 else "latin1").strip())
    except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
        raise error(f"malformed header {text[:60]!r}") from None
    if not isinstance(fields, dict) or set(fields) != {"descr", "fortran_order", "shape"}:
        raise error(f"malformed header {text[:60]!r}")
    return _checked(fields, where, error)


def _checked(
    fields: dict[str, object], where: str, error: Callable[[str], ArrayFileError]
) -> _Header:
    kind, fortran, shape = fields["descr"], fields["fortran_order"], fields["shape"]
    if not isinstance(kind, str) or not _TYPE.fullmatch(kind):
        raise ArrayFileError(
            f"{where}: holds elements of type {str(kind)[:60]}; one array of numbers is needed"
        )
    if not isinstance(shape, tuple) or not all(type(n) is int and n >= 0 for n in shape):
        raise error(f"shape {str(shape)[:60]}: must be a tuple of whole numbers from 0")
    if len(shape) > _MOST_DIMENSIONS:
        raise error(f"{len(shape)} dimensions; {_MOST_DIMENSIONS} are possible")
    if not isinstance(fortran, bool):
        raise error(f"fortran_order {str(fortran)[:60]}: must be True or False")
    if max(shape, default=0) > sys.maxsize:
        raise error(f"shape {str(shape)[:60]}: too large")
    return _Header(dtype=np.dtype(kind), fortran=fortran, shape=shape)


def converted(
    array: Array, dtype: str, where: str, *, takes: str = "", say: Say | None = None
) -> Array:
    """`array` as NumPy type `dtype`, if every value can be represented.

    An integer type (or bool) takes booleans and integers that fit; a float type takes any finite
    number. A conversion is said (default: on standard error). where: what messages begin with;
    takes: who wants the type, such as `input x`. `ArrayFileError` names the first value that does
    not fit.
    """
    want = np.dtype(dtype)
    takes = takes or "it"
    if array.dtype == want and want.kind != "f":
        return array
    if want.kind != "f":
        if array.dtype.kind not in "biu":
            raise ArrayFileError(
                f"{where}: holds {array.dtype}; {takes} takes whole numbers of type {dtype}"
            )
        low, high = _limits(want)
        _refuse(array, (array < low) | (array > high), f"{where}: {{}}; {takes} is {dtype}")
    else:
        _refuse(array, ~np.isfinite(array), f"{where}: {{}}; {takes} takes finite numbers")
        with np.errstate(over="ignore"):
            beyond = ~np.isfinite(array.astype(want))
        _refuse(array, beyond, f"{where}: {{}} is too large; {takes} is {dtype}")
    if array.dtype != want:
        (say or _print)(f"{where}: {array.dtype} taken as {dtype}")
    return array.astype(want)


def _limits(want: np.dtype[Any]) -> tuple[int, int]:
    if want.kind == "b":
        return 0, 1
    limits = np.iinfo(want)
    return int(limits.min), int(limits.max)


def _refuse(array: Array, wrong: NDArray[np.bool_], message: str) -> None:
    """`ArrayFileError` with the first element that is `wrong`."""
    if wrong.any():
        at = tuple(int(i) for i in np.unravel_index(int(np.argmax(wrong)), array.shape))
        raise ArrayFileError(message.format(f"value {array[at]} at {list(at)}"))


def load_as(
    path: Path,
    dtype: str,
    shape: Sequence[int] | None = None,
    *,
    where: str = "",
    takes: str = "",
    say: Say | None = None,
) -> Array:
    """`load_array`, the shape checked (unless None), `converted` to `dtype`."""
    where = where or str(path)
    array = load_array(path, where)
    if shape is not None and array.shape != tuple(shape):
        raise ArrayFileError(
            f"{where}: shape {list(array.shape)}; {takes or 'it'} is {list(shape)}"
        )
    return converted(array, dtype, where, takes=takes, say=say)


def _print(text: str) -> None:
    sys.stderr.write(f"systola: {text}\n")

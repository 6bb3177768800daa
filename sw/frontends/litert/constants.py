"""Constants: the bytes of a buffer as an array."""

import numpy as np

from sw.frontends.litert.records import Array


def decoded(data: Array, dtype: str, shape: tuple[int, ...]) -> Array:
    """The array of `shape` whose little-endian bytes are `data`.

    int4: two in a byte, the first one in the low half. `ValueError` where the bytes do not fit.
    """
    count = int(np.prod(shape, dtype=np.int64))
    if dtype == "int4":
        need = (count + 1) // 2
        values = np.stack([data << 4, data], axis=-1).reshape(-1).view(np.int8) >> 4
    else:
        need = count * np.dtype(dtype).itemsize
        values = data
    if len(data) != need:
        raise ValueError(f"{len(data)} bytes, {dtype}{list(shape)} has {need}")
    if dtype != "int4":
        values = np.ascontiguousarray(data).view(np.dtype(dtype).newbyteorder("<"))
    return values[:count].reshape(shape).astype(_WORKING.get(dtype, dtype))


def as_int8(data: Array) -> Array:
    """uint8 as the int8 that is 128 less."""
    return (data.astype(np.int16) - 128).astype(np.int8)


_WORKING = {"int4": "int8", "float16": "float32", "float64": "float32"}
"""What is computed with instead."""

"""Constants: the bytes of a buffer as an array."""

import math

import numpy as np

from sw.frontends.litert.records import Array

WORKING = {"int4": "int8", "float16": "float32", "float64": "float32"}
"""Types that are computed with instead of the file's."""


def decoded(data: Array, dtype: str, shape: tuple[int, ...], sparse: bool = False) -> Array:
    """The array of `shape` whose little-endian bytes are `data`; of a sparse one its values, flat.

    int4: two in a byte, the first one in the low half. `ValueError` where the bytes do not fit.
    """
    four = dtype == "int4"
    if sparse:
        shape = (len(data) * 2 if four else len(data) // np.dtype(dtype).itemsize,)
    count = math.prod(shape)
    need = (count + 1) // 2 if four else count * np.dtype(dtype).itemsize
    if len(data) != need:
        raise ValueError(f"{len(data)} bytes, {dtype}{list(shape)} has {need}")
    if four:
        values = np.stack([data << 4, data], axis=-1).reshape(-1).view(np.int8) >> 4
    else:
        values = np.ascontiguousarray(data).view(np.dtype(dtype).newbyteorder("<"))
    return values[:count].reshape(shape).astype(WORKING.get(dtype, dtype))


def as_int8(data: Array) -> Array:
    """uint8 as the int8 that is 128 less."""
    return (data.astype(np.int16) - 128).astype(np.int8)

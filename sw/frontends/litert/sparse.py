"""Sparse constants as dense ones: the values of a file in the order of their sparse dimensions.

A tensor's dimensions, and those of its blocks behind them, are walked in the order that the file
says (schema.fbs, `SparsityParameters`). A dense dimension has all its indices; a sparse one has a
row of them for each place so far, whose ends are `array_segments`.
"""

import math
from typing import Any

import numpy as np

from sw.frontends.litert.records import Array
from sw.frontends.litert.schema import names

_VECTORS = {"Int32Vector": np.int32, "Uint16Vector": np.uint16, "Uint8Vector": np.uint8}


def densified(values: Array, shape: tuple[int, ...], sparsity: Any, file: str) -> Array:
    """The dense array. `ValueError` where values and indices do not fit the shape."""
    from sw.frontends.litert.schema import tflite

    order, blocked = (_ints(sparsity, field) for field in ("TraversalOrder", "BlockMap"))
    if len(order) != len(shape) + len(blocked) or sorted(order) != list(range(len(order))):
        raise ValueError(f"order {order} of {len(shape)} dimensions and {len(blocked)} of blocks")
    if any(not 0 <= dimension < len(shape) for dimension in blocked):
        raise ValueError(f"blocks {blocked} of {len(shape)} dimensions")
    if sparsity.DimMetadataLength() != len(order):
        raise ValueError(f"{sparsity.DimMetadataLength()} sparse dimensions of {len(order)}")
    levels = [sparsity.DimMetadata(i) for i in range(len(order))]
    places = np.zeros((len(order), 1), np.int64)
    sizes = [0] * len(order)
    for level, dimension in zip(levels, order, strict=True):
        if level.Format() == tflite(file).DimensionType.DENSE:
            size = sizes[dimension] = level.DenseSize()
            if not 0 < size * places.shape[1] <= math.prod(shape):
                raise ValueError(f"a dense dimension of {size} in shape {list(shape)}")
            indices = np.tile(np.arange(size), places.shape[1])
            counts = np.full(places.shape[1], size)
        else:
            indices = _vector(level, "Indices").astype(np.int64)
            counts = np.diff(_vector(level, "Segments").astype(np.int64))
        if len(counts) != places.shape[1] or (counts < 0).any():
            raise ValueError(f"{len(counts)} rows of indices, {places.shape[1]} places")
        if counts.sum() != len(indices) or len(indices) > math.prod(shape):
            raise ValueError(f"{len(indices)} indices, {counts.sum()} in rows")
        places = np.repeat(places, counts, axis=1)
        places[dimension] = indices
    if len(values) < places.shape[1]:
        raise ValueError(f"{len(values)} values, {places.shape[1]} places")
    at = places[: len(shape)]
    for row, dimension in enumerate(blocked):
        size = sizes[len(shape) + row]
        at[dimension] = at[dimension] * size + places[len(shape) + row]
    dense = np.zeros(shape, values.dtype)
    dense.reshape(-1)[np.ravel_multi_index(tuple(at), shape)] = values[: places.shape[1]]
    return dense


def _ints(raw: Any, field: str) -> list[int]:
    length, values = getattr(raw, f"{field}Length")(), getattr(raw, f"{field}AsNumpy")
    return [int(v) for v in values()] if length else []


def _vector(level: Any, field: str) -> Array:
    """`array_segments` or `array_indices`, whatever their integers."""
    from sw.frontends.litert import schema

    kind = names("SparseIndexVector").get(getattr(level, f"Array{field}Type")(), "")
    table = getattr(level, f"Array{field}")()
    if kind not in _VECTORS or table is None:
        raise ValueError(f"array_{field.lower()} has no integers")
    vector = schema.no_options(kind)
    vector.Init(table.Bytes, table.Pos)
    return (
        np.asarray(vector.ValuesAsNumpy(), _VECTORS[kind])
        if vector.ValuesLength()
        else (np.zeros(0, _VECTORS[kind]))
    )

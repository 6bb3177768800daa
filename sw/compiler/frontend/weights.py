"""Weights of linear layers, read in blocks of rows: no float64 copy of a whole matrix is made.

A block is small enough for the processor's cache. What is computed of it is exactly what NumPy
gives for the whole matrix in float64.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sw.compiler.frontend.quantization.values import TINY

Float = NDArray[np.float64]
Matrix = NDArray[np.floating[Any]]
"""[out, in], float32 or float64, contiguous or the transpose of what is."""

_BLOCK = 1 << 16
"""Elements of a block: half a megabyte of float64."""


def blocks(matrix: Matrix) -> Iterator[tuple[slice, Float]]:
    """(rows, their values as a new float64 array) of each block of rows."""
    count = max(1, _BLOCK // max(matrix.shape[1], 1))
    for start in range(0, len(matrix), count):
        rows = slice(start, min(start + count, len(matrix)))
        yield rows, np.array(matrix[rows], np.float64, order="C")


def column_tops(matrix: Matrix) -> Float:
    """The largest magnitude of each column."""
    top = np.zeros(matrix.shape[1])
    for _, block in blocks(matrix):
        np.maximum(top, np.abs(block, out=block).max(axis=0), out=top)
    return top


def column_energy(matrix: Matrix) -> Float:
    """The sum of squares of each column, added row by row."""
    total: Float | None = None
    for _, block in blocks(matrix):
        np.square(block, out=block)
        # The sum so far is the first of the rows: the order of additions is that of one sum.
        rows = block if total is None else np.concatenate([total[None], block])
        total = np.asarray(rows.sum(axis=0), np.float64)
    return np.zeros(matrix.shape[1]) if total is None else total


def row_tops(matrix: Matrix, units: list[Float]) -> list[Float]:
    """The largest magnitude of each row, its columns multiplied by each of `units` (positive)."""
    tops = [np.zeros(len(matrix)) for _ in units]
    for rows, block in blocks(matrix):
        magnitudes, scaled = np.abs(block, out=block), np.empty_like(block)
        for unit, top in zip(units, tops, strict=True):
            np.multiply(magnitudes, unit, out=scaled).max(axis=1, out=top[rows])
    return tops


BIAS_ROOM = float(1 << 30)
"""Steps of the accumulator that a bias may take, so that the sum of products finds room beside."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Int8Weights:
    """`integers` [out, in], the scale of each row, and what rounding lost of `mean` by row."""

    integers: NDArray[np.int8]
    scale: Float
    lost: Float | None


def row_scales(tops: Float, bias: Float | None = None) -> Float:
    """Scales of int8 rows by their largest magnitudes; none is finer than 2^-12 of the largest.

    bias: of each row; a scale is so large that the bias fits in the accumulator.
    """
    floor = max(float(tops.max()), TINY) * 2.0**-12
    scales = np.maximum(tops, floor) / 127
    if bias is not None:
        scales = np.maximum(scales, np.abs(bias) / BIAS_ROOM)
    return np.asarray(scales, np.float64)


def quantized(
    matrix: Matrix, unit: Float, mean: Float | None = None, bias: Float | None = None
) -> Int8Weights:
    """`matrix` · `unit` (positive, by column or one) as int8 with a scale for each row.

    mean: the input in steps of `unit` that the lost part of the weights is multiplied by. bias: see
    `row_scales`.
    """
    columns = np.broadcast_to(np.asarray(unit, np.float64), matrix.shape[1:])
    (tops,) = row_tops(matrix, [columns])
    scale = row_scales(tops, bias)
    integers = np.empty(matrix.shape, np.int8)
    lost = None if mean is None else np.empty(len(matrix))
    for rows, block in blocks(matrix):
        block *= columns
        steps = scale[rows, None]
        found = np.clip(np.rint(block / steps), -127, 127)
        integers[rows] = found
        if lost is not None:
            lost[rows] = (block - found * steps) @ mean
    return Int8Weights(integers=integers, scale=scale, lost=lost)

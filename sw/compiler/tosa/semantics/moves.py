"""Operators that move data, and RESIZE (TOSA 1.0, sections 2.9 and 2.10)."""

import numpy as np

from spec.numerics import wrap32
from sw.compiler.errors import GraphError
from sw.compiler.tosa.nodes import Op
from sw.compiler.tosa.semantics.arrays import Array, Int, scalar, wide


def reshape(op: Op, args: list[Array], _: str) -> Array:
    return args[0].reshape(tuple(args[1]))


def transpose(op: Op, args: list[Array], _: str) -> Array:
    return args[0].transpose(op.attributes["perms"])


def pad(op: Op, args: list[Array], _: str) -> Array:
    x, padding, value = args
    return np.pad(x, padding.reshape(-1, 2), constant_values=scalar(value))


def slice_(op: Op, args: list[Array], _: str) -> Array:
    x, start, size = args
    return np.asarray(x[tuple(slice(a, a + n) for a, n in zip(start, size, strict=True))])


def tile(op: Op, args: list[Array], _: str) -> Array:
    return np.tile(args[0], tuple(args[1]))


def reverse(op: Op, args: list[Array], _: str) -> Array:
    return np.flip(args[0], op.attributes["axis"])


def concat(op: Op, args: list[Array], _: str) -> Array:
    return np.concatenate(args, axis=op.attributes["axis"])


def _rows(op: Op, indices: Array, count: int) -> Int:
    """Indices with a trailing dimension for the channels; `GraphError` outside 0…count − 1."""
    if indices.min() < 0 or indices.max() >= count:
        raise GraphError(
            f"indices {indices.min()}…{indices.max()} must lie in 0…{count - 1}",
            node=op.name,
            source=op.source,
        )
    return wide(indices)[..., None]


def gather(op: Op, args: list[Array], _: str) -> Array:
    values, indices = args
    return np.take_along_axis(values, _rows(op, indices, values.shape[1]), axis=1)


def scatter(op: Op, args: list[Array], _: str) -> Array:
    values, indices, source = args
    out = values.copy()
    np.put_along_axis(out, _rows(op, indices, values.shape[1]), source, axis=1)
    return out


def _neighbours(size: int, scale: Array, offset: int, border: int) -> tuple[Int, Int, Int]:
    """Of every output position: the input positions around it, and its distance to the first.

    The distance is in units of 1 / scale[0].
    """
    n, d = (int(v) for v in scale)
    out = ((size - 1) * n - offset + border) // d + 1
    position = np.arange(out, dtype=np.int64) * d + offset
    before = position // n
    return np.maximum(before, 0), np.minimum(before + 1, size - 1), position - before * n


def resize(op: Op, args: list[Array], _: str) -> Array:
    x, scale, offset, border = args
    y0, y1, dy = _neighbours(x.shape[1], scale[:2], int(offset[0]), int(border[0]))
    x0, x1, dx = _neighbours(x.shape[2], scale[2:], int(offset[1]), int(border[1]))
    ny, nx = int(scale[0]), int(scale[2])
    if op.attributes["mode"] == "NEAREST":
        rows, columns = np.where(2 * dy < ny, y0, y1), np.where(2 * dx < nx, x0, x1)
        return np.asarray(x[:, rows][:, :, columns])
    v, wy, wx = wide(x), dy[:, None, None], dx[:, None]
    upper = v[:, y0][:, :, x0] * (nx - wx) + v[:, y0][:, :, x1] * wx
    lower = v[:, y1][:, :, x0] * (nx - wx) + v[:, y1][:, :, x1] * wx
    return wrap32(upper * (ny - wy) + lower * wy)


def identity(op: Op, args: list[Array], _: str) -> Array:
    return args[0]

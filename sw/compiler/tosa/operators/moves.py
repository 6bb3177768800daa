"""Rules of the operators that move data, and of RESIZE (TOSA 1.0, sections 2.9 and 2.10)."""

import numpy as np

from sw.compiler.tosa.operators.checker import (
    ANY,
    MAX_RANK,
    MAX_TENSORS,
    Checker,
    Shape,
    same_type,
)

_LARGEST_IMAGE = 16384
"""RESIZE: sides of input and output stay below this (section 2.10.1)."""


def reshape(c: Checker, _: str) -> tuple[Shape, str]:
    shape = tuple(c.shape_values("shape"))
    size = int(np.prod(shape, dtype=object))
    old = list(c["input1"].shape)
    c.require(len(shape) <= MAX_RANK, f"shape {list(shape)} has more than {MAX_RANK} dimensions")
    c.require(all(v >= 1 for v in shape), f"shape {list(shape)} must be whole numbers >= 1")
    c.require(
        size == c["input1"].size, f"shape {list(shape)} has {size} elements, input {old} differs"
    )
    return shape, c.dtype("input1", *ANY)


def transpose(c: Checker, _: str) -> tuple[Shape, str]:
    shape, perms = c.ranked("input1"), tuple(c.op.attributes["perms"])
    c.require(sorted(perms) == list(range(len(shape))), f"perms={perms}: no permutation of {shape}")
    return tuple(shape[p] for p in perms), c.dtype("input1", *ANY)


def pad(c: Checker, _: str) -> tuple[Shape, str]:
    shape, dtype = c.ranked("input1"), c.dtype("input1", *ANY)
    pads = c.shape_values("padding", 2 * len(shape))
    c.require(min(pads) >= 0, f"padding {pads} must not be negative")
    c.dtype("pad_const", dtype)
    c.constant("pad_const")
    c.require(c["pad_const"].shape == (1,), "pad_const must have one element")
    return tuple(s + pads[2 * i] + pads[2 * i + 1] for i, s in enumerate(shape)), dtype


def slice_(c: Checker, _: str) -> tuple[Shape, str]:
    shape = c.ranked("input1")
    start, size = c.shape_values("start"), c.shape_values("size")
    good = len(start) == len(size) == len(shape) and all(
        a >= 0 and n >= 1 and a + n <= s for a, n, s in zip(start, size, shape, strict=True)
    )
    c.require(good, f"start {start}, size {size} is no part of {list(shape)}")
    return tuple(size), c.dtype("input1", *ANY)


def tile(c: Checker, _: str) -> tuple[Shape, str]:
    shape = c.ranked("input1")
    times = c.shape_values("multiples", len(shape))
    c.require(min(times) >= 1, f"multiples {times} must be whole numbers >= 1")
    return tuple(s * t for s, t in zip(shape, times, strict=True)), c.dtype("input1", *ANY)


def reverse(c: Checker, _: str) -> tuple[Shape, str]:
    c.axis("input1")
    return c["input1"].shape, c.dtype("input1", *ANY)


def concat(c: Checker, _: str) -> tuple[Shape, str]:
    axis, names = c.axis("input1"), tuple(c.operands)
    c.require(len(names) <= MAX_TENSORS, f"{len(names)} operands: at most {MAX_TENSORS}")
    c.dtype("input1", *ANY)
    dtype = same_type(c, *names)
    first = c["input1"].shape
    for name in names[1:]:
        shape = c[name].shape
        good = len(shape) == len(first) and all(
            a == b or i == axis for i, (a, b) in enumerate(zip(first, shape, strict=True))
        )
        c.require(good, f"{name} {list(shape)} differs from {list(first)} beyond axis {axis}")
    return (*first[:axis], sum(c[n].shape[axis] for n in names), *first[axis + 1 :]), dtype


def gather(c: Checker, _: str) -> tuple[Shape, str]:
    n, _k, ch = c.rank("values", 3)
    batch, w = c.rank("indices", 2)
    c.dtype("indices", "int32")
    c.require(batch == n, f"indices {[batch, w]} must have {n} rows, as values")
    return (n, w, ch), c.dtype("values", *ANY)


def scatter(c: Checker, _: str) -> tuple[Shape, str]:
    n, k, ch = c.rank("values_in", 3)
    batch, w = c.rank("indices", 2)
    c.dtype("indices", "int32")
    c.dtype("values_in", *ANY)
    dtype = same_type(c, "values_in", "input")
    c.require(batch == n, f"indices {[batch, w]} must have {n} rows, as values_in")
    c.require(w <= k, f"indices {[batch, w]}: at most {k} of them, rows of values_in")
    got = list(c.rank("input", 3))
    c.require(got == [n, w, ch], f"input {got} must be {[n, w, ch]}")
    return (n, k, ch), dtype


def resize(c: Checker, _: str) -> tuple[Shape, str]:
    n, h, w, ch = c.rank("input", 4)
    dtype, mode = c.dtype("input", "int8", "int16"), c.op.attributes["mode"]
    c.require(mode in ("NEAREST", "BILINEAR"), f"mode={mode}: must be NEAREST or BILINEAR")
    c.require(dtype == "int8" or mode == "NEAREST", "BILINEAR of int16 needs 48 bits", "use int8")
    scale = c.shape_values("scale", 4)
    offset, border = c.shape_values("offset", 2), c.shape_values("border", 2)
    sides = [
        _resized(c, axis, size, (scale[2 * i], scale[2 * i + 1]), offset[i], border[i])
        for i, (axis, size) in enumerate((("height", h), ("width", w)))
    ]
    c.require(
        max(h, w, *sides) < _LARGEST_IMAGE,
        f"input {h}x{w}, output {sides[0]}x{sides[1]}: sides must be below {_LARGEST_IMAGE}",
    )
    return (n, *sides, ch), "int32" if mode == "BILINEAR" else dtype


def _resized(
    c: Checker, axis: str, size: int, scale: tuple[int, int], offset: int, border: int
) -> int:
    """Output size along `axis`, with the ranges of section 2.10.1."""
    n, d = scale
    c.require(0 < n <= 1 << 11 and d > 0, f"{axis}: scale {n}/{d} must be positive, n <= 2048")
    c.require(d < 16 * n, f"{axis}: scale {n}/{d} must be above 1/16")
    c.require(-n <= offset < 16 * n, f"{axis}: offset {offset} must lie in {-n}…{16 * n - 1}")
    c.require(-16 * n <= border < n, f"{axis}: border {border} must lie in {-16 * n}…{n - 1}")
    steps, rest = divmod((size - 1) * n - offset + border, d)
    c.require(
        rest == 0 and steps >= 0,
        f"{axis}: ({size} - 1)·{n} - offset {offset} + border {border} must be a multiple >= 0 "
        f"of {d}",
    )
    return steps + 1


def identity(c: Checker, _: str) -> tuple[Shape, str]:
    return c["input1"].shape, c.dtype("input1", *ANY)

"""Networks with numbers that every processor gives alike.

A processor's floating-point units decide the last bits of calibrated ranges, and with them weights,
biases and multipliers. The graph's structure, shapes and zero points are the same on all.
"""

import numpy as np
from numpy.typing import NDArray

from sw.compiler.tosa.graph import Graph, Op

Numbers = NDArray[np.generic]

_EXACT = {"int32": 1 << 30, "int16": 1 << 14}
"""Multipliers of a RESCALE by a power of two, which the compiler may take for a copy."""

_SHIFT = 38
"""Of every other RESCALE."""

_INDICES = ("GATHER", 1)


def with_plain_numbers(graph: Graph) -> Graph:
    """A copy whose constants are drawn from a fixed seed, as far as floats decide them.

    Equal constants stay equal, elements of one value too, and all zeros stay zeros.
    """
    plain, rng = graph.copy(), np.random.default_rng(7)
    drawn: dict[tuple[object, ...], Numbers] = {}
    for op in plain.ops:
        for name, multiplier in _drawn_constants(plain, op):
            old = graph.constant(name)
            key = (old.shape, old.dtype, multiplier, old.tobytes())
            if key not in drawn:
                drawn[key] = _multipliers(old, rng) if multiplier else _numbers(old, rng)
            plain.tensors[name].data = drawn[key]
        if op.kind == "RESCALE":
            multiplier, shift = (graph.tensors[name] for name in op.inputs[1:3])
            if multiplier.data is not None and shift.data is not None:
                exact = multiplier.data == _EXACT[multiplier.dtype]
                plain.tensors[shift.name].data = np.where(exact, shift.data, np.int8(_SHIFT))
    return plain


def _drawn_constants(graph: Graph, op: Op) -> list[tuple[str, bool]]:
    """The constants of `op` that floats decide; whether they are multipliers."""
    if op.kind == "RESCALE":
        return [(op.inputs[1], True)] if graph.tensors[op.inputs[1]].is_constant else []
    found = []
    for place, name in enumerate(op.inputs):
        tensor = graph.tensors[name]
        integers = tensor.is_constant and tensor.dtype not in ("shape", "bool")
        if integers and tensor.data.size > 1 and (op.kind, place) != _INDICES:
            found.append((name, False))
    return found


def _multipliers(old: Numbers, rng: np.random.Generator) -> Numbers:
    exact = _EXACT[str(old.dtype)]
    return np.where(old == exact, old, rng.integers(exact, 2 * exact, _size(old), old.dtype))


def _numbers(old: Numbers, rng: np.random.Generator) -> Numbers:
    if not old.any():
        return old
    numbers = rng.integers(-127, 128, _size(old)).astype(old.dtype)
    return np.broadcast_to(numbers, old.shape).copy()


def _size(old: Numbers) -> int | tuple[int, ...]:
    """One number for elements that are all the same."""
    return 1 if (old == old.flat[0]).all() else old.shape

"""Vector expressions of kernels in NumPy: every operation by `spec.numerics`, one after another."""

import numpy as np

from spec.isa import Alu
from spec.numerics import apply_scale, interpolate, leading_zeros, multiply, scale_to_multiplier

LIMITS = {"int8": (-128, 127), "int16": (-32768, 32767), "int32": (-(1 << 31), (1 << 31) - 1)}


def wrapped(values):
    """Two's complement of 32 bits."""
    return values.astype(np.int64).astype(np.int32).astype(np.int64)


class Reference:
    """The same operations as `sw.language.values.Values`, on an array."""

    def __init__(self, array):
        self.array = np.asarray(array, np.int64)

    def _other(self, other):
        return other.array if isinstance(other, Reference) else np.int64(other)

    def __add__(self, other):
        return Reference(wrapped(self.array + self._other(other)))

    def __sub__(self, other):
        return Reference(wrapped(self.array - self._other(other)))

    def __lshift__(self, other):
        by = np.broadcast_to(
            self._other(other) & 31,
            np.broadcast_shapes(self.array.shape, np.shape(self._other(other))),
        )
        return Reference(wrapped(self.array << by))

    def __rshift__(self, other):
        return Reference(self.array >> (self._other(other) & 31))

    def times(self, other, shift=0):
        return Reference(multiply(self.array, self._other(other), shift))

    def maximum(self, other):
        return Reference(np.maximum(self.array, self._other(other)))

    def minimum(self, other):
        return Reference(np.minimum(self.array, self._other(other)))

    def leading_zeros(self):
        return Reference(leading_zeros(self.array))

    def absolute(self):
        return Reference(wrapped(np.abs(self.array)))

    def apply(self, alu, other):
        return Reference(
            {Alu.AND: np.bitwise_and, Alu.GT: np.greater}[alu](self.array, self._other(other))
        )

    def sum(self, axis=-1):
        return Reference(wrapped(self.array.sum(axis, keepdims=True)))

    def max(self, axis=-1):
        return Reference(self.array.max(axis, keepdims=True))

    def min(self, axis=-1):
        return Reference(self.array.min(axis, keepdims=True))

    def rescale(self, scale):
        pairs = [scale_to_multiplier(float(s)) for s in np.atleast_1d(scale)]
        multiplier, shift = np.array(pairs).T
        return Reference(apply_scale(self.array, multiplier, shift))

    def clamp(self, low, high):
        return Reference(np.clip(self.array, low, high))

    def to(self, dtype):
        return self.clamp(*LIMITS[dtype])

    def requantize(self, scale, zero_point=0, dtype="int8", *, bias=None, low=None, high=None):
        value = self if bias is None else Reference(wrapped(self.array + np.asarray(bias)))
        least, most = LIMITS[dtype]
        least = least if low is None else max(low, least)
        most = most if high is None else min(high, most)
        return (value.rescale(scale) + zero_point).clamp(least, most)

    def lookup(self, table):
        if table.dtype == np.int8:
            return Reference(table[self.to("int8").array + 128])
        return Reference(interpolate(table, self.to("int16").array))

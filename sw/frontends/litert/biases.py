"""Biases that nearly fill the accumulator, in channels whose weights are next to nothing.

Trained networks have channels that a norm has all but switched off. Quantizers give them a scale of
1e-10 and less, and cut the bias off at −2³¹; a sum that is added to it overflows. Here such a
channel gets a larger scale: the bias and what little its weights add stay what they are.
"""

from dataclasses import replace

import numpy as np

from sw.frontends.litert.records import Array, Contents, Operator, Quantization, Tensor

_AXES = {"CONV_2D": 0, "DEPTHWISE_CONV_2D": 3, "FULLY_CONNECTED": 0}
"""Operators with weights and a bias, and the dimension of the weights that counts channels."""

_LIMIT = (1 << 31) - 1
_ROOM = 1 << 30
_SWING = 255
"""By how much an int8 operand and its zero point can differ."""


def bounded(contents: Contents) -> Contents:
    """The same model with biases that no sum of products can overflow."""
    tensors = list(contents.tensors)
    operators = [_bounded(operator, tensors) for operator in contents.operators]
    return replace(contents, tensors=tuple(tensors), operators=tuple(operators))


def _bounded(operator: Operator, tensors: list[Tensor]) -> Operator:
    """The operator with new constants if it needs them; `tensors` gets them."""
    axis = _AXES.get(operator.kind, -1)
    if axis < 0 or len(operator.inputs) < 3 or min(operator.inputs) < 0:
        return operator
    weight, bias = (tensors[i] for i in operator.inputs[1:3])
    if not _by_channel(weight, axis) or not _by_channel(bias, 0):
        return operator
    w, b = np.asarray(weight.data, np.int64), np.asarray(bias.data, np.int64)
    if w.shape[axis] != b.size:
        return operator
    products = np.abs(w).sum(axis=tuple(i for i in range(w.ndim) if i != axis)) * _SWING
    largest = np.abs(b) + products
    if largest.max() <= _LIMIT:
        return operator
    bits = np.ceil(np.log2(np.maximum(largest / _ROOM, 1)))
    factor = np.where(largest > _LIMIT, 2.0**bits, 1.0)
    shape = [-1 if i == axis else 1 for i in range(w.ndim)]
    made = [
        _scaled(weight, w / factor.reshape(shape), factor, len(tensors)),
        _scaled(bias, b / factor, factor, len(tensors) + 1),
    ]
    tensors += made
    inputs = (operator.inputs[0], *(t.index for t in made), *operator.inputs[3:])
    return replace(operator, inputs=inputs)


def _by_channel(tensor: Tensor, axis: int) -> bool:
    """Whether it is a constant of integers with a scale for each index of `axis`."""
    q = tensor.quantization
    whole = tensor.data is not None and tensor.data.dtype.kind == "i"
    return q is not None and whole and q.axis == axis and not any(q.zero_point)


def _scaled(tensor: Tensor, steps: Array, factor: Array, index: int) -> Tensor:
    """The tensor with these steps, `factor` times as large; `index`: its place."""
    q = tensor.quantization
    assert q is not None and tensor.data is not None
    scales = tuple(float(s * f) for s, f in zip(q.scale, factor, strict=True))
    data = np.rint(steps).astype(tensor.data.dtype)
    grid = Quantization(scale=scales, zero_point=q.zero_point, axis=q.axis)
    return replace(tensor, index=index, data=data, quantization=grid)

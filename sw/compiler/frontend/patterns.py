"""Groups of nodes that one rule imports: RMS norms, and convolutions with what scales them.

A matcher looks at the last node of a group and gives its plan, or None.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.fx import Node

from sw.compiler.frontend.nodes import arguments, aten, is_float, node_argument, shape
from sw.compiler.frontend.operator_sets import (
    BATCH_NORMS,
    CONVOLUTIONS,
    Plan,
    first_result,
    same,
)

Float = NDArray[np.float64]
Constants = Mapping[Node, torch.Tensor]

_AFFINE = (aten.mul.Tensor, aten.div.Tensor, aten.add.Tensor, aten.sub.Tensor)


# RMS norm -----------------------------------------------------------------------------------------


def rms_norm(node: Node, constants: Constants) -> Plan | None:
    """[γ ·] x · rsqrt(mean(x²) + ε)."""
    if node.target is aten.rms_norm.default:
        given = arguments(node)
        return _rms(given["input"], given["eps"] or 1.2e-7, given["weight"])
    if node.target is not aten.mul.Tensor:
        return None
    a, b = node.args[:2]
    for gamma, inner in ((a, b), (b, a)):
        core = same(inner)
        if isinstance(gamma, Node) and gamma in constants and isinstance(core, Node):
            found = _rms_core(core)
            if found is not None and len(core.users) == 1:
                return _rms(*found, gamma)
    found = _rms_core(node)
    return None if found is None else _rms(*found, None)


def _rms(x: Node, eps: Any, gamma: Any) -> Plan:
    return Plan(rule="rms_norm", reads=(x,), data={"eps": float(eps), "gamma": gamma})


def _rms_core(node: Node) -> tuple[Node, float] | None:
    if node.target is not aten.mul.Tensor:
        return None
    for x, scale in (node.args[:2], node.args[1::-1]):
        x, scale = same(x), same(scale)
        if not isinstance(scale, Node) or scale.target is not aten.rsqrt.default:
            continue
        total = same(scale.args[0])
        if not isinstance(total, Node) or total.target is not aten.add.Tensor:
            continue
        if not isinstance(total.args[1], float | int):
            continue
        mean = same(total.args[0])
        if not isinstance(mean, Node) or mean.target is not aten.mean.dim:
            continue
        axes, rank = mean.args[1], len(node_argument(mean, 0).meta["val"].shape)
        if not isinstance(axes, list | tuple) or tuple(axes) not in ((-1,), (rank - 1,)):
            continue
        square = same(mean.args[0])
        squared = square.target is aten.pow.Tensor_Scalar and square.args[1] == 2
        if squared and same(square.args[0]) is x:
            return x, float(total.args[1])
    return None


# Convolutions -------------------------------------------------------------------------------------


def convolution(node: Node, constants: Constants) -> Plan | None:
    """A convolution by constant weights and the affine maps of its channels that follow it.

    Batch norms, and sums and products with constants: data has `factor` and `offset` by channel.
    """
    if len(shape(node)) < 3:
        return None
    channels = shape(node)[1]
    factor, offset = np.ones(channels), np.zeros(channels)
    at: Any = node
    while isinstance(at, Node) and at.target not in CONVOLUTIONS:
        step = channel_affine(at, constants)
        if step is None:
            return None
        at, a, b = step
        factor, offset = factor * a, factor * b + offset
        if len(at.users) != 1:
            return None
    if not isinstance(at, Node) or node_argument(at, 1) not in constants:
        return None
    data = {"factor": factor, "offset": offset}
    return Plan(rule="convolution", reads=(node_argument(at, 0),), data=data, call=at)


def channel_affine(node: Node, constants: Constants) -> tuple[Node, Float, Float] | None:
    """(x, a, b) where `node` is a[c] · x + b[c] with c the second dimension."""
    norm = first_result(node)
    if norm.target in BATCH_NORMS:
        return _batch_norm(norm, constants)
    if node.target not in _AFFINE or not is_float(node) or node.kwargs.get("alpha", 1) != 1:
        return None
    rank, channels = len(shape(node)), shape(node)[1]
    for x, other, swapped in ((*node.args[:2], False), (*node.args[1::-1], True)):
        if not isinstance(x, Node) or x in constants or shape(x) != shape(node):
            continue
        values = _by_channel(other, rank, constants)
        if values is None or (swapped and node.target is aten.div.Tensor):
            continue
        values = np.broadcast_to(values, (channels,)).astype(np.float64)
        one, zero = np.ones(len(values)), np.zeros(len(values))
        if node.target is aten.mul.Tensor:
            return x, values, zero
        if node.target is aten.div.Tensor:
            return x, 1 / values, zero
        if node.target is aten.add.Tensor:
            return x, one, values
        return (x, -one, values) if swapped else (x, one, -values)
    return None


def _by_channel(operand: Any, rank: int, constants: Constants) -> Float | None:
    """A constant that differs by channel only, as a vector of channels or of one element."""
    if isinstance(operand, int | float):
        return np.asarray([operand], np.float64)
    if not isinstance(operand, Node) or operand not in constants:
        return None
    value = np.asarray(constants[operand].double().numpy(), np.float64)
    if value.ndim > rank:
        return None
    value = value.reshape((1,) * (rank - value.ndim) + value.shape)
    return value.reshape(-1) if value.size == value.shape[1] else None


def _batch_norm(norm: Node, constants: Constants) -> tuple[Node, Float, Float] | None:
    """γ · (x − mean) / √(variance + ε) + β, by its own statistics."""
    given = arguments(norm)
    if given.get("training"):
        return None
    defaults = {"weight": 1.0, "bias": 0.0, "running_mean": None, "running_var": None}
    found = []
    for name, default in defaults.items():
        operand = default if given[name] is None else given[name]
        if operand is None or (isinstance(operand, Node) and operand not in constants):
            return None
        value = constants[operand].double().numpy() if isinstance(operand, Node) else [operand]
        found.append(np.asarray(value, np.float64))
    gamma, beta, mean, variance = found
    a = gamma / np.sqrt(variance + given["eps"])
    return given["input"], a, beta - mean * a

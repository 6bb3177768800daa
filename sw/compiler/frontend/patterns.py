"""Groups of nodes that one rule imports: RMS norms, and convolutions with what scales them.

A matcher looks at the last node of a group and gives its plan, or None.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any, Protocol

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


class Chains(Protocol):
    """What a planner knows of chains of functions of one value. `roots`: of each node in one."""

    roots: dict[Node, Node]

    def root(self, node: Node) -> Node:
        """The value that `node` is a function of; itself if it is none."""

    def function(self, node: Node, root: Node) -> Callable[[torch.Tensor], torch.Tensor]:
        """The chain from `root` to `node`."""


def rms_norm(node: Node, constants: Constants, chains: Chains) -> Plan | None:
    """[γ ·] x over its own norm."""
    if node.target is aten.rms_norm.default:
        given = arguments(node)
        data = {"eps": float(given["eps"] or 1.2e-7), "gamma": given["weight"]}
        return Plan(rule="rms_norm", reads=(given["input"],), data=data)
    if node.target is aten.mul.Tensor:
        for gamma, inner in (node.args[:2], node.args[1::-1]):
            core = same(inner)
            if not isinstance(core, Node) or gamma not in constants or len(core.users) != 1:
                continue
            found, sizes = unit_rows(core, chains), shape(core)
            along = found is not None and found.data["axis"] == len(sizes) - 1
            if found is not None and along and constants[gamma].numel() == sizes[-1]:
                found.data["gamma"] = gamma
                return found
    return unit_rows(node, chains)


_DECADES = torch.tensor([1e2, 1e4, 1e6, 1e8], dtype=torch.float64)


def unit_rows(node: Node, chains: Chains) -> Plan | None:
    """x over a multiple of the root of Σx² or of its mean, however that is written: `normalize`,
    x / (x.norm() + ε), a layer norm in separate operators behind its subtraction.
    """
    if node.target not in (aten.mul.Tensor, aten.div.Tensor):
        return None
    divided = node.target is aten.div.Tensor
    for x, factor in (node.args[:2],) if divided else (node.args[:2], node.args[1::-1]):
        by = _unexpanded(factor)
        if not isinstance(x, Node) or by is None or shape(x) != shape(node):
            continue
        total = chains.root(by)
        total = chains.roots.get(total, total)  # a bound begins a chain of its own
        axis, times = _squares_along(total, x), 1.0
        if axis is None:
            x, times = _unscaled(x)
            axis = _squares_along(total, x)
        if axis is None:
            continue
        f = chains.function(by, total)
        at = torch.cat([torch.zeros(1, dtype=torch.float64), _DECADES])
        values = f(at) if divided else 1 / f(at)
        slopes = values[1:] / _DECADES.sqrt()
        slope = float(slopes[-1])
        if not slope > 0 or bool(((slopes - slope).abs() > 1e-3 * slope).any()):
            continue
        if not math.isfinite(values[0]):
            continue
        # A bound, or what is added to a root, is as good as an ε below it where it is small.
        least = (float(values[0]) / slope) ** 2
        near = least * _DECADES / 1e5
        roots = f(near) if divided else 1 / f(near)
        off = roots / (slope * (near + least).sqrt()) - 1
        if least > _SMALL**2 and bool((off.abs() > 1e-2).any()):
            continue
        size = shape(x)[axis] if total.target is aten.sum.dim_IntList else 1
        data = {
            "eps": least / size,
            "gamma": None,
            "factor": times / (slope * size**0.5),
            "axis": axis,
        }
        return Plan(rule="rms_norm", reads=(x,), data=data)
    return None


_SMALL = 2e-5
"""A norm below which no row matters: what is added to norms is smaller."""


def _unscaled(node: Any) -> tuple[Any, float]:
    """What is multiplied by positive numbers, and their product."""
    times = 1.0
    while isinstance(node, Node) and node.target in (aten.mul.Tensor, aten.div.Tensor):
        value, by = same(node.args[0]), node.args[1]
        if not isinstance(by, int | float) or by <= 0:
            break
        times = times * by if node.target is aten.mul.Tensor else times / by
        node = value
    return node, times


def _unexpanded(node: Any) -> Node | None:
    """What is expanded along dimensions of one element, if it is a tensor."""
    node = same(node)
    if isinstance(node, Node) and node.target is aten.expand.default:
        node = same(node.args[0])
    return node if isinstance(node, Node) else None


def _squares_along(node: Node, x: Node) -> int | None:
    """The dimension, of several elements, along which `node` is the sum or the mean of x²; its
    results keep that dimension.
    """
    if node.target not in (aten.sum.dim_IntList, aten.mean.dim):
        return None
    given, sizes = arguments(node), shape(x)
    axes = [a % len(sizes) for a in given["dim"] or ()]
    if len(axes) != 1 or not given["keepdim"] or sizes[axes[0]] == 1:
        return None
    square = same(node.args[0])
    if square.target is aten.pow.Tensor_Scalar and square.args[1] == 2:
        factors = square.args[:1]
    elif square.target in (aten.square.default, aten.mul.Tensor):
        factors = square.args[:2]
    else:
        return None
    return axes[0] if all(_alike(factor, x) for factor in factors) else None


def _alike(a: Any, b: Any, depth: int = 3) -> bool:
    """Whether two values are the same, or computed by the same operators of the same values."""
    a, b = same(a), same(b)
    if a is b or not isinstance(a, Node) or not isinstance(b, Node):
        return bool(a == b)
    if depth == 0 or a.op != "call_function" or a.target is not b.target:
        return False
    if a.kwargs != b.kwargs or len(a.args) != len(b.args):
        return False
    return all(_alike(x, y, depth - 1) for x, y in zip(a.args, b.args, strict=True))


# Convolutions -------------------------------------------------------------------------------------


def convolution(node: Node, constants: Constants) -> Plan | None:
    """A convolution by constant weights and the affine maps of its channels that follow it.

    Batch norms, and sums and products with constants: data has `factor` and `offset` by channel.
    """
    if len(shape(node)) < 3:
        return None
    at, factor, offset = channel_affines(node, constants)
    alone = at is node or len(at.users) == 1
    if at.target not in CONVOLUTIONS or not alone or node_argument(at, 1) not in constants:
        return None
    data = {"factor": factor, "offset": offset}
    return Plan(rule="convolution", reads=(node_argument(at, 0),), data=data, call=at)


def channel_affines(node: Node, constants: Constants) -> tuple[Node, Float, Float]:
    """(x, a, b) where `node` is a[c] · x + b[c]: back to a convolution, or what others read too."""
    channels = shape(node)[1]
    at, factor, offset = node, np.ones(channels), np.zeros(channels)
    while at.target not in CONVOLUTIONS and (at is node or len(at.users) == 1):
        step = channel_affine(at, constants)
        if step is None:
            break
        at, a, b = step
        factor, offset = factor * a, factor * b + offset
    return at, factor, offset


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

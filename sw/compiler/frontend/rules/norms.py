"""Norms: of the last dimension, and of groups of channels."""

import math
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from torch.fx import Node

from spec.sequences import group_norm as group_norm_of
from spec.sequences import layer_norm as layer_norm_of
from spec.sequences import norm_reach
from spec.sequences import rms_norm as rms_norm_of
from sw.compiler.frontend.building import Value
from sw.compiler.frontend.importer import Importer
from sw.compiler.frontend.layout import Layout
from sw.compiler.frontend.nodes import arguments
from sw.compiler.frontend.operator_sets import Plan
from sw.compiler.frontend.quantization.formats import Format
from sw.compiler.frontend.rules.convolutions import scaled

Float = NDArray[np.float64]


def layer_norm(im: Importer, node: Node, plan: Plan) -> Value:
    (source,) = plan.reads
    given = arguments(plan.source)
    gamma, beta, eps = im.constant(given["weight"]), im.constant(given["bias"]), given["eps"]
    value = im.ordered(im.int16(source))
    want = _norm_format(im, node)
    operators = layer_norm_of(value.shape, value.step, eps, gamma, beta, want.scale, want.dtype)
    (out,) = im.sequence(node, operators, value.tensor)
    return Value(tensor=out, layout=Layout.of(value.shape), scale=want.scale)


def group_norm(im: Importer, node: Node, plan: Plan) -> Value:
    """With channels innermost as memory has them, or group by group where pixels are innermost."""
    (source,) = plan.reads
    given = arguments(plan.source)
    groups, eps = given.get("num_groups") or given["group"], given["eps"]
    gamma, beta = im.constant(given["weight"]), im.constant(given["bias"])
    value = im.int16(source)
    samples, channels, *_ = value.shape
    pixels = math.prod(value.shape[2:])
    if pixels > 1 and value.layout.is_ordered(range(len(value.shape))):
        return _rows_of_groups(im, node, value, groups, eps, gamma, beta)
    own = value.layout.axes or range(len(value.shape))
    value = im.ordered(value, (0, *(a for a in own if a > 1), 1))
    want = _norm_format(im, node)
    memory = (samples, pixels, channels)
    operators = group_norm_of(memory, groups, value.step, eps, gamma, beta, want.scale, want.dtype)
    (out,) = im.sequence(node, operators, im.reshaped(value.tensor, memory))
    shaped = im.reshaped(out, im.graph.tensors[value.tensor].shape)
    return replace(value, tensor=shaped, scale=want.scale, axis=want.axis)


def _rows_of_groups(
    im: Importer,
    node: Node,
    value: Value,
    groups: int,
    eps: float,
    gamma: Float | None,
    beta: Float | None,
) -> Value:
    """A layer norm of each group, then the affine map of the channels."""
    rows = (value.shape[0] * groups, math.prod(value.shape[1:]) // groups)
    bound = min(norm_reach(rows[1], value.step, eps), 16.0)
    scale = bound / 32767
    operators = layer_norm_of(rows, value.step, eps, None, None, scale, "int16")
    (out,) = im.sequence(node, operators, im.reshaped(value.tensor, rows))
    made = replace(value, tensor=im.reshaped(out, value.shape), scale=scale)
    a = np.ones(1) if gamma is None else gamma
    return scaled(im, node, made, a, np.zeros(1) if beta is None else beta, bound)


def rms_norm(im: Importer, node: Node, plan: Plan) -> Value:
    (source,) = plan.reads
    value = im.ordered(im.int16(source))
    gamma = im.constant(plan.data["gamma"])
    want = _norm_format(im, node)
    operators = rms_norm_of(
        value.shape, value.step, plan.data["eps"], gamma, want.scale, want.dtype
    )
    (out,) = im.sequence(node, operators, value.tensor)
    return Value(tensor=out, layout=Layout.of(value.shape), scale=want.scale)


def _norm_format(im: Importer, node: Node) -> Format:
    want = im.formats.of(node)
    if want.zero_point:
        return im.formats.symmetric(node)
    return im.formats.wide(node) if want.dtype == "int32" else want

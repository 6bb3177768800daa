"""Norms: of the last dimension, and of groups of channels."""

import math
from dataclasses import replace

import numpy as np
from torch.fx import Node

from spec.sequences import group_norm as group_norm_of
from spec.sequences import layer_norm as layer_norm_of
from spec.sequences import rms_norm as rms_norm_of
from sw.compiler.frontend.building import Value
from sw.compiler.frontend.importer import Importer
from sw.compiler.frontend.layout import Layout
from sw.compiler.frontend.nodes import arguments
from sw.compiler.frontend.operator_sets import Plan
from sw.compiler.frontend.quantization.formats import Format

_LEAST = 1e-2
"""Part of the square of one step that is added to the squares of a row."""


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
    """Channels innermost, as most values behind convolutions have them."""
    (source,) = plan.reads
    given = arguments(plan.source)
    groups, eps = given.get("num_groups") or given["group"], given["eps"]
    gamma, beta = im.constant(given["weight"]), im.constant(given["bias"])
    value = im.int16(source)
    samples, channels, *_ = value.shape
    pixels = math.prod(value.shape[2:])
    own = value.layout.axes or range(len(value.shape))
    value = im.ordered(value, (0, *(a for a in own if a > 1), 1))
    want = _norm_format(im, node)
    memory = (samples, pixels, channels)
    operators = group_norm_of(memory, groups, value.step, eps, gamma, beta, want.scale, want.dtype)
    (out,) = im.sequence(node, operators, im.reshaped(value.tensor, memory))
    shaped = im.reshaped(out, im.graph.tensors[value.tensor].shape)
    return replace(value, tensor=shaped, scale=want.scale, axis=want.axis)


def rms_norm(im: Importer, node: Node, plan: Plan) -> Value:
    """Along the last dimension, or another one, which then lies innermost."""
    (source,) = plan.reads
    value = im.int16(source)
    rank = len(value.shape)
    axis = plan.data.get("axis", rank - 1)
    order = [*(a for a in range(rank) if a != axis), axis]
    value = im.ordered(replace(value, layout=value.layout.permute(order)))
    gamma = im.constant(plan.data["gamma"])
    want = _norm_format(im, node)
    if isinstance(want.scale, np.ndarray) and want.axis % rank != axis:
        want = im.formats.wide(node)
    scale = want.scale / plan.data.get("factor", 1.0)
    # Rows of zeros stay zeros where the model has no ε.
    eps = max(plan.data["eps"], _LEAST * value.step**2 / value.shape[-1])
    operators = rms_norm_of(value.shape, value.step, eps, gamma, scale, want.dtype)
    (out,) = im.sequence(node, operators, value.tensor)
    layout = Layout.of(value.shape).permute([order.index(a) for a in range(rank)])
    return Value(tensor=out, layout=layout, scale=want.scale, axis=want.axis)


def _norm_format(im: Importer, node: Node) -> Format:
    want = im.formats.of(node)
    if want.zero_point:
        return im.formats.symmetric(node)
    return im.formats.wide(node) if want.dtype == "int32" else want

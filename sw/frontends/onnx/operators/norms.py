"""Normalizations."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor as T

from sw.frontends.onnx.node import Node
from sw.frontends.onnx.operators.operator import op


def _batch(node: Node, x: T, scale: T, bias: T, mean: T, variance: T) -> T:
    node.ignore("momentum", "spatial")
    node.only("training_mode", 0)
    return F.batch_norm(x, mean, variance, scale, bias, False, 0.0, node.get("epsilon", 1e-5))


def _layer(node: Node, x: T, scale: T, bias: T | None = None) -> Any:
    node.ignore("stash_type")
    axis, epsilon = node.get("axis", -1) % x.dim(), node.get("epsilon", 1e-5)
    flat = x.flatten(axis) if axis < x.dim() - 1 else x  # one dimension, as the NPU's norm has
    whole = all(t is None or t.shape == x.shape[axis:] for t in (scale, bias))
    factor = scale.flatten() if whole else None
    shift = bias.flatten() if whole and bias is not None else None
    y = F.layer_norm(flat, flat.shape[-1:], factor, shift, epsilon).reshape(x.shape)
    if not whole:
        y = y * scale if bias is None else y * scale + bias
    if not (node.wants(1) or node.wants(2)):
        return y
    axes = list(range(axis, x.dim()))
    variance, mean = torch.var_mean(x, axes, correction=0, keepdim=True)
    return y, mean, torch.rsqrt(variance + epsilon)


def _rms(node: Node, x: T, scale: T) -> T:
    node.ignore("stash_type")
    axis, epsilon = node.get("axis", -1) % x.dim(), node.get("epsilon", 1e-5)
    shape = x.shape[axis:]
    if scale.shape == shape:
        return F.rms_norm(x, shape, scale, epsilon)
    return F.rms_norm(x, shape, None, epsilon) * scale


def _instance(node: Node, x: T, scale: T, bias: T) -> T:
    return F.instance_norm(x, None, None, scale, bias, eps=node.get("epsilon", 1e-5))


def _group(node: Node, x: T, scale: T, bias: T) -> T:
    node.ignore("stash_type")
    return F.group_norm(x, node.get("num_groups"), scale, bias, node.get("epsilon", 1e-5))


def _lp(node: Node, x: T) -> T:
    norm = torch.linalg.vector_norm(x, node.only("p", 2, 1), node.get("axis", -1), keepdim=True)
    return torch.where(norm == 0, torch.zeros_like(x), x / norm)


def _local_response(node: Node, x: T) -> T:
    size, alpha = node.get("size"), node.get("alpha", 1e-4)
    squares = F.pad((x * x).unsqueeze(1), [0] * 2 * (x.dim() - 2) + [(size - 1) // 2, size // 2])
    sums = squares.unfold(2, size, 1).sum(-1).squeeze(1)
    return x / (node.get("bias", 1.0) + alpha / size * sums) ** node.get("beta", 0.75)


NORMS = {
    "BatchNormalization": op(_batch),
    "LayerNormalization": op(_layer),
    "RMSNormalization": op(_rms),
    "InstanceNormalization": op(_instance),
    "GroupNormalization": op(_group),
    "LpNormalization": op(_lp),
    "LRN": op(_local_response),
}

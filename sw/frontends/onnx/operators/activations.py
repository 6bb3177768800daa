"""Activation functions and softmax."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor as T

from sw.frontends.onnx.node import Node
from sw.frontends.onnx.operators.operator import op

_SELU = (1.67326319217681884765625, 1.05070102214813232421875)


def _elu(node: Node, x: T) -> T:
    return F.elu(x, node.get("alpha", 1.0))


def _selu(node: Node, x: T) -> T:
    alpha, gamma = node.get("alpha", _SELU[0]), node.get("gamma", _SELU[1])
    return F.selu(x) if (alpha, gamma) == _SELU else gamma * F.elu(x, alpha)


def _celu(node: Node, x: T) -> T:
    return F.celu(x, node.get("alpha", 1.0))


def _leaky_relu(node: Node, x: T) -> T:
    return F.leaky_relu(x, node.get("alpha", 0.01))


def _prelu(node: Node, x: T, slope: T) -> T:
    channels = x.shape[1] if x.dim() > 1 else 1
    by_channel = slope.dim() == x.dim() - 1 and slope.shape[:1] == (channels,)
    if slope.numel() == 1 or (by_channel and slope.numel() == channels):
        return F.prelu(x, slope.reshape(-1))
    return torch.where(x < 0, x * slope, x)


def _hard_sigmoid(node: Node, x: T) -> T:
    alpha, beta = node.get("alpha", 0.2), node.get("beta", 0.5)
    if abs(alpha - 1 / 6) < 1e-7 and beta == 0.5:
        return F.hardsigmoid(x)
    return torch.clamp(alpha * x + beta, 0.0, 1.0)


def _gelu(node: Node, x: T) -> T:
    return F.gelu(x, approximate=node.only("approximate", "none", "tanh"))


def _swish(node: Node, x: T) -> T:
    alpha = node.get("alpha", 1.0)
    return F.silu(x) if alpha == 1 else x * torch.sigmoid(alpha * x)


def _thresholded_relu(node: Node, x: T) -> T:
    return F.threshold(x, node.get("alpha", 1.0), 0.0)


def _shrink(node: Node, x: T) -> T:
    bias, lambd = node.get("bias", 0.0), node.get("lambd", 0.5)
    zero = torch.zeros_like(x)
    return torch.where(x < -lambd, x + bias, torch.where(x > lambd, x - bias, zero)).to(x.dtype)


def _softmax(node: Node, x: T) -> T:
    return F.softmax(x, node.get("axis", -1))


def _log_softmax(node: Node, x: T) -> T:
    return F.log_softmax(x, node.get("axis", -1))


def _hardmax(node: Node, x: T) -> T:
    axis = node.get("axis", -1) % x.dim()
    hot = F.one_hot(torch.argmax(x, axis), x.shape[axis])
    return torch.movedim(hot, -1, axis).to(x.dtype)


def _plain(function: Any) -> Any:
    return op(lambda node, x: function(x))


ACTIVATIONS = {
    "Relu": _plain(F.relu),
    "Sigmoid": _plain(torch.sigmoid),
    "Tanh": _plain(torch.tanh),
    "HardSwish": _plain(F.hardswish),
    "Mish": _plain(F.mish),
    "Softplus": _plain(F.softplus),
    "Softsign": _plain(F.softsign),
    "Elu": op(_elu),
    "Selu": op(_selu),
    "Celu": op(_celu),
    "LeakyRelu": op(_leaky_relu),
    "PRelu": op(_prelu),
    "HardSigmoid": op(_hard_sigmoid),
    "Gelu": op(_gelu),
    "Swish": op(_swish),
    "ThresholdedRelu": op(_thresholded_relu),
    "Shrink": op(_shrink),
    "Softmax": op(_softmax),
    "LogSoftmax": op(_log_softmax),
    "Hardmax": op(_hardmax),
}

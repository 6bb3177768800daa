"""Functions of elements: arithmetic, activations, choice, casts."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from sw.frontends.litert.call import Call
from sw.frontends.litert.grids import is_quantized

Function = Callable[..., Tensor]


def plain(function: Function) -> Function:
    """An operator that is one function of its operands."""
    return lambda _, *operands: function(*operands)


def activated(function: Function) -> Function:
    """The same with an activation fused."""
    return lambda call, *operands: call.activated(function(*operands))


def divided(a: Tensor, b: Tensor) -> Tensor:
    """Integers towards zero."""
    return a / b if a.is_floating_point() else torch.div(a, b, rounding_mode="trunc")


def added(*operands: Tensor) -> Tensor:
    total = operands[0]
    for operand in operands[1:]:
        total = total + operand
    return total


def leaky_relu(call: Call, x: Tensor) -> Tensor:
    return F.leaky_relu(x, float(call.options.Alpha()))


def prelu(x: Tensor, alpha: Tensor) -> Tensor:
    """alpha broadcasts to x, mostly [1, 1, C]."""
    return torch.relu(x) - alpha * torch.relu(-x)


def gelu(call: Call, x: Tensor) -> Tensor:
    return F.gelu(x, approximate="tanh" if call.options.Approximate() else "none")


def softmax(call: Call, x: Tensor) -> Tensor:
    beta = float(call.options.Beta())
    return torch.softmax(x if beta == 1 else x * beta, -1)


def l2_normalization(call: Call, x: Tensor) -> Tensor:
    """Over the last dimension; a row of zeros stays one."""
    total = torch.square(x).sum(-1, keepdim=True)
    return call.activated(x * torch.rsqrt(torch.clamp_min(total, 1e-12)))


def cast(call: Call, x: Tensor) -> Tensor:
    """To the type of the result. LiteRT would cast the integers of a quantized tensor."""
    source = call.inputs[0]
    if source is not None and is_quantized(source):
        call.fail("a cast of quantized values", "dequantize them before the cast", source)
    return x.to(getattr(torch, call.outputs[0].dtype))


def select(condition: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """A condition of one dimension chooses rows."""
    if condition.dim() == 1 and a.dim() > 1:
        condition = condition.reshape(-1, *[1] * (a.dim() - 1))
    return torch.where(condition, a, b)

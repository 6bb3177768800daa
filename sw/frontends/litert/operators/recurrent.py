"""LSTM and RNN over a sequence. Their states begin at zero in each call."""

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from sw.frontends.litert.call import Call

_INPUT, _RECURRENT, _BIAS = (1, 2, 3, 4), (5, 6, 7, 8), (12, 13, 14, 15)
"""Operands of the gates i, f, c, o, which is PyTorch's order."""

LSTM_VALUES = (0, *_INPUT, *_RECURRENT, *_BIAS)
RNN_VALUES = (0, 1, 2, 3)
_TANH = 4


def lstm(call: Call, x: Tensor, *operands: Tensor | None) -> Tensor:
    """UNIDIRECTIONAL_SEQUENCE_LSTM: x [N, T, C], or [T, N, C] where it is time-major."""
    options = call.options
    _require(call, int(options.FusedActivationFunction()) == _TANH, "another activation than TANH")
    _require(call, not options.ProjClip(), "a clip of the projection")
    _require(call, all(t is not None for t in operands), "gates without weights or biases")
    for first, last, what in (
        (9, 12, "peepholes"), (16, 18, "a projection"), (20, 24, "norms of gates"),
    ):  # fmt: skip
        _require(call, not any(call.has(i) for i in range(first, last)), what)
    given: list[Tensor] = [t for t in operands if t is not None]
    w, r, bias = (torch.cat(given[i : i + 4]) for i in (0, 4, 8))
    x = x if options.TimeMajor() else x.transpose(0, 1)
    zeros = torch.zeros(x.shape[1], r.shape[1], dtype=x.dtype)
    clip = float(options.CellClip())
    if 0 < clip < x.shape[0]:  # a step adds at most 1 to the cell
        y = _steps(x, zeros, lambda xt, state: _cell(xt, state, w, r, bias, clip))
    else:
        state = (zeros[None], zeros[None])
        none = torch.zeros_like(bias)
        y = torch.lstm(x, state, [w, r, bias, none], True, 1, 0.0, False, False, False)[0]
    return y if options.TimeMajor() else y.transpose(0, 1)


def rnn(call: Call, x: Tensor, w: Tensor, r: Tensor, bias: Tensor) -> Tensor:
    """UNIDIRECTIONAL_SEQUENCE_RNN."""
    x = x if call.options.TimeMajor() else x.transpose(0, 1)
    zeros = torch.zeros(x.shape[1], r.shape[0], dtype=x.dtype)

    def step(xt: Tensor, state: Any) -> tuple[Tensor, Any]:
        h = call.activated(F.linear(xt, w, bias) + F.linear(state[0], r))
        return h, (h,)

    y = _steps(x, zeros, step)
    return y if call.options.TimeMajor() else y.transpose(0, 1)


def _steps(x: Tensor, zeros: Tensor, step: Callable[[Tensor, Any], tuple[Tensor, Any]]) -> Tensor:
    """The results of all steps, one after the other."""
    state: Any = (zeros, zeros)
    made = []
    for t in range(x.shape[0]):
        h, state = step(x[t], state)
        made.append(h)
    return torch.stack(made)


def _cell(
    x: Tensor, state: tuple[Tensor, Tensor], w: Tensor, r: Tensor, bias: Tensor, clip: float
) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    h, c = state
    i, f, g, o = (F.linear(x, w, bias) + F.linear(h, r)).chunk(4, -1)
    c = torch.clamp(torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g), -clip, clip)
    h = torch.sigmoid(o) * torch.tanh(c)
    return h, (h, c)


def _require(call: Call, holds: bool, what: str) -> None:
    if not holds:
        call.fail(f"it has {what}", "convert the model with a plain recurrent layer")

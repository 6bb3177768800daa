"""Recurrent networks step by step: LSTM, GRU and RNN, and their cells.

The input's part of the gates is one linear layer for all steps; each step adds the state's part.
Weights of a layer come as (input, hidden[, input bias, hidden bias][, projection]) by direction.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import linear

State = tuple[Tensor, ...]
Step = Callable[[Tensor, State, Sequence[Any]], State]
"""(the input's part of the gates, state, weights) to the next state, whose first is the output."""

_STEPS = 512
"""Steps that are unrolled at most: each is a layer of its own."""


def lstm_data(*_: Any) -> Any:
    raise ValueError("packed sequences have steps of different sizes; pad them instead")


gru_data = rnn_tanh_data = rnn_relu_data = lstm_data


def _layers(step: Step, x: Tensor, state: Any, weights: Sequence[Tensor], biased: bool, layers: int,
            dropout: float, train: bool, both: bool, batch_first: bool) -> State:  # fmt: skip
    if train and dropout:
        raise ValueError("dropout between the layers in training mode is random")
    state = [state] if isinstance(state, Tensor) else list(state)
    axis = 1 if batch_first else 0
    if x.shape[axis] > _STEPS:
        raise ValueError(f"{x.shape[axis]} steps: at most {_STEPS} are unrolled")
    directions = 2 if both else 1
    each = len(weights) // (layers * directions)
    last: list[State] = []
    for layer in range(layers):
        made = []
        for direction in range(directions):
            at = layer * directions + direction
            own = list(weights[at * each : (at + 1) * each])
            start = tuple(s[at] for s in state)
            outputs, end = _run(step, x, start, own, biased, axis, bool(direction))
            made.append(outputs)
            last.append(end)
        x = torch.cat(made, -1) if both else made[0]
    ends = (torch.stack([end[i] for end in last]) for i in range(len(state)))
    return (x, *ends)


def _run(step: Step, x: Tensor, state: State, weights: Sequence[Tensor], biased: bool, axis: int,
         backwards: bool) -> tuple[Tensor, State]:  # fmt: skip
    """One direction of a layer: (outputs of all steps, last state)."""
    bias = weights[2] if biased else None
    hidden = [weights[1], weights[3] if biased else None, *weights[4 if biased else 2 :]]
    gates = linear(x, weights[0], bias)
    outputs: list[Tensor] = []
    times = range(x.shape[axis])
    for t in reversed(times) if backwards else times:
        state = step(gates.select(axis, t), state, hidden)
        outputs.append(state[0])
    return torch.stack(outputs[::-1] if backwards else outputs, axis), state


def _lstm_step(gates: Tensor, state: State, weights: Sequence[Any]) -> State:
    h, c = state
    i, f, g, o = (gates + linear(h, weights[0], weights[1])).chunk(4, -1)
    c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
    h = torch.sigmoid(o) * torch.tanh(c)
    if len(weights) > 2:
        h = linear(h, weights[2])
    return h, c


def _gru_step(gates: Tensor, state: State, weights: Sequence[Any]) -> State:
    (h,) = state
    r, z, n = gates.chunk(3, -1)
    of_r, of_z, of_n = linear(h, weights[0], weights[1]).chunk(3, -1)
    reset, update = torch.sigmoid(r + of_r), torch.sigmoid(z + of_z)
    new = torch.tanh(n + reset * of_n)
    return (new + update * (h - new),)


def _tanh_step(gates: Tensor, state: State, weights: Sequence[Any]) -> State:
    return (torch.tanh(gates + linear(state[0], weights[0], weights[1])),)


def _relu_step(gates: Tensor, state: State, weights: Sequence[Any]) -> State:
    return (torch.relu(gates + linear(state[0], weights[0], weights[1])),)


def _network(step: Step) -> Callable[..., State]:
    """(outputs of the last layer, last states), of the arguments of `_layers`."""
    return lambda *given: _layers(step, *given)


lstm, gru = map(_network, (_lstm_step, _gru_step))
rnn_tanh, rnn_relu = map(_network, (_tanh_step, _relu_step))


# Cells --------------------------------------------------------------------------------------------


def _cell(step: Step) -> Callable[..., Tensor]:
    def run(x: Tensor, state: Tensor, w: Tensor, v: Tensor, b: Any = None, c: Any = None) -> Tensor:
        return step(linear(x, w, b), (state,), [v, c])[0]

    return run


def lstm_cell(x: Tensor, state: Any, w: Tensor, v: Tensor, b: Any = None, c: Any = None) -> State:
    return _lstm_step(linear(x, w, b), tuple(state), [v, c])


gru_cell, rnn_tanh_cell, rnn_relu_cell = map(_cell, (_gru_step, _tanh_step, _relu_step))

"""LSTM, GRU and RNN, as PyTorch's own."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor as T

from sw.frontends.onnx.errors import refused
from sw.frontends.onnx.node import Node
from sw.frontends.onnx.operators.operator import op

_DEFAULT = {"LSTM": ["sigmoid", "tanh", "tanh"], "GRU": ["sigmoid", "tanh"], "RNN": ["tanh"]}
_ORDER = {"LSTM": (0, 2, 3, 1), "GRU": (1, 0, 2), "RNN": (0,)}
"""PyTorch's gates among ONNX's: i o f c of an LSTM, z r h of a GRU."""


def _activations(node: Node, directions: int) -> list[str]:
    default = _DEFAULT[node.op]
    given = [a.lower() for a in node.get("activations", default * directions)]
    alone = given[: len(default)]
    known = [["tanh"], ["relu"]] if node.op == "RNN" else [default]
    if alone not in known or given != alone * directions:
        raise refused(f"activations {', '.join(given)}", f"use {', '.join(default)}")
    return alone


def _arranged(node: Node, weight: T) -> T:
    """(gates·H, …) of one direction in PyTorch's order."""
    gates = weight.chunk(len(_ORDER[node.op]), 0)
    return torch.cat([gates[i] for i in _ORDER[node.op]])


def _parameters(node: Node, w: T, r: T, b: T | None) -> list[T]:
    found: list[T] = []
    for i in range(w.shape[0]):
        found += [_arranged(node, w[i]), _arranged(node, r[i])]
        if b is not None:
            found += [_arranged(node, half) for half in b[i].chunk(2)]
    return found


def _recurrent(
    node: Node,
    x: T,
    w: T,
    r: T,
    b: T | None = None,
    lengths: Any = None,
    h: T | None = None,
    c: T | None = None,
    peepholes: T | None = None,
) -> Any:
    """x (T, N, C); with layout 1 (N, T, C). Results Y (T, D, N, H), Y_h, Y_c (D, N, H)."""
    node.ignore("hidden_size")
    direction = node.only("direction", "forward", "bidirectional", "reverse")
    directions = 2 if direction == "bidirectional" else 1
    first = bool(node.only("layout", 0, 1))
    node.only("input_forget", 0)
    if node.op == "GRU":
        node.only("linear_before_reset", 1)
        if "linear_before_reset" not in node.attributes:
            raise refused("linear_before_reset is 0", "export a GRU as PyTorch computes it")
    if peepholes is not None:
        raise refused("peepholes (operand P)")
    activations = _activations(node, directions)
    if first:
        x, h, c = (t if t is None else t.transpose(0, 1) for t in (x, h, c))
    if lengths is not None and (lengths != x.shape[0]).any():
        raise refused("sequences of different lengths", "pad them to one length")
    x = x.flip([0]) if direction == "reverse" else x
    zeros = torch.zeros(directions, x.shape[1], r.shape[-1], dtype=x.dtype)
    h, c = (zeros if t is None else t for t in (h, c))
    flags: Sequence[Any] = (b is not None, 1, 0.0, False, directions == 2, False)
    parameters = _parameters(node, w, r, b)
    states: tuple[T, ...]
    if node.op == "LSTM":
        y, *rest = torch.lstm(x, (h, c), parameters, *flags)
        states = tuple(rest)
    else:
        function = {"gru": torch.gru, "tanh": torch.rnn_tanh, "relu": torch.rnn_relu}
        kind = "gru" if node.op == "GRU" else activations[0]
        y, *rest = function[kind](x, h, parameters, *flags)
        states = tuple(rest)
    y = y.flip([0]) if direction == "reverse" else y
    y = y.reshape(x.shape[0], x.shape[1], directions, -1).transpose(1, 2)
    if first:
        return (y.permute(2, 0, 1, 3), *(s.transpose(0, 1) for s in states))
    return (y, *states)


RECURRENT = {name: op(_recurrent, static=(4,)) for name in _DEFAULT}

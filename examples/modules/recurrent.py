"""Recurrent networks: PyTorch's layers, their cells, and an encoder with a decoder.

systola run examples/modules/recurrent.py:lstm
"""

import torch
from torch import nn


class _Tagger(nn.Module):
    """A recurrent layer and a linear layer on each of its steps."""

    def __init__(self, layer: nn.Module, width: int) -> None:
        super().__init__()
        self.layer, self.head = layer, nn.Linear(width, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        steps, _ = self.layer(x)
        return self.head(steps)


def lstm():
    """`nn.LSTM` over 10 steps"""
    torch.manual_seed(0)
    return _Tagger(nn.LSTM(8, 16, batch_first=True), 16), torch.randn(1, 10, 8)


def lstm_two_layers():
    """`nn.LSTM`, two layers in both directions"""
    torch.manual_seed(0)
    layer = nn.LSTM(8, 12, num_layers=2, bidirectional=True, batch_first=True)
    return _Tagger(layer, 24), 3 * torch.randn(1, 6, 8)


def gru_bidirectional():
    """`nn.GRU` in both directions"""
    torch.manual_seed(0)
    return _Tagger(nn.GRU(8, 8, bidirectional=True, batch_first=True), 16), torch.randn(1, 10, 8)


def rnn():
    """`nn.RNN`, two layers with tanh"""
    torch.manual_seed(0)
    return _Tagger(nn.RNN(8, 16, 2, batch_first=True), 16), torch.randn(1, 10, 8)


class _Translator(nn.Module):
    """A GRU reads the source; an LSTM cell writes greedily, each step from the token before."""

    def __init__(self) -> None:
        super().__init__()
        self.source, self.target = nn.Embedding(30, 16), nn.Embedding(20, 16)
        self.encoder = nn.GRU(16, 16, batch_first=True)
        self.cell, self.head = nn.LSTMCell(16, 16), nn.Linear(16, 20, bias=False)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        _, last = self.encoder(self.source(ids))
        state = (last[0], torch.zeros_like(last[0]))
        token = torch.zeros_like(ids[:, 0])
        logits = []
        for _ in range(3):
            state = self.cell(self.target(token), state)
            logits.append(self.head(state[0]))
            token = logits[-1].argmax(-1)
        return torch.stack(logits, 1)


def sequence_to_sequence():
    """GRU encoder, LSTM cell as a greedy decoder: token ids in, three steps of logits out"""
    torch.manual_seed(0)
    return _Translator(), torch.randint(0, 30, (1, 6))


class _Speech(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(1, 6, 3, stride=2, padding=1)
        self.layer, self.head = nn.GRU(48, 16, batch_first=True), nn.Linear(16, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.relu(self.conv(x)).transpose(1, 2).flatten(2)
        return self.head(self.layer(x)[0]).log_softmax(-1)


def convolution_and_gru():
    """a convolution in front of a GRU, log_softmax behind it"""
    torch.manual_seed(0)
    return _Speech(), torch.randn(1, 1, 12, 16)

"""Recurrent networks: a GRU on features of speech, an LSTM on tokens."""

import torch
from torch import Tensor, nn

from sw.models.weights import seeded
from sw.models.wide.common import CALIBRATION, SAMPLES, WideNet, one_by_one, token_net
from sw.models.wide.sound import features


class _Speech(nn.Module):
    """Two layers of a GRU over 49 steps; the last state makes scores of twelve words."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(10, 64)
        self.body = nn.GRU(64, 128, num_layers=2, batch_first=True)
        self.out = nn.Linear(128, 12)

    def forward(self, x: Tensor) -> Tensor:
        states, _ = self.body(torch.relu(self.first(x)))
        found: Tensor = self.out(states[:, -1])
        return found


class _Tagger(nn.Module):
    """Tokens, embedded, through an LSTM; a score of each of twenty tags for each token."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(1000, 128)
        self.body = nn.LSTM(128, 192, batch_first=True)
        self.out = nn.Linear(192, 20)

    def forward(self, ids: Tensor) -> Tensor:
        states, _ = self.body(self.embed(ids))
        found: Tensor = self.out(states)
        return found


def gru(seed: int) -> WideNet:
    with seeded(seed):
        module = _Speech().eval()
    data = [features(CALIBRATION, seed), features(SAMPLES, seed + 1)]
    calls = [one_by_one(part.transpose(1, 2).contiguous()) for part in data]
    return WideNet(module=module, calibration=calls[0], samples=calls[1])


def lstm(seed: int) -> WideNet:
    with seeded(seed):
        module = _Tagger()
    return token_net(module, (1, 32), vocabulary=1000, seed=seed)

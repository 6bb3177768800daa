"""Convolutions in one dimension: raw sound, and a dilated causal network on features."""

import itertools

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from sw.models.sounds import word_features
from sw.models.wide.common import CALIBRATION, SAMPLES, WideNet, fitted

_RATE = 8000


def waves(count: int, samples: int, seed: int) -> Tensor:
    """Chords that rise or fall, with noise: [count, 1, samples] in about −1…1."""
    generator = torch.Generator().manual_seed(seed)

    def draw(*size: int) -> Tensor:
        return torch.rand(*size, generator=generator)

    time = torch.arange(samples) / _RATE
    pitch = 80 + 800 * draw(count, 4, 1)
    bend = (draw(count, 4, 1) - 0.5) * pitch
    tones = torch.sin(2 * torch.pi * (pitch * time + bend * time**2) + 6 * draw(count, 4, 1))
    envelope = torch.exp(-(((time - draw(count, 4, 1)) / (0.1 + draw(count, 4, 1))) ** 2))
    noise = torch.randn(count, samples, generator=generator)
    sound: Tensor = (draw(count, 4, 1) * envelope * tones).sum(1) / 2 + 0.02 * noise
    return sound[:, None]


def _conv(inputs: int, outputs: int, kernel: int, stride: int = 1) -> list[nn.Module]:
    layer = nn.Conv1d(inputs, outputs, kernel, stride, kernel // 2, bias=False)
    return [layer, nn.BatchNorm1d(outputs), nn.ReLU()]


def _audio() -> nn.Module:
    """M5 on a second at 8 kHz: a window of 80 samples, then layers of 3."""
    return nn.Sequential(
        *_conv(1, 64, 80, 4),
        nn.MaxPool1d(4),
        *_conv(64, 64, 3),
        nn.MaxPool1d(4),
        *_conv(64, 128, 3),
        nn.MaxPool1d(4),
        *_conv(128, 256, 3),
        nn.AdaptiveAvgPool1d(1),
        nn.Flatten(),
        nn.Linear(256, 35),
    )


class _Causal(nn.Module):
    """Two dilated convolutions that see only the past, and a residual."""

    def __init__(self, inputs: int, outputs: int, dilation: int) -> None:
        super().__init__()
        self.pad = 2 * dilation
        self.first = nn.Conv1d(inputs, outputs, 3, dilation=dilation, bias=False)
        self.second = nn.Conv1d(outputs, outputs, 3, dilation=dilation, bias=False)
        self.norms = nn.ModuleList([nn.BatchNorm1d(outputs), nn.BatchNorm1d(outputs)])
        self.side = nn.Conv1d(inputs, outputs, 1) if inputs != outputs else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        y = torch.relu(self.norms[0](self.first(F.pad(x, (self.pad, 0)))))
        y = torch.relu(self.norms[1](self.second(F.pad(y, (self.pad, 0)))))
        return torch.relu(y + self.side(x))


class _Temporal(nn.Module):
    """Features over time to scores of twelve words."""

    def __init__(self) -> None:
        super().__init__()
        sizes = (10, 64, 64, 64, 64)
        pairs = itertools.pairwise(sizes)
        self.body = nn.Sequential(*(_Causal(a, b, 1 << i) for i, (a, b) in enumerate(pairs)))
        self.out = nn.Linear(64, 12)

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = self.out(self.body(x)[:, :, -1])
        return found


def features(count: int, seed: int) -> Tensor:
    """MFCCs of made-up words: [count, 10 features, 49 steps]."""
    return torch.from_numpy(word_features(count, seed))[:, 0].transpose(1, 2).contiguous()


def audio(seed: int) -> WideNet:
    data = (waves(CALIBRATION, _RATE, seed), waves(SAMPLES, _RATE, seed + 1))
    return fitted(_audio, seed, *data)


def temporal(seed: int) -> WideNet:
    return fitted(_Temporal, seed, features(CALIBRATION, seed), features(SAMPLES, seed + 1))

"""Convolutions with norms of transformers: ConvNeXt; and perceptrons alone: MLP-Mixer."""

import torch
from torch import Tensor, nn

from sw.models.wide.common import WideNet, image_net


class _Permuted(nn.Module):
    """Layer norm over channels of NCHW."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(channels)

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = self.norm(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)
        return found


class _Next(nn.Module):
    """7×7 depthwise convolution, layer norm, two linear layers with GELU, layer scale."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.depthwise = nn.Conv2d(channels, channels, 7, padding=3, groups=channels)
        self.norm = nn.LayerNorm(channels)
        self.body = nn.Sequential(
            nn.Linear(channels, 4 * channels), nn.GELU(), nn.Linear(4 * channels, channels)
        )
        self.scale = nn.Parameter(torch.full((channels,), 0.5))

    def forward(self, x: Tensor) -> Tensor:
        y = self.body(self.norm(self.depthwise(x).permute(0, 2, 3, 1)))
        return x + (self.scale * y).permute(0, 3, 1, 2)


class _ConvNext(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        layers: list[nn.Module] = [nn.Conv2d(3, 48, 4, 4), _Permuted(48)]
        channels = 48
        for outputs, repeats in ((48, 1), (96, 1), (192, 2), (384, 1)):
            if outputs != channels:
                layers += [_Permuted(channels), nn.Conv2d(channels, outputs, 2, 2)]
                channels = outputs
            layers += [_Next(channels) for _ in range(repeats)]
        self.body = nn.Sequential(*layers)
        self.norm, self.out = nn.LayerNorm(channels), nn.Linear(channels, 1000)

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = self.out(self.norm(self.body(x).mean((2, 3))))
        return found


class _Mixer(nn.Module):
    """Linear layers over tokens and over channels, in turn."""

    def __init__(self, tokens: int, channels: int) -> None:
        super().__init__()
        self.norms = nn.ModuleList([nn.LayerNorm(channels), nn.LayerNorm(channels)])
        self.tokens = _perceptron(tokens, 128)
        self.channels = _perceptron(channels, 4 * channels)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.tokens(self.norms[0](x).transpose(1, 2)).transpose(1, 2)
        return x + self.channels(self.norms[1](x))


def _perceptron(size: int, hidden: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(size, hidden), nn.GELU(), nn.Linear(hidden, size))


class _MlpMixer(nn.Module):
    def __init__(self, size: int) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, 128, 16, 16)
        self.body = nn.Sequential(*(_Mixer((size // 16) ** 2, 128) for _ in range(4)))
        self.norm, self.out = nn.LayerNorm(128), nn.Linear(128, 1000)

    def forward(self, x: Tensor) -> Tensor:
        x = self.patches(x).flatten(2).transpose(1, 2)
        found: Tensor = self.out(self.norm(self.body(x)).mean(1))
        return found


def convnext(seed: int) -> WideNet:
    return image_net(_ConvNext, seed, 128)


def mlp_mixer(seed: int) -> WideNet:
    return image_net(lambda: _MlpMixer(128), seed, 128)

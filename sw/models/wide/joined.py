"""Concatenation: DenseNet, Inception and SqueezeNet."""

import torch
from torch import Tensor, nn

from sw.models.wide.common import WideNet, conv, head, image_net


class _Dense(nn.Module):
    """A layer whose result is appended to what it has read; norm and ReLU come first."""

    def __init__(self, channels: int, growth: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.BatchNorm2d(channels),
            nn.ReLU(),
            conv(channels, 4 * growth, 1),
            nn.Conv2d(4 * growth, growth, 3, padding=1, bias=False),
        )

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([x, self.body(x)], 1)


def _densenet() -> nn.Module:
    growth, channels = 24, 48
    layers: list[nn.Module] = [conv(3, channels, 7, 2), nn.MaxPool2d(3, 2, 1)]
    for i, repeats in enumerate((4, 6, 8)):
        if i:
            layers += [nn.BatchNorm2d(channels), nn.ReLU()]
            layers += [nn.Conv2d(channels, channels // 2, 1, bias=False), nn.AvgPool2d(2)]
            channels //= 2
        for _ in range(repeats):
            layers.append(_Dense(channels, growth))
            channels += growth
    return nn.Sequential(*layers, nn.BatchNorm2d(channels), nn.ReLU(), head(channels, 1000))


class _Inception(nn.Module):
    """1×1, 3×3 and 5×5 convolutions and a pool side by side."""

    def __init__(
        self, inputs: int, one: int, three: tuple[int, int], five: tuple[int, int], pool: int
    ):
        super().__init__()
        self.one = conv(inputs, one, 1)
        self.three = nn.Sequential(conv(inputs, three[0], 1), conv(*three, 3))
        self.five = nn.Sequential(conv(inputs, five[0], 1), conv(*five, 5))
        self.pool = nn.Sequential(nn.MaxPool2d(3, 1, 1), conv(inputs, pool, 1))

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([self.one(x), self.three(x), self.five(x), self.pool(x)], 1)


def _inception() -> nn.Module:
    return nn.Sequential(
        conv(3, 64, 7, 2),
        nn.MaxPool2d(3, 2, 1),
        conv(64, 64, 1),
        conv(64, 192, 3),
        nn.MaxPool2d(3, 2, 1),
        _Inception(192, 64, (96, 128), (16, 32), 32),
        _Inception(256, 128, (128, 192), (32, 96), 64),
        nn.MaxPool2d(3, 2, 1),
        _Inception(480, 192, (96, 208), (16, 48), 64),
        _Inception(512, 160, (112, 224), (24, 64), 64),
        nn.MaxPool2d(3, 2, 1),
        _Inception(512, 256, (160, 320), (32, 128), 128),
        head(832, 1000),
    )


class _Fire(nn.Module):
    """1×1 to few channels, then 1×1 and 3×3 side by side."""

    def __init__(self, inputs: int, squeezed: int, expanded: int) -> None:
        super().__init__()
        self.squeeze = conv(inputs, squeezed, 1)
        self.one, self.three = conv(squeezed, expanded, 1), conv(squeezed, expanded, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = self.squeeze(x)
        return torch.cat([self.one(x), self.three(x)], 1)


def _squeezenet() -> nn.Module:
    layers: list[nn.Module] = [conv(3, 64, 3, 2)]
    for stage in (
        ((64, 16, 64), (128, 16, 64)),
        ((128, 32, 128), (256, 32, 128)),
        ((256, 48, 192), (384, 48, 192), (384, 64, 256), (512, 64, 256)),
    ):
        layers += [nn.MaxPool2d(3, 2, 1), *(_Fire(*sizes) for sizes in stage)]
    return nn.Sequential(*layers, conv(512, 256, 1), head(256, 1000))


def densenet(seed: int) -> WideNet:
    return image_net(_densenet, seed, 128)


def inception(seed: int) -> WideNet:
    return image_net(_inception, seed, 128)


def squeezenet(seed: int) -> WideNet:
    return image_net(_squeezenet, seed, 128)

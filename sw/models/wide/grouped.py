"""Grouped convolutions: ResNeXt, and both ShuffleNets, whose channels change places."""

import torch
from torch import Tensor, nn

from sw.models.wide.common import WideNet, conv, head, image_net


def shuffled(x: Tensor, groups: int) -> Tensor:
    """Channels g·k + i become i·groups + g."""
    n, c, h, w = x.shape
    return x.view(n, groups, c // groups, h, w).transpose(1, 2).reshape(n, c, h, w)


class _Next(nn.Module):
    """Bottleneck with a grouped 3×3 convolution."""

    def __init__(self, inputs: int, middle: int, outputs: int, stride: int, groups: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            conv(inputs, middle, 1),
            conv(middle, middle, 3, stride, groups=groups),
            conv(middle, outputs, 1, act=None),
        )
        changed = stride > 1 or inputs != outputs
        self.side = conv(inputs, outputs, 1, stride, act=None) if changed else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(self.body(x) + self.side(x))


def _resnext() -> nn.Module:
    layers: list[nn.Module] = [conv(3, 64, 7, 2), nn.MaxPool2d(3, 2, 1)]
    channels = 64
    for middle, outputs, repeats, stride in (
        *((64, 128, 2, 1), (128, 256, 2, 2)),
        *((256, 512, 2, 2), (512, 1024, 1, 2)),
    ):
        for i in range(repeats):
            layers.append(_Next(channels, middle, outputs, stride if i == 0 else 1, 16))
            channels = outputs
    return nn.Sequential(*layers, head(channels, 1000))


class _Shuffle(nn.Module):
    """ShuffleNet's unit: grouped 1×1, shuffle, depthwise 3×3, grouped 1×1."""

    def __init__(self, inputs: int, outputs: int, stride: int, groups: int) -> None:
        super().__init__()
        self.stride, self.groups = stride, groups
        made = outputs - inputs if stride > 1 else outputs
        middle = outputs // 4
        self.first = conv(inputs, middle, 1, groups=groups)
        self.second = conv(middle, middle, 3, stride, groups=middle, act=None)
        self.third = conv(middle, made, 1, groups=groups, act=None)
        self.pool = nn.AvgPool2d(3, 2, 1)

    def forward(self, x: Tensor) -> Tensor:
        y = self.third(self.second(shuffled(self.first(x), self.groups)))
        joined = torch.cat([self.pool(x), y], 1) if self.stride > 1 else x + y
        return torch.relu(joined)


def _shufflenet() -> nn.Module:
    layers: list[nn.Module] = [conv(3, 24, 3, 2), nn.MaxPool2d(3, 2, 1), conv(24, 60, 1)]
    channels = 60
    for outputs, repeats in ((240, 3), (480, 4), (960, 2)):
        for i in range(repeats):
            layers.append(_Shuffle(channels, outputs, 2 if i == 0 else 1, 3))
            channels = outputs
    return nn.Sequential(*layers, head(channels, 1000))


class _Split(nn.Module):
    """ShuffleNetV2's unit: half of the channels pass, then both halves are shuffled."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.stride, half = stride, outputs // 2
        source = inputs if stride > 1 else half
        self.right = nn.Sequential(
            conv(source, half, 1),
            conv(half, half, 3, stride, groups=half, act=None),
            conv(half, half, 1),
        )
        self.left = (
            nn.Sequential(
                conv(inputs, inputs, 3, 2, groups=inputs, act=None), conv(inputs, half, 1)
            )
            if stride > 1
            else nn.Identity()
        )

    def forward(self, x: Tensor) -> Tensor:
        if self.stride > 1:
            left, right = x, x
        else:
            left, right = x.chunk(2, 1)
        return shuffled(torch.cat([self.left(left), self.right(right)], 1), 2)


def _shufflenet_v2() -> nn.Module:
    layers: list[nn.Module] = [conv(3, 24, 3, 2), nn.MaxPool2d(3, 2, 1)]
    channels = 24
    for outputs, repeats in ((116, 4), (232, 8), (464, 4)):
        for i in range(repeats):
            layers.append(_Split(channels, outputs, 2 if i == 0 else 1))
            channels = outputs
    return nn.Sequential(*layers, conv(464, 1024, 1), head(1024, 1000))


def resnext(seed: int) -> WideNet:
    return image_net(_resnext, seed, 128)


def shufflenet(seed: int) -> WideNet:
    return image_net(_shufflenet, seed, 128)


def shufflenet_v2(seed: int) -> WideNet:
    return image_net(_shufflenet_v2, seed, 128)

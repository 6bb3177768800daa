"""Encoder and decoder: two U-Nets, and DeepLab with dilated convolutions."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from sw.models.wide.common import WideNet, conv, image_net


def _double(inputs: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(conv(inputs, outputs), conv(outputs, outputs))


class _UNet(nn.Module):
    """Four levels; going up, maps are enlarged bilinearly or by transposed convolutions."""

    def __init__(self, channels: tuple[int, ...], *, transposed: bool) -> None:
        super().__init__()
        self.down = nn.ModuleList(
            [_double(a, b) for a, b in zip((3, *channels), channels, strict=False)]
        )
        pairs = list(zip(channels[1:], channels, strict=False))[::-1]
        self.raised = nn.ModuleList(
            [
                nn.ConvTranspose2d(deep, flat, 2, 2)
                if transposed
                else nn.Sequential(
                    nn.Upsample(scale_factor=2, mode="bilinear"), conv(deep, flat, 1)
                )
                for deep, flat in pairs
            ]
        )
        self.up = nn.ModuleList([_double(2 * flat, flat) for _, flat in pairs])
        self.out = nn.Conv2d(channels[0], 4, 1)

    def forward(self, x: Tensor) -> Tensor:
        kept = []
        for i, level in enumerate(self.down):
            x = level(F.max_pool2d(x, 2) if i else x)
            kept.append(x)
        x = kept.pop()
        for raised, level in zip(self.raised, self.up, strict=True):
            x = level(torch.cat([kept.pop(), raised(x)], 1))
        found: Tensor = self.out(x)
        return found


class _DeepLab(nn.Module):
    """A backbone of stride 8, an atrous pyramid with a global mean, enlarged four times."""

    def __init__(self) -> None:
        super().__init__()
        self.low = nn.Sequential(conv(3, 32, 3, 2), conv(32, 48, 3, 2))
        self.high = nn.Sequential(conv(48, 96, 3, 2), conv(96, 128), conv(128, 128, dilation=2))
        self.branches = nn.ModuleList(
            [conv(128, 64, 1), *(conv(128, 64, dilation=d) for d in (3, 6, 9))]
        )
        self.mean = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(128, 64, 1), nn.ReLU())
        self.joined, self.side = conv(320, 64, 1), conv(48, 24, 1)
        self.out = nn.Sequential(conv(88, 64), nn.Conv2d(64, 8, 1))

    def forward(self, x: Tensor) -> Tensor:
        low = self.low(x)
        high = self.high(low)
        mean = self.mean(high).expand(-1, -1, *high.shape[2:])
        joined = self.joined(torch.cat([*(b(high) for b in self.branches), mean], 1))
        large = F.interpolate(joined, size=low.shape[2:], mode="bilinear", align_corners=False)
        maps: Tensor = self.out(torch.cat([large, self.side(low)], 1))
        return F.interpolate(maps, scale_factor=4.0, mode="bilinear", align_corners=False)


def unet_bilinear(seed: int) -> WideNet:
    return image_net(lambda: _UNet((16, 32, 64, 128), transposed=False), seed, 96, centred=False)


def unet_transposed(seed: int) -> WideNet:
    return image_net(lambda: _UNet((16, 32, 64, 128), transposed=True), seed, 96, centred=False)


def deeplab(seed: int) -> WideNet:
    return image_net(_DeepLab, seed, 128, centred=False)

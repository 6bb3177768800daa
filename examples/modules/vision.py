"""Convolutional networks with blocks that the built-in networks do not have.

systola run examples/modules/vision.py:unet
"""

import torch
from torch import nn
from torch.nn import functional as F


def _conv(inputs: int, outputs: int, kernel: int = 3, *, act: type = nn.ReLU, **options: int):
    conv = nn.Conv2d(inputs, outputs, kernel, padding=kernel // 2, bias=False, **options)
    return nn.Sequential(conv, nn.BatchNorm2d(outputs), act())


def _picture(size: int) -> torch.Tensor:
    """Random colours, as smooth as in a photograph."""
    return F.interpolate(2 * torch.randn(1, 3, 4, 4), size=(size, size), mode="bicubic")


def _head(channels: int, classes: int = 10) -> nn.Sequential:
    return nn.Sequential(nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(16 * channels, classes))


class _SqueezeExcite(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.down = nn.Linear(channels, channels // 4)
        self.up = nn.Linear(channels // 4, channels)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        scale = torch.sigmoid(self.up(F.relu(self.down(x.mean((2, 3))))))
        return x * scale[:, :, None, None]


def squeeze_excite():
    """channels scaled by a sigmoid of their means"""
    torch.manual_seed(0)
    stem, body = _conv(3, 16, stride=2), _conv(16, 24, stride=2)
    return nn.Sequential(stem, _SqueezeExcite(16), body, _head(24)), _picture(32)


def inverted_bottleneck():
    """SiLU, depthwise convolution, Hardswish"""
    torch.manual_seed(0)
    stem = _conv(3, 16, stride=2, act=nn.SiLU)
    depthwise = _conv(16, 16, groups=16, act=nn.SiLU)
    pointwise = _conv(16, 32, 1, act=nn.Hardswish)
    return nn.Sequential(stem, depthwise, pointwise, _head(32)), _picture(32)


class _Dense(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = _conv(3, 8)
        self.layers = nn.ModuleList([_conv(8 + 4 * i, 4) for i in range(3)])
        self.head = _head(20)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.stem(x)
        for layer in self.layers:
            x = torch.cat([x, layer(x)], 1)
        return self.head(x)


def dense_block():
    """every layer reads the concatenation of all before it (`cat`)"""
    torch.manual_seed(0)
    return _Dense(), _picture(16)


class _UNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = _conv(3, 8), _conv(8, 16)
        self.up = nn.ConvTranspose2d(16, 8, 2, 2)
        self.joined, self.out = _conv(16, 8), nn.Conv2d(8, 2, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        wide = self.first(x)
        deep = self.second(F.max_pool2d(wide, 2))
        return self.out(self.joined(torch.cat([wide, self.up(deep)], 1)))


def unet():
    """transposed convolution, skip connection by `cat`, an image as the result"""
    torch.manual_seed(0)
    return _UNet(), _picture(32)


class _Pyramid(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.low, self.high = _conv(3, 12, stride=2), _conv(12, 16, stride=2)
        self.side, self.top = nn.Conv2d(12, 8, 1), nn.Conv2d(16, 8, 1)

    def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
        low = self.low(x)
        top = self.top(self.high(low))
        return [self.side(low) + F.interpolate(top, scale_factor=2.0, mode="nearest"), top]


def feature_pyramid():
    """nearest upsampling, two feature maps as a list"""
    torch.manual_seed(0)
    return _Pyramid(), _picture(32)


def upsample_bilinear():
    """bilinear upsampling between convolutions"""
    torch.manual_seed(0)
    up = nn.Upsample(scale_factor=2, mode="bilinear")
    return nn.Sequential(_conv(3, 8, stride=2), up, nn.Conv2d(8, 3, 3, padding=1)), _picture(16)


class _Atrous(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = _conv(3, 16, stride=2)
        self.branches = nn.ModuleList(
            [nn.Conv2d(16, 8, 3, padding=d, dilation=d) for d in (1, 2, 4)]
        )
        self.whole, self.out = nn.Conv2d(16, 8, 1), nn.Conv2d(32, 5, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.stem(x)
        whole = self.whole(x.mean((2, 3), keepdim=True)).expand(-1, -1, *x.shape[2:])
        return self.out(F.relu(torch.cat([*(b(x) for b in self.branches), whole], 1)))


def atrous_pyramid():
    """dilated convolutions side by side, a broadcast global mean"""
    torch.manual_seed(0)
    return _Atrous(), _picture(32)


def grouped():
    """convolutions with 4 and 8 groups"""
    torch.manual_seed(0)
    body = (_conv(3, 16), _conv(16, 32, groups=4), _conv(32, 32, groups=8))
    return nn.Sequential(*body, _head(32)), _picture(16)


class _Shuffle(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.grouped, self.head = _conv(3, 12), _conv(12, 12, 1, groups=3), _head(12)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.grouped(self.first(x))
        n, c, h, w = x.shape
        return self.head(x.view(n, 3, c // 3, h, w).transpose(1, 2).reshape(n, c, h, w))


def channel_shuffle():
    """grouped pointwise convolution, channels permuted by view and transpose"""
    torch.manual_seed(0)
    return _Shuffle(), _picture(16)


def pixel_shuffle():
    """super-resolution: channels become pixels"""
    torch.manual_seed(0)
    first, last = nn.Conv2d(3, 16, 3, padding=1), nn.Conv2d(4, 3, 3, padding=1)
    return nn.Sequential(first, nn.PixelShuffle(2), last), _picture(8)


def batch_norm_first():
    """a batch norm before the convolution, which cannot be folded into it"""
    torch.manual_seed(0)
    return nn.Sequential(nn.BatchNorm2d(3), nn.ReLU(), nn.Conv2d(3, 8, 3)), _picture(12)


def prelu_ceil_pool():
    """PReLU with a slope per channel, average and max pooling with ceil_mode"""
    torch.manual_seed(0)
    pools = nn.AvgPool2d(3, 2, ceil_mode=True), nn.MaxPool2d(2, ceil_mode=True)
    return nn.Sequential(nn.Conv2d(3, 8, 3), nn.PReLU(8), *pools), _picture(12)


def transposed_depthwise():
    """transposed convolution with a group per channel and output padding"""
    torch.manual_seed(0)
    up = nn.ConvTranspose2d(8, 8, 3, 2, 1, output_padding=1, groups=8)
    return nn.Sequential(_conv(3, 8), up, nn.Conv2d(8, 3, 1)), _picture(8)


def group_norm():
    """group norm and SiLU between convolutions"""
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(3, 8, 3), nn.GroupNorm(2, 8), nn.SiLU(), nn.Conv2d(8, 4, 1)
    ), _picture(10)


def instance_norm():
    """instance norm with learned scales between convolutions"""
    torch.manual_seed(0)
    norm = nn.InstanceNorm2d(8, affine=True)
    return nn.Sequential(nn.Conv2d(3, 8, 3), norm, nn.ReLU(), nn.Conv2d(8, 4, 1)), _picture(10)


def conv3d():
    """a video: 3D convolution and pooling"""
    torch.manual_seed(0)
    body = (nn.Conv3d(2, 6, 3, padding=1), nn.ReLU(), nn.MaxPool3d(2), nn.Conv3d(6, 8, 2))
    return nn.Sequential(*body, nn.Flatten(), nn.Linear(72, 3)), torch.randn(1, 2, 4, 8, 8)


class _Detector(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(_conv(3, 8, stride=2), _conv(8, 16, stride=2, act=nn.SiLU))
        self.head = nn.Conv2d(16, 2 * 7, 1)
        grid = torch.stack(torch.meshgrid(torch.arange(8), torch.arange(8), indexing="ij"), -1)
        self.register_buffer("grid", grid.float().view(1, 1, 8, 8, 2))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        found = self.head(self.body(x)).view(x.shape[0], 2, 7, 8, 8).permute(0, 1, 3, 4, 2)
        centre = (found[..., :2].sigmoid() * 2 - 0.5 + self.grid) * 4
        size = found[..., 2:4].exp() * 4
        boxes = torch.cat([centre - size / 2, centre + size / 2], -1)
        return boxes.flatten(1, 3), found[..., 4:].sigmoid().flatten(1, 3)


def detector():
    """boxes decoded from a grid: permute, sigmoid, exp, slices"""
    torch.manual_seed(0)
    return _Detector(), _picture(32)

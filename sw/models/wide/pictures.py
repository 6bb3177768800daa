"""Images to images and pairs of images: super-resolution, an autoencoder, a siamese network."""

import itertools

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from sw.models.wide.common import (
    CALIBRATION,
    SAMPLES,
    WideNet,
    conv,
    fitted,
    image_net,
    one_by_one,
    pictures,
)


class _Block(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.body = nn.Sequential(conv(channels, channels), conv(channels, channels, act=None))

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.body(x)
        return x + y


class _SuperResolution(nn.Module):
    """Residual blocks and a pixel shuffle: twice the size."""

    def __init__(self) -> None:
        super().__init__()
        self.first = conv(3, 32)
        self.body = nn.Sequential(*(_Block(32) for _ in range(4)), nn.Conv2d(32, 32, 3, padding=1))
        self.up = nn.Sequential(nn.Conv2d(32, 128, 3, padding=1), nn.PixelShuffle(2), nn.ReLU())
        self.last = nn.Conv2d(32, 3, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x)
        found: Tensor = self.last(self.up(x + self.body(x)))
        return found


class _Autoencoder(nn.Module):
    """Strided convolutions to 256 values and transposed ones back."""

    def __init__(self) -> None:
        super().__init__()
        sizes = (3, 32, 64, 128, 128)
        pairs = list(itertools.pairwise(sizes))
        self.encoder = nn.Sequential(*(conv(a, b, 3, 2) for a, b in pairs))
        self.narrow, self.widen = nn.Linear(128 * 36, 256), nn.Linear(256, 128 * 36)
        layers: list[nn.Module] = []
        for a, b in pairs[:0:-1]:
            up = nn.ConvTranspose2d(b, a, 3, 2, 1, output_padding=1, bias=False)
            layers += [up, nn.BatchNorm2d(a), nn.ReLU()]
        self.decoder = nn.Sequential(*layers, nn.ConvTranspose2d(32, 3, 4, 2, 1), nn.Tanh())

    def forward(self, x: Tensor) -> Tensor:
        x = self.encoder(x)
        code = torch.relu(self.narrow(x.flatten(1)))
        found: Tensor = self.decoder(torch.relu(self.widen(code)).view(x.shape))
        return found


class _Branch(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        sizes = ((3, 32), (32, 64), (64, 128), (128, 256))
        self.body = nn.Sequential(*(nn.Sequential(conv(a, b, 3, 2), conv(b, b)) for a, b in sizes))
        self.out = nn.Linear(256, 128)

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = self.out(F.adaptive_avg_pool2d(self.body(x), 1).flatten(1))
        return found


class _Siamese(nn.Module):
    """Two images through the same branch; both embeddings and the score of their difference."""

    def __init__(self, branch: nn.Module) -> None:
        super().__init__()
        self.branch, self.score = branch, nn.Linear(128, 16)

    def forward(self, first: Tensor, second: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        a, b = self.branch(first), self.branch(second)
        return self.score((a - b).abs()), a, b


def super_resolution(seed: int) -> WideNet:
    return image_net(_SuperResolution, seed, 64, centred=False)


def autoencoder(seed: int) -> WideNet:
    return image_net(_Autoencoder, seed, 96, centred=False)


def siamese(seed: int) -> WideNet:
    images, others = pictures(CALIBRATION, 96, seed), pictures(SAMPLES, 96, seed + 1)
    branch = fitted(_Branch, seed, images, others).module
    torch.manual_seed(seed)
    module = _Siamese(branch).eval()
    return WideNet(
        module=module,
        calibration=one_by_one(images, images.roll(1, 0)),
        samples=one_by_one(others, others.roll(1, 0)),
    )

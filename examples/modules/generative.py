"""Networks that make images: autoencoder, denoiser, generator.

systola run examples/modules/generative.py:denoiser
"""

import math

import torch
from torch import nn
from torch.nn import functional as F


class _Autoencoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Conv2d(1, 8, 4, 2, 1), nn.ReLU(), nn.Conv2d(8, 16, 4, 2, 1))
        self.mean, self.spread = nn.Linear(256, 6), nn.Linear(256, 6)
        self.start = nn.Linear(6, 256)
        self.decoder = nn.Sequential(
            nn.ConvTranspose2d(16, 8, 4, 2, 1), nn.ReLU(), nn.ConvTranspose2d(8, 1, 4, 2, 1)
        )

    def forward(self, x: torch.Tensor, noise: torch.Tensor) -> tuple[torch.Tensor, ...]:
        hidden = F.relu(self.encoder(x)).flatten(1)
        mean, spread = self.mean(hidden), self.spread(hidden)
        code = mean + noise * torch.exp(spread / 2)
        image = self.decoder(F.relu(self.start(code)).view(-1, 16, 4, 4))
        return torch.sigmoid(image), mean, spread


def variational_autoencoder():
    """convolutions down, transposed ones up; the noise is an input; three results"""
    torch.manual_seed(0)
    return _Autoencoder(), (torch.randn(1, 1, 16, 16), torch.randn(1, 6))


class _Block(nn.Module):
    """A residual block of a diffusion model: the time shifts the channels."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.norms = nn.ModuleList([nn.GroupNorm(4, inputs), nn.GroupNorm(4, outputs)])
        self.first = nn.Conv2d(inputs, outputs, 3, padding=1)
        self.second = nn.Conv2d(outputs, outputs, 3, padding=1)
        self.time = nn.Linear(32, outputs)
        self.skip = nn.Conv2d(inputs, outputs, 1)

    def forward(self, x: torch.Tensor, time: torch.Tensor) -> torch.Tensor:
        y = self.first(F.silu(self.norms[0](x))) + self.time(F.silu(time))[:, :, None, None]
        return self.second(F.silu(self.norms[1](y))) + self.skip(x)


class _Attention(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.norm, self.qkv = nn.GroupNorm(4, channels), nn.Conv2d(channels, 3 * channels, 1)
        self.out = nn.Conv2d(channels, channels, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.qkv(self.norm(x)).flatten(2).transpose(1, 2).chunk(3, -1)
        y = F.scaled_dot_product_attention(q, k, v).transpose(1, 2)
        return x + self.out(y.unflatten(2, x.shape[2:]))


class _Denoiser(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Sequential(nn.Linear(16, 32), nn.SiLU(), nn.Linear(32, 32))
        self.stem, self.out = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 3, 3, padding=1)
        self.down, self.middle, self.up = _Block(8, 16), _Attention(16), _Block(24, 8)
        self.register_buffer("rates", torch.exp(-math.log(1000) * torch.arange(8) / 8))

    def forward(self, x: torch.Tensor, time: torch.Tensor) -> torch.Tensor:
        angles = time[:, None] * self.rates
        time = self.embed(torch.cat([angles.sin(), angles.cos()], -1))
        wide = self.stem(x)
        deep = self.middle(self.down(F.avg_pool2d(wide, 2), time))
        deep = F.interpolate(deep, scale_factor=2.0, mode="nearest")
        return self.out(self.up(torch.cat([wide, deep], 1), time))


def denoiser():
    """a UNet of a diffusion model: time embedding, group norm, attention over pixels, `cat`"""
    torch.manual_seed(0)
    return _Denoiser(), (torch.randn(1, 3, 8, 8), torch.tensor([7.0]))


def generator():
    """of a GAN: transposed convolutions with batch norm, LeakyReLU and tanh"""
    torch.manual_seed(0)
    return nn.Sequential(
        nn.ConvTranspose2d(16, 24, 4),
        nn.BatchNorm2d(24),
        nn.LeakyReLU(0.2),
        nn.ConvTranspose2d(24, 12, 4, 2, 1),
        nn.BatchNorm2d(12),
        nn.LeakyReLU(0.2),
        nn.ConvTranspose2d(12, 3, 4, 2, 1),
        nn.Tanh(),
    ), torch.randn(1, 16, 1, 1)

"""A hierarchical vision transformer: attention in windows, shifted in every other block."""

import torch
from torch import Tensor, nn

from sw.models.wide.common import WideNet, image_net


class _Attention(nn.Module):
    """Attention inside windows of `window` × `window` tokens, with a bias by their distance."""

    def __init__(self, size: int, heads: int, window: int) -> None:
        super().__init__()
        self.heads, self.window = heads, window
        self.qkv, self.out = nn.Linear(size, 3 * size), nn.Linear(size, size)
        self.bias = nn.Parameter(0.5 * torch.randn(heads, (2 * window - 1) ** 2))
        place = torch.stack(
            torch.meshgrid(torch.arange(window), torch.arange(window), indexing="ij")
        ).flatten(1)
        apart = place[:, :, None] - place[:, None] + window - 1
        self.register_buffer("index", apart[0] * (2 * window - 1) + apart[1])

    def forward(self, x: Tensor) -> Tensor:
        windows, tokens, size = x.shape
        parts = self.qkv(x).reshape(windows, tokens, 3, self.heads, size // self.heads)
        q, k, v = parts.permute(2, 0, 3, 1, 4).unbind(0)
        scores = q @ k.transpose(-2, -1) * (size // self.heads) ** -0.5
        scores = scores + self.bias[:, self.index]
        found: Tensor = self.out((scores.softmax(-1) @ v).transpose(1, 2).reshape(x.shape))
        return found


class _Block(nn.Module):
    def __init__(self, size: int, heads: int, window: int, shift: int) -> None:
        super().__init__()
        self.window, self.shift = window, shift
        self.norms = nn.ModuleList([nn.LayerNorm(size), nn.LayerNorm(size)])
        self.attention = _Attention(size, heads, window)
        self.body = nn.Sequential(nn.Linear(size, 4 * size), nn.GELU(), nn.Linear(4 * size, size))

    def forward(self, x: Tensor) -> Tensor:
        n, h, w, c = x.shape
        side, s = self.window, self.shift
        y = self.norms[0](x)
        y = torch.roll(y, (-s, -s), (1, 2)) if s else y
        y = y.view(n, h // side, side, w // side, side, c).transpose(2, 3)
        y = self.attention(y.reshape(-1, side * side, c))
        y = y.view(n, h // side, w // side, side, side, c).transpose(2, 3).reshape(n, h, w, c)
        x = x + (torch.roll(y, (s, s), (1, 2)) if s else y)
        return x + self.body(self.norms[1](x))


class _Merge(nn.Module):
    """Four neighbours become one token of twice the size."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.norm, self.out = nn.LayerNorm(4 * size), nn.Linear(4 * size, 2 * size, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        parts = [x[:, i::2, j::2] for j in (0, 1) for i in (0, 1)]
        found: Tensor = self.out(self.norm(torch.cat(parts, -1)))
        return found


class _Swin(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.patches, self.norm = nn.Conv2d(3, 48, 4, 4), nn.LayerNorm(48)
        layers: list[nn.Module] = []
        for i, size in enumerate((48, 96, 192)):
            layers += [_Merge(size // 2)] if i else []
            layers += [
                _Block(size, size // 16, 6, shift) for shift in ((0, 3) if i < 2 else (0, 0))
            ]
        self.body = nn.Sequential(*layers)
        self.last, self.out = nn.LayerNorm(192), nn.Linear(192, 1000)

    def forward(self, x: Tensor) -> Tensor:
        x = self.norm(self.patches(x).permute(0, 2, 3, 1))
        found: Tensor = self.out(self.last(self.body(x)).mean((1, 2)))
        return found


def swin(seed: int) -> WideNet:
    return image_net(_Swin, seed, 96)

"""An encoder and a decoder of language, as T5 has them: no biases, RMS norms, distances as bias."""

import torch
from torch import Tensor, nn

from sw.models.weights import seeded
from sw.models.wide.common import WideNet, token_net

MASKED = -100.0
"""Added to the scores of tokens that come later."""


class RmsNorm(nn.Module):
    """Rows divided by the root of their mean square."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))

    def forward(self, x: Tensor) -> Tensor:
        return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6))


class _Attention(nn.Module):
    def __init__(self, size: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v, self.out = (nn.Linear(size, size, bias=False) for _ in range(4))

    def forward(self, x: Tensor, memory: Tensor, bias: Tensor | None) -> Tensor:
        q, k, v = (
            layer(of).view(1, -1, self.heads, x.shape[-1] // self.heads).transpose(1, 2)
            for layer, of in ((self.q, x), (self.k, memory), (self.v, memory))
        )
        scores = q @ k.transpose(-2, -1)
        scores = scores if bias is None else scores + bias
        mixed = (scores.softmax(-1) @ v).transpose(1, 2).reshape(x.shape)
        found: Tensor = self.out(mixed)
        return found


class _Layer(nn.Module):
    """Attention, in a decoder attention to the encoder's result, and a gated perceptron."""

    def __init__(self, size: int, heads: int, *, decoder: bool) -> None:
        super().__init__()
        self.attention = _Attention(size, heads)
        self.cross = _Attention(size, heads) if decoder else None
        self.norms = nn.ModuleList([RmsNorm(size) for _ in range(3)])
        self.gate, self.wide = (nn.Linear(size, 3 * size, bias=False) for _ in range(2))
        self.narrow = nn.Linear(3 * size, size, bias=False)

    def forward(self, x: Tensor, bias: Tensor, memory: Tensor | None = None) -> Tensor:
        y = self.norms[0](x)
        x = x + self.attention(y, y, bias)
        if self.cross is not None and memory is not None:
            x = x + self.cross(self.norms[1](x), memory, None)
        y = self.norms[2](x)
        found: Tensor = x + self.narrow(nn.functional.gelu(self.gate(y)) * self.wide(y))
        return found


class _T5(nn.Module):
    def __init__(self, size: int, heads: int, layers: int, tokens: tuple[int, int]) -> None:
        super().__init__()
        self.embed = nn.Embedding(1000, size)
        self.encoder = nn.ModuleList([_Layer(size, heads, decoder=False) for _ in range(layers)])
        self.decoder = nn.ModuleList([_Layer(size, heads, decoder=True) for _ in range(layers)])
        self.norms = nn.ModuleList([RmsNorm(size), RmsNorm(size)])
        self.near = nn.Parameter(torch.randn(1, heads, tokens[0], tokens[0]))
        self.past = nn.Parameter(torch.randn(1, heads, tokens[1], tokens[1]))
        later = torch.triu(torch.full((tokens[1], tokens[1]), MASKED), 1)
        self.register_buffer("later", later)
        self.out = nn.Linear(size, 1000, bias=False)

    def forward(self, ids: Tensor, before: Tensor) -> Tensor:
        x = self.embed(ids)
        for layer in self.encoder:
            x = layer(x, self.near)
        memory, y = self.norms[0](x), self.embed(before)
        for layer in self.decoder:
            y = layer(y, self.past + self.later, memory)
        found: Tensor = self.out(self.norms[1](y))
        return found


def t5(seed: int) -> WideNet:
    with seeded(seed):
        module = _T5(192, 6, 2, (48, 24))
        for layer in module.modules():
            if isinstance(layer, _Attention):
                # T5 does not divide scores by the root of the size: the weights are smaller.
                layer.q.weight.data *= 32**-0.5
    return token_net(module, (1, 48), (1, 24), vocabulary=1000, seed=seed)

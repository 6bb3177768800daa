"""A mixture of experts: a decoder of language whose perceptrons are chosen token by token."""

import torch
from torch import Tensor, nn

from sw.models.weights import seeded
from sw.models.wide.common import WideNet, token_net
from sw.models.wide.seq2seq import MASKED, RmsNorm


class _Experts(nn.Module):
    """The best two of `count` perceptrons for each token, weighed by a softmax."""

    def __init__(self, size: int, count: int) -> None:
        super().__init__()
        self.gate = nn.Linear(size, count, bias=False)
        self.experts = nn.ModuleList(
            [
                nn.Sequential(nn.Linear(size, 2 * size), nn.SiLU(), nn.Linear(2 * size, size))
                for _ in range(count)
            ]
        )

    def forward(self, x: Tensor) -> Tensor:
        scores = self.gate(x)
        values, chosen = scores.topk(2, -1)
        weights = torch.zeros_like(scores).scatter(-1, chosen, values.softmax(-1))
        parts = [weights[..., i : i + 1] * e(x) for i, e in enumerate(self.experts)]
        return torch.stack(parts).sum(0)


class _Block(nn.Module):
    def __init__(self, size: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norms = nn.ModuleList([RmsNorm(size), RmsNorm(size)])
        self.qkv, self.out = nn.Linear(size, 3 * size), nn.Linear(size, size)
        self.experts = _Experts(size, 4)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        _, tokens, size = x.shape
        parts = self.qkv(self.norms[0](x)).view(1, tokens, 3, self.heads, size // self.heads)
        q, k, v = parts.permute(2, 0, 3, 1, 4).unbind(0)
        scores = q @ k.transpose(-2, -1) * (size // self.heads) ** -0.5 + mask
        x = x + self.out((scores.softmax(-1) @ v).transpose(1, 2).reshape(x.shape))
        found: Tensor = x + self.experts(self.norms[1](x))
        return found


class _Language(nn.Module):
    def __init__(self, size: int, heads: int, tokens: int) -> None:
        super().__init__()
        self.embed, self.place = nn.Embedding(1000, size), nn.Parameter(torch.randn(tokens, size))
        self.blocks = nn.ModuleList([_Block(size, heads) for _ in range(2)])
        self.register_buffer("mask", torch.triu(torch.full((tokens, tokens), MASKED), 1))
        self.norm, self.out = RmsNorm(size), nn.Linear(size, 1000, bias=False)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.embed(ids) + self.place
        for block in self.blocks:
            x = block(x, self.mask)
        found: Tensor = self.out(self.norm(x))
        return found


def experts(seed: int) -> WideNet:
    with seeded(seed):
        module = _Language(192, 6, 32)
    return token_net(module, (1, 32), vocabulary=1000, seed=seed)

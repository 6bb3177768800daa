"""Networks on sequences: one-dimensional convolutions, attention, mixtures of experts.

systola run examples/modules/sequences.py:wavenet
"""

import torch
from torch import nn
from torch.nn import functional as F


def conv1d():
    """1D convolutions, batch norm, pooling, dilation, GELU"""
    torch.manual_seed(0)
    first = (nn.Conv1d(12, 32, 5, padding=2), nn.BatchNorm1d(32), nn.ReLU(), nn.MaxPool1d(2))
    second = (nn.Conv1d(32, 32, 3, dilation=2), nn.GELU(), nn.AdaptiveAvgPool1d(4))
    return nn.Sequential(*first, *second, nn.Flatten(), nn.Linear(128, 5)), torch.randn(2, 12, 64)


class _Wavenet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv1d(1, 16, 1)
        self.gates = nn.ModuleList([nn.Conv1d(16, 32, 2, dilation=2**i) for i in range(4)])
        self.mixes = nn.ModuleList([nn.Conv1d(16, 16, 1) for _ in range(4)])
        self.last = nn.Conv1d(16, 8, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.first(x)
        skips = torch.zeros_like(x)
        for i, (gate, mix) in enumerate(zip(self.gates, self.mixes, strict=True)):
            a, b = gate(F.pad(x, (2**i, 0))).chunk(2, 1)
            y = mix(torch.tanh(a) * torch.sigmoid(b))
            x, skips = x + y, skips + y
        return self.last(F.relu(skips))


def wavenet():
    """causal dilated 1D convolutions with gates tanh · sigmoid"""
    torch.manual_seed(0)
    return _Wavenet(), torch.randn(1, 1, 32)


def mlp():
    """linear layers with ReLU and GELU, batch 4"""
    torch.manual_seed(0)
    body = (nn.Linear(20, 64), nn.ReLU(), nn.Linear(64, 64), nn.GELU(), nn.Linear(64, 3))
    return nn.Sequential(*body), torch.randn(4, 20)


class _Mixer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norms = nn.ModuleList([nn.LayerNorm(24) for _ in range(2)])
        self.tokens = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 16))
        self.channels = nn.Sequential(nn.Linear(24, 48), nn.GELU(), nn.Linear(48, 24))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.tokens(self.norms[0](x).transpose(1, 2)).transpose(1, 2)
        return x + self.channels(self.norms[1](x))


def mlp_mixer():
    """layer norms, linear layers over tokens and over channels"""
    torch.manual_seed(0)
    return _Mixer(), torch.randn(1, 16, 24)


class _SelfAttention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(16, 4, batch_first=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.attention(x, x, x)[0]


def attention():
    """`nn.MultiheadAttention`"""
    torch.manual_seed(0)
    return _SelfAttention(), torch.randn(1, 9, 16)


class _CrossAttention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.q, self.kv = nn.Linear(16, 16), nn.Linear(24, 32)

    def forward(self, x: torch.Tensor, memory: torch.Tensor) -> torch.Tensor:
        k, v = self.kv(memory).chunk(2, -1)
        heads = [t.unflatten(-1, (2, 8)).transpose(1, 2) for t in (self.q(x), k, v)]
        return F.scaled_dot_product_attention(*heads).transpose(1, 2).flatten(2)


def cross_attention():
    """`scaled_dot_product_attention` between two sequences"""
    torch.manual_seed(0)
    return _CrossAttention(), (torch.randn(1, 6, 16), torch.randn(1, 11, 24))


class _Tokens(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(50, 32)
        self.layer = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True, activation="gelu")
        self.head = nn.Linear(32, 50)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.head(self.layer(self.embed(ids)))


def token_encoder():
    """token ids as int64, embedding, `nn.TransformerEncoderLayer`"""
    torch.manual_seed(0)
    return _Tokens(), torch.randint(0, 50, (1, 12))


class _Experts(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gate = nn.Linear(16, 4)
        self.experts = nn.ModuleList([nn.Linear(16, 16) for _ in range(4)])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        weights = self.gate(x).softmax(-1)
        return sum(weights[..., i : i + 1] * e(x) for i, e in enumerate(self.experts))


def mixture_of_experts():
    """a softmax mixes the results of four experts"""
    torch.manual_seed(0)
    return _Experts(), torch.randn(2, 6, 16)


class _BestExpert(_Experts):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        scores = self.gate(x)
        chosen = scores.argmax(-1, keepdim=True)
        return sum(torch.where(chosen == i, e(x), 0.0) for i, e in enumerate(self.experts))


def best_expert():
    """argmax picks one expert for each token"""
    torch.manual_seed(0)
    return _BestExpert(), torch.randn(2, 6, 16)


class _TopK(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gate = nn.Linear(16, 4)
        self.experts = nn.ModuleList([nn.Linear(16, 16) for _ in range(4)])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        values, chosen = self.gate(x).topk(2, -1)
        weights = torch.zeros_like(x[..., :4]).scatter(-1, chosen, values.softmax(-1))
        return sum(weights[..., i : i + 1] * e(x) for i, e in enumerate(self.experts))


def sparse_experts():
    """a mixture of experts that takes the best two of four (`topk`, `scatter`)"""
    torch.manual_seed(0)
    return _TopK(), torch.randn(2, 6, 16)

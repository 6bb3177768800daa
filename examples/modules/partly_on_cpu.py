"""Networks with an operator that the NPU lacks: the CPU runs that one, the NPU the rest.

systola run examples/modules/partly_on_cpu.py:sorted_features --fallback
"""

import torch
from torch import nn


class _Sorted(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(8, 8), nn.Linear(8, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(torch.sort(self.first(x), -1)[0])


def sorted_features():
    """`sort` between two linear layers"""
    torch.manual_seed(0)
    return _Sorted(), torch.randn(2, 8)


class _Spectrum(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(16, 16), nn.Linear(9, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(torch.fft.rfft(self.first(x)).abs())


def spectrum():
    """`fft.rfft`, whose results are complex numbers"""
    torch.manual_seed(0)
    return _Spectrum(), torch.randn(2, 16)


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


class _Whitened(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv, self.head = nn.Conv2d(3, 6, 3, stride=2), nn.Linear(36, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.relu(self.conv(x)).flatten(2)
        cov = x @ x.transpose(1, 2) / x.shape[2] + torch.eye(6)
        return self.head(torch.linalg.cholesky(cov).flatten(1))


def cholesky_pooling():
    """a factor of the channels' covariance (`linalg.cholesky`) as features"""
    torch.manual_seed(0)
    return _Whitened(), torch.randn(2, 3, 12, 12)

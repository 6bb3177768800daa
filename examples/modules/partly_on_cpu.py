"""Networks with an operator that the NPU lacks: the CPU runs that one, the NPU the rest.

systola run examples/modules/partly_on_cpu.py:running_maximum --fallback
"""

import torch
from torch import nn


class _RunningMaximum(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(8, 8), nn.Linear(8, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(torch.cummax(self.first(x), -1)[0])


def running_maximum():
    """`cummax` between two linear layers"""
    torch.manual_seed(0)
    return _RunningMaximum(), torch.randn(2, 8)


class _Spectrum(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(16, 16), nn.Linear(9, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(torch.fft.rfft(self.first(x)).angle())


def spectrum():
    """the angles of `fft.rfft`, which have no form in real and imaginary parts"""
    torch.manual_seed(0)
    return _Spectrum(), torch.randn(2, 16)


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

"""Sines and cosines of what has many periods: times of diffusion models, Fourier features."""

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from frontend_cases import Apply
from frontend_helpers import on_golden
from torch import Tensor

FREQUENCIES = torch.exp(-torch.arange(16) / 16 * 7)


def embedding(t: Tensor) -> Tensor:
    angles = t[:, None].float() * FREQUENCIES
    return torch.cat([angles.cos(), angles.sin()], -1)


def features(x: Tensor) -> Tensor:
    waves = [f(2.0**i * math.pi * x) for i in range(6) for f in (torch.sin, torch.cos)]
    return torch.cat(waves, -1)


FUNCTIONS: dict[str, tuple[Callable[[Tensor], Tensor], Callable[[], Tensor], float]] = {
    "times": (embedding, lambda: torch.randint(0, 1000, (4,)), 0.04),
    "late times": (embedding, lambda: torch.randint(900, 1000, (4,)), 0.04),
    "features": (features, lambda: torch.rand(8, 3) * 4 - 2, 0.01),
    "siren": (lambda x: torch.sin(30 * x), lambda: torch.randn(8, 16) * 5, 0.03),
    "offset": (lambda x: torch.cos(40 * x + 1.0), lambda: torch.randn(8, 16) + 9, 0.03),
    "squared": (lambda x: torch.sin(30 * x) ** 2, lambda: torch.randn(8, 16) * 5, 0.03),
    "two": (
        lambda x: torch.sin(20 * x) - torch.cos(60 * x),
        lambda: torch.randn(8, 16) * 5,
        0.06,
    ),
    "with the value": (lambda x: x + torch.sin(3 * x) ** 2 / 3, lambda: torch.randn(8, 16), 0.01),
    "with a bend far off": (
        lambda x: torch.sin(3 * x) + 4 * torch.relu(x - 8),
        lambda: torch.rand(8, 16) * 12,
        0.1,
    ),
    "over a sine": (lambda x: 1 / torch.sin(x), lambda: torch.rand(8, 16) * 0.9 + 0.3, 0.005),
    "tangent": (lambda x: torch.sin(x) / torch.cos(x), lambda: torch.rand(8, 16) * 2 - 1, 0.005),
    "near a pole": (
        lambda x: 1 / (x + 0.013),
        lambda: torch.cat([torch.tensor([0.03, 0.04, 0.1, 0.2]), torch.rand(124) * 10]),
        0.2,
    ),
    "of a square": (lambda x: torch.sin(x * x), lambda: torch.rand(8, 16) * 3, 0.01),
    "slow": (torch.sin, lambda: torch.randn(8, 16), 0.002),
}
"""The function, what it is called with, and the largest error."""


@pytest.mark.parametrize("name", FUNCTIONS)
def test_sines_of_any_range(name: str) -> None:
    torch.manual_seed(0)
    function, make, most = FUNCTIONS[name]
    calls = [(make(),) for _ in range(5)]
    got, want = on_golden(Apply(function), calls)
    assert np.abs(got - want).max() <= most

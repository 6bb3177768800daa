"""x over its own norm, however it is written: as exact for short rows as for long ones."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from frontend_cases import Apply
from frontend_helpers import on_golden
from torch import Tensor, nn
from torch.nn import functional


def custom(x: Tensor) -> Tensor:
    """A layer norm as tutorials write it."""
    return (x - x.mean(-1, keepdim=True)) / (x.std(-1, keepdim=True) + 1e-5)


def squares(x: Tensor) -> Tensor:
    return (x * x).sum(-1, keepdim=True)


WAYS: dict[str, Callable[[Tensor], Tensor]] = {
    "normalize": lambda x: functional.normalize(x, dim=-1),
    "middle": lambda x: functional.normalize(x.transpose(1, 2), dim=1).transpose(1, 2),
    "norm": lambda x: x / x.norm(dim=-1, keepdim=True),
    "norm and more": lambda x: x / (x.norm(dim=-1, keepdim=True) + 1e-6),
    "rsqrt": lambda x: 2 * x * torch.rsqrt(squares(x) + 1e-6),
    "the other way": lambda x: torch.rsqrt(squares(x)) * x,
    "mean": lambda x: x / torch.sqrt(x.square().mean(-1, keepdim=True) + 1e-5),
    "power": lambda x: x * (x**2).mean(-1, keepdim=True) ** -0.5,
    "layer norm": custom,
    "scaled before": lambda x: (2 * x) / (2 * x).norm(dim=-1, keepdim=True),
    "a bound of squares": lambda x: x * torch.rsqrt(squares(x).clamp_min(1e-12)),
    "half a norm": lambda x: x / (0.5 * x.norm(dim=-1, keepdim=True)),
    "read twice": lambda x: x / x.norm(dim=-1, keepdim=True) + 0 * squares(x),
}


@pytest.mark.parametrize("way", WAYS)
def test_rows_of_unit_length(way: str) -> None:
    torch.manual_seed(0)
    lengths = torch.logspace(-2, 0, 12)[:, None]
    calls = [(torch.randn(2, 12, 24) * lengths,) for _ in range(3)]
    got, want = on_golden(Apply(WAYS[way]), calls)
    assert np.abs(got - want).max() < 0.015 * np.abs(want).max()


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x / squares(x).sqrt().sqrt(),
        lambda x: x / (x.norm(dim=-1, keepdim=True) + x.abs().mean(-1, keepdim=True)),
        lambda x: x / x.norm(dim=1, keepdim=True).mean(-1, keepdim=True),
        lambda x: x[:1, :1] / x[:1, :1].norm(dim=-1, keepdim=True).expand(1, 5, 1),
        lambda x: torch.roll(x, 1, 1) / x.norm(dim=-1, keepdim=True),
    ],
)
def test_what_is_no_norm_is_computed_as_it_is_written(
    function: Callable[[Tensor], Tensor],
) -> None:
    torch.manual_seed(0)
    calls = [(torch.randn(2, 12, 24),) for _ in range(3)]
    got, want = on_golden(Apply(function), calls)
    assert np.abs(got - want).max() < 0.02 * np.abs(want).max()


def test_channels_of_an_image() -> None:
    """What a detector does between its backbone and its heads."""
    torch.manual_seed(0)

    class Scaled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.last = nn.Conv2d(3, 16, 3, padding=1), nn.Conv2d(16, 8, 1)

        def forward(self, x: Tensor) -> Tensor:
            return self.last(20 * functional.normalize(self.first(x), dim=1))

    module = Scaled().eval()
    calls = [(torch.randn(1, 3, 9, 11),) for _ in range(3)]
    got, want = on_golden(module, calls)
    assert np.abs(got - want).max() < 0.04 * np.abs(want).max()


@pytest.mark.parametrize("size", [1e-6, 1e-3, 1e3])
def test_values_of_any_size(size: float) -> None:
    torch.manual_seed(0)
    calls = [(torch.randn(1, 12, 24) * size,) for _ in range(3)]
    calls[2][0][0, 3] = 0
    got, want = on_golden(Apply(lambda x: functional.normalize(x, dim=-1)), calls)
    assert np.abs(got - want).max() < 0.01 * np.abs(want).max()

"""Softmax before a product: the weights keep all of int8 however many keys there are."""

import numpy as np
import pytest
import torch
import torch.ao.quantization.fx._decomposed
from torch import nn

import systola
from sw.models.catalog import pcc

NPU = systola.preset("small")


class Explicit(nn.Module):
    """Attention in separate operators; `way`: how the product reads the softmax."""

    def __init__(self, way: str, heat: float) -> None:
        super().__init__()
        self.way, self.heat = way, heat

    def forward(self, q, k, v):
        weights = (q @ k.transpose(-2, -1) * self.heat).softmax(-1)
        if self.way == "product":
            return nn.functional.dropout(weights, 0.1, self.training) @ v
        if self.way == "view":
            return (weights.reshape(-1, *weights.shape[-2:]) @ v.flatten(0, 1)).view(v.shape)
        if self.way == "matrix":
            return weights @ v[0, 0]
        if self.way == "added":
            return torch.addmm(v[0, 0], weights[0, 0], v[0, 1])
        if self.way == "turned":
            return weights.transpose(-2, -1) @ v
        if self.way == "einsum":
            return torch.einsum("bhij,bhjd->bhid", weights, v)
        if self.way == "heads behind":
            return torch.einsum("bhij,bjhd->bihd", weights, v.transpose(1, 2)).transpose(1, 2)
        if self.way == "moved":
            return weights[..., None].movedim(-1, 2).transpose(2, 3).squeeze(3) @ v
        if self.way == "second":
            return v.transpose(-2, -1) @ weights
        return weights @ v, weights


def compared(way: str, heat: float, keys: int) -> list[tuple[np.ndarray, np.ndarray]]:
    torch.manual_seed(keys)
    calls = [[torch.randn(1, 2, keys, 16).clamp(-2, 2) for _ in range(3)] for _ in range(4)]
    model = Explicit(way, heat).eval()
    program = systola.compile(model, calls[0], NPU, calibration=calls[:3])
    got = program.outputs(systola.run(program.image, program.inputs(*calls[3])))
    want = model(*calls[3])
    want = want if isinstance(want, tuple) else (want,)
    return [(a, b.numpy()) for a, b in zip(got, want, strict=True)]


WAYS = ["product", "view", "matrix", "added", "einsum", "heads behind", "moved"]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("heat", [0.01, 0.25, 2.0])
def test_rows_of_many_small_weights_keep_their_differences(way: str, heat: float) -> None:
    """Shared among 300 keys, a row's weights are 1/300 each, which is less than a step of 1/256."""
    ((got, want),) = compared(way, heat, 300)
    assert pcc(got, want) > 0.999
    assert abs((got * want).sum() / (want * want).sum() - 1) < 0.02


@pytest.mark.parametrize("keys", [24, 600])
@pytest.mark.parametrize("way", ["turned", "second", "both"])
def test_other_readers_get_probabilities(way: str, keys: int) -> None:
    """Shared among 600 keys, none is larger than a few steps of 1/256."""
    for got, want in compared(way, 0.25, keys):
        assert got.shape == want.shape and pcc(got, want) > 0.995
        assert abs((got * want).sum() / (want * want).sum() - 1) < 0.03


class OnGrids(nn.Module):
    """What quantizers write around a softmax: its result in steps of its own."""

    def __init__(self, step: float, low: int, dtype: torch.dtype) -> None:
        super().__init__()
        self.step, self.low, self.dtype = step, low, dtype

    def _rounded(self, x: torch.Tensor, step: float, zero: int) -> torch.Tensor:
        ops, given = torch.ops.quantized_decomposed, (self.low, self.low + 255, self.dtype)
        q = ops.quantize_per_tensor(x, step, zero, *given)
        return ops.dequantize_per_tensor(q, step, zero, *given)

    def forward(self, x):
        x = self._rounded(x, 0.05, self.low + 128)
        return self._rounded(x.softmax(-1), self.step, self.low)


@pytest.mark.parametrize(("low", "dtype"), [(-128, torch.int8), (0, torch.uint8)])
@pytest.mark.parametrize("step", [0.0003, 0.004])
def test_a_softmax_is_rounded_once_to_the_grid_behind_it(
    step: float, low: int, dtype: torch.dtype
) -> None:
    torch.manual_seed(0)
    model, x = OnGrids(step, low, dtype).eval(), torch.randn(40, 90)
    program = systola.compile(model, (x,), NPU)
    (got,) = program.outputs(systola.run(program.image, program.inputs(x)))
    off = np.rint((got - model(x).numpy()) / step)
    assert np.abs(off).max() <= 1 and (off != 0).mean() < 0.01

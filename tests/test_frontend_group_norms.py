"""Group norms wherever channels lie: behind convolutions, of inputs, of single channels."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import systola
from sw.compiler.frontend.importing import import_model
from sw.compiler.tosa.graph import Graph


class Shifted(nn.Module):
    """A norm of values that are far from 0, between two layers."""

    def __init__(self, norm: nn.Module, before: nn.Module, after: nn.Module) -> None:
        super().__init__()
        self.before, self.norm, self.after = before, norm, after

    def forward(self, x: Tensor) -> Tensor:
        return self.after(self.norm(self.before(x) + 3))


def _weights(norm: nn.Module, signed: bool = False) -> nn.Module:
    for name, low in (("weight", -1.5 if signed else 0.5), ("bias", -1.0)):
        values = getattr(norm, name, None)
        if values is not None:
            nn.init.uniform_(values, low, 1.5)
    return norm


def _conv(inputs: int, outputs: int) -> nn.Module:
    return nn.Conv2d(inputs, outputs, 3, padding=1)


CASES: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "groups": (
        lambda: Shifted(_weights(nn.GroupNorm(4, 24)), _conv(3, 24), nn.SiLU()),
        (1, 3, 14, 10),
    ),
    "one group": (
        lambda: Shifted(_weights(nn.GroupNorm(1, 20)), _conv(3, 20), _conv(20, 5)),
        (2, 3, 9, 9),
    ),
    "a group a channel": (
        lambda: Shifted(_weights(nn.GroupNorm(18, 18)), _conv(3, 18), nn.ReLU()),
        (1, 3, 12, 12),
    ),
    "weights of both signs": (
        lambda: Shifted(_weights(nn.GroupNorm(2, 16), signed=True), _conv(3, 16), nn.Identity()),
        (1, 3, 8, 8),
    ),
    "no weights": (
        lambda: Shifted(nn.GroupNorm(8, 16, affine=False), _conv(3, 16), nn.Identity()),
        (1, 3, 8, 8),
    ),
    "of an input": (
        lambda: Shifted(_weights(nn.GroupNorm(3, 12)), nn.Identity(), _conv(12, 6)),
        (1, 12, 10, 10),
    ),
    "of vectors": (
        lambda: Shifted(_weights(nn.GroupNorm(4, 32)), nn.Linear(8, 32), nn.Linear(32, 7)),
        (3, 8),
    ),
    "of sequences": (
        lambda: Shifted(_weights(nn.GroupNorm(4, 16)), nn.Conv1d(5, 16, 3), nn.Conv1d(16, 4, 1)),
        (2, 5, 30),
    ),
    "instances": (
        lambda: Shifted(_weights(nn.InstanceNorm2d(16, affine=True)), _conv(3, 16), _conv(16, 3)),
        (2, 3, 11, 7),
    ),
}


@pytest.mark.parametrize("config", ["tiny", "odd"])
@pytest.mark.parametrize("name", CASES)
def test_group_norms_follow_pytorch(name: str, config: str) -> None:
    """By the largest difference: a constant one would not be seen by a correlation."""
    torch.manual_seed(1)
    make, shape = CASES[name]
    module = make().eval()
    samples = [torch.randn(shape) for _ in range(5)]
    calls = [(x,) for x in samples]
    npu = systola.preset(config)
    program = systola.compile(module, calls[0], npu, policy="wide", calibration=calls)
    (got,) = program.outputs(systola.run(program.image, program.inputs(samples[1])))
    exact = module(samples[1]).detach().numpy()
    off = np.asarray(got, np.float64) - exact
    assert np.abs(off).max() <= 0.03 * np.abs(exact).max()
    assert abs(off.mean()) <= 0.002 * np.abs(exact).max()


def _kinds(graph: Graph) -> list[str]:
    return [op.kind for op in graph.ops]


def test_channels_stay_innermost() -> None:
    """Behind a convolution and before one nothing is transposed."""
    make, shape = CASES["one group"]
    x = torch.randn(shape)
    graph = import_model(make().eval(), (x,), policy="wide").graph
    assert "TRANSPOSE" not in _kinds(graph)


def test_pictures_whose_sums_exceed_int32_have_their_mean() -> None:
    """A sum of 262,144 values of int16 that are all positive wrapped around."""
    torch.manual_seed(0)
    module = nn.Sequential(nn.Conv2d(3, 64, 1), nn.GroupNorm(1, 64)).eval()
    nn.init.constant_(module[0].bias, 5.0)
    x = torch.randn(1, 3, 64, 64)
    program = systola.compile(module, (x,), systola.preset("default"), policy="wide")
    (got,) = program.outputs(systola.run(program.image, program.inputs(x)))
    off = np.asarray(got, np.float64) - module(x).detach().numpy()
    assert np.abs(off).max() <= 0.1

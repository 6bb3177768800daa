"""Values of any magnitude: scales follow them, however small or large they are."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from sw.compiler.frontend.importing import import_model
from sw.compiler.frontend.ports import unpack_outputs
from sw.compiler.frontend.quantization.calls import SaturationWarning, pack_inputs
from sw.compiler.frontend.quantization.formats import HEADROOM
from sw.compiler.tosa.interpreter import run_graph
from sw.models.catalog import pcc


def linears(*factors: float) -> nn.Module:
    """Linear layers whose weights are multiplied by `factors`."""
    layers = [nn.Linear(8, 8, bias=False) for _ in factors]
    for layer, factor in zip(layers, factors, strict=True):
        layer.weight.data.mul_(factor)
    return nn.Sequential(*layers)


def fading() -> nn.Module:
    """Convolutions whose results vanish beside the last layer's bias."""
    layers: list[nn.Module] = []
    for _ in range(4):
        layers += [nn.Conv2d(2, 2, 3, padding=1, bias=False), nn.ReLU()]
        layers[-2].weight.data.mul_(1e-4)  # type: ignore[operator,union-attr]
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(72, 4))


MODELS: dict[str, tuple[nn.Module, Tensor]] = {}
torch.manual_seed(0)
MODELS["vanish"] = linears(*[1e-4] * 6), torch.randn(4, 8)
MODELS["come back"] = linears(1e-7, 1e-7, 1e7, 1e7), torch.randn(4, 8)
MODELS["grow"] = linears(*[1e4] * 4), torch.randn(4, 8)
MODELS["vanish beside a bias"] = fading(), torch.randn(1, 2, 6, 6)


CASES = [*((name, "wide") for name in MODELS), ("grow", "pt2e"), ("vanish beside a bias", "pt2e")]
"""PT2E's own scales end at 2^-16: what vanishes is 0 there."""


@pytest.mark.parametrize(("name", "policy"), CASES)
def test_results_follow_pytorch_at_any_magnitude(name: str, policy: str) -> None:
    module, x = MODELS[name]
    imported = import_model(module.eval(), (x,), policy=policy)  # type: ignore[arg-type]
    (got,) = unpack_outputs(imported, run_graph(imported.graph, pack_inputs(imported, (x,))))
    assert pcc(got, module(x).detach().numpy()) >= 0.999


# Norms of values that are small beside eps --------------------------------------------------------

EPS, ATEN = 1e-5, torch.ops.aten


class Norm(nn.Module):
    """A function of (x, factor by channel, offset by channel)."""

    def __init__(self, function: Callable[..., Tensor], seed: int) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.function = function
        self.register_buffer("gamma", torch.randn(16))
        self.register_buffer("beta", torch.randn(16) * 1e-6)

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x, self.gamma, self.beta)


NORMS: dict[str, Callable[..., Tensor]] = {
    "layer_norm": lambda x, a, b: functional.layer_norm(x, [6], None, None, EPS),
    "layer_norm of channels": lambda x, a, b: functional.layer_norm(
        x.transpose(1, 2), [16], a, b, EPS
    ),
    "rms_norm": lambda x, a, b: functional.rms_norm(x.transpose(1, 2), [16], a, EPS),
    "group_norm": lambda x, a, b: functional.group_norm(x, 4, a, None, EPS),
    "native_group_norm": lambda x, a, b: ATEN.native_group_norm(x, a, b, 2, 16, 6, 4, EPS)[0],
    "native_layer_norm": lambda x, a, b: ATEN.native_layer_norm(x, [6], None, None, EPS)[0],
    "instance_norm": lambda x, a, b: functional.instance_norm(x, weight=a, bias=b, eps=EPS),
}
"""Of values [2, 16, 6]."""


def norm_of(name: str, deviation: float) -> tuple[Norm, Tensor]:
    """A norm, and values of deviation `deviation` · √eps, whose mean is 0 wherever it is taken."""
    module, half = Norm(NORMS[name], seed=1), torch.randn(2, 8, 3) * deviation * EPS**0.5
    x = torch.cat([half, -half], 2)
    return module.eval(), torch.cat([x, -x], 1)


def run_norm(module: Norm, x: Tensor, data: Tensor) -> NDArray[np.float64]:
    """The result for `data` of a module that is calibrated on `x`."""
    imported = import_model(module, (x,))
    graph, inputs = imported.graph, pack_inputs(imported, (data,))
    (got,) = unpack_outputs(imported, run_graph(graph, inputs))
    return got.astype(np.float64)


@pytest.mark.parametrize("deviation", [1e-30, 1e-6, 3e-2])
@pytest.mark.parametrize("name", NORMS)
def test_norms_follow_pytorch_however_small_deviations_are(name: str, deviation: float) -> None:
    module, x = norm_of(name, deviation)
    got = run_norm(module, x, x)
    assert pcc(got, module.double()(x.double()).numpy()) >= 0.9999


@pytest.mark.parametrize("name", NORMS)
def test_norms_saturate_where_deviations_outgrow_calibration(name: str) -> None:
    """The result is that of saturated values, itself saturated: nothing wraps around."""
    module, x = norm_of(name, 1e-6)
    later = x * 10.0 ** torch.tensor([-1, 3, 8, -1, 3, 8])
    with pytest.warns(SaturationWarning):
        got = run_norm(module, x, later)
    ends = HEADROOM * float(x.abs().max())
    exact = module.double()(later.double().clip(-ends, ends)).numpy()
    limit = HEADROOM * np.abs(module(x.double()).numpy()).max()
    assert np.abs(got - exact.clip(-limit, limit)).max() <= 1e-3 * limit


def test_what_counts_as_zero_is_zero_for_a_norm_too() -> None:
    """Values below 2^-120 are zeros on the NPU; 1 / √eps does not bring them back."""
    module, x = norm_of("layer_norm", 1e-36)
    assert not run_norm(module, x, x).any()


@torch.no_grad()
def test_products_that_calibration_saw_as_nothing_do_not_refuse_the_network():
    class Model(nn.Module):
        def forward(self, a, b):
            return torch.relu(a * b) + a.sum(-1, keepdim=True) + (a * b).mean(-1, keepdim=True)

    a, b = torch.tensor([[1e3, 0.0, 1e3, 0.0]]), torch.tensor([[0.0, 1e3, 1e-16, 1e3]])
    imported = import_model(Model(), (a, b), policy="wide")
    (got,) = unpack_outputs(imported, run_graph(imported.graph, pack_inputs(imported, (a, b))))
    assert np.abs(got - 2000).max() < 1


@pytest.mark.parametrize("size", [10.0, 1000.0, 5000.0])
@torch.no_grad()
def test_differences_of_large_values_keep_their_size(size: float) -> None:
    class Model(nn.Module):
        def forward(self, x: Tensor, y: Tensor) -> Tensor:
            return (x + y) - y

    torch.manual_seed(0)
    x, y = torch.randn(4, 64), size + torch.randn(4, 64)
    imported = import_model(Model(), (x, y), policy="wide")
    (got,) = unpack_outputs(imported, run_graph(imported.graph, pack_inputs(imported, (x, y))))
    assert np.abs(got - x.numpy()).max() <= 1.5 * size / 16384 + 0.02

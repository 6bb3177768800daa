"""Values of any magnitude: scales follow them, however small or large they are."""

import pytest
import torch
from torch import Tensor, nn

from sw.compiler.frontend.importing import import_model
from sw.compiler.frontend.ports import unpack_outputs
from sw.compiler.frontend.quantization.calls import pack_inputs
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

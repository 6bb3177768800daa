"""Sums of more values than int32 always holds: right, or refused."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from frontend_cases import Apply
from torch import Tensor, nn
from torch.nn import functional

from sw.compiler.errors import CompileError
from sw.compiler.frontend.importing import import_model
from sw.compiler.frontend.ports import unpack_outputs
from sw.compiler.frontend.quantization.calls import pack_inputs
from sw.compiler.tosa.interpreter import run_graph

SUMS: dict[str, tuple[Callable[[Tensor], Tensor], tuple[int, ...]]] = {
    "mean of all": (lambda x: x.mean((1, 2, 3)), (2, 16, 100, 100)),
    "mean of pixels": (lambda x: x.mean((2, 3)), (1, 3, 400, 400)),
    "sum of a row": (lambda x: x.sum(-1), (2, 200_000)),
    "running sum": (lambda x: x.cumsum(-1), (1, 200_000)),
    "pool": (lambda x: functional.adaptive_avg_pool2d(x, 1), (1, 3, 400, 400)),
    "windows": (lambda x: functional.avg_pool2d(x, 370, 20, 7, True, False), (1, 2, 380, 390)),
    "variance": (lambda x: x.var((1, 2, 3)), (2, 16, 100, 100)),
    "squares": (lambda x: (x * x).mean((1, 2, 3)), (2, 16, 100, 100)),
    "layer norm": (lambda x: functional.layer_norm(x, x.shape[1:]), (1, 16, 100, 100)),
}


def _far_from_zero(shape: tuple[int, ...]) -> Tensor:
    return torch.randn(shape) * 0.1 + 4


@pytest.mark.parametrize("name", SUMS)
def test_long_sums_of_values_far_from_zero(name: str) -> None:
    torch.manual_seed(0)
    function, shape = SUMS[name]
    calls = [(_far_from_zero(shape),) for _ in range(3)]
    imported = import_model(Apply(function), calls[0], policy="wide", calibration=calls)
    (got,) = unpack_outputs(imported, run_graph(imported.graph, pack_inputs(imported, calls[0])))
    exact = function(calls[0][0]).numpy()
    assert np.abs(got - exact).max() <= 1e-3 * np.abs(exact).max()


def test_products_of_activations_that_might_not_add_up_are_refused() -> None:
    function = Apply(lambda x: x @ x.transpose(-1, -2))
    with pytest.raises(
        CompileError, match=r"sums of 140,000 products: at most 65,535 fit in int32"
    ):
        import_model(function, (torch.ones(1, 2, 140_000),), policy="wide")


@pytest.mark.parametrize(("spread", "fits"), [(0.0, False), (1.0, True)])
def test_weights_that_might_not_add_up_are_refused(spread: float, fits: bool) -> None:
    """All of the largest weight, or of a size that leaves room."""
    layer = nn.Linear(140_000, 2)
    weights = torch.ones(2, 140_000)
    layer.weight.data = weights + spread * torch.randn_like(weights)
    x = torch.ones(1, 140_000)
    if fits:
        import_model(layer, (x,), policy="wide")
    else:
        with pytest.raises(CompileError, match=r"sums of 140,000 products may reach 2,\d{3},"):
            import_model(layer, (x,), policy="wide")

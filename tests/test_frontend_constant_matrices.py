"""Products with a constant matrix are linear layers, on either side of it."""

import pytest
import torch
from torch import Tensor, nn

import systola
from sw.compiler.frontend.capture import capture
from sw.measure.accuracy import integers
from sw.models.catalog import pcc

GENERATOR = torch.Generator().manual_seed(0)
X = torch.randn(2, 24, 16, generator=GENERATOR)


class Product(nn.Module):
    """A matrix of 32×16 whose rows differ in size by a factor of 100."""

    def __init__(self, function, shape=(32, 16)):
        super().__init__()
        self.function = function
        rows = torch.logspace(-1, 1, 32)[:, None]
        matrix = torch.randn(32, 16, generator=torch.Generator().manual_seed(1)) * rows
        self.matrix = nn.Parameter(matrix.reshape(shape))

    def forward(self, x: Tensor) -> Tensor:
        return self.function(self.matrix, x)


def left(w: Tensor, x: Tensor) -> Tensor:
    return w @ x.transpose(1, 2)


def right(w: Tensor, x: Tensor) -> Tensor:
    return torch.bmm(x, w.t().expand(2, 16, 32))


def one(w: Tensor, x: Tensor) -> Tensor:
    return torch.mm(w, x[0].t())


def as_it_lies(w: Tensor, x: Tensor) -> Tensor:
    return w @ x[:, :16]


def several(w: Tensor, x: Tensor) -> Tensor:
    return w.reshape(2, 16, 16) @ x.transpose(1, 2)


def broadcast(w: Tensor, x: Tensor) -> Tensor:
    return torch.matmul(x[:1], w.t().expand(2, 16, 32))


def broadcast_first(w: Tensor, x: Tensor) -> Tensor:
    return torch.matmul(w.expand(2, 32, 16), x[:1].transpose(1, 2))


def names(module: nn.Module) -> list[str]:
    graph = capture(module, (X,)).graph.graph
    return [n.target._opname for n in graph.nodes if n.op == "call_function"]


@pytest.mark.parametrize(
    "function", [left, right, one, as_it_lies, several, broadcast, broadcast_first]
)
def test_the_module_computes_the_same(function) -> None:
    module = Product(function)
    assert torch.allclose(capture(module, (X,)).graph(X)[0], module(X), atol=1e-5)


@pytest.mark.parametrize("function", [left, right, one])
def test_a_product_with_one_matrix_is_a_linear_layer(function) -> None:
    assert "linear" in names(Product(function))


@pytest.mark.parametrize("function", [as_it_lies, several])
def test_other_products_stay_as_they_are(function) -> None:
    assert "linear" not in names(Product(function))


@pytest.mark.parametrize("function", [left, right])
def test_each_row_of_the_matrix_has_its_own_scale(function) -> None:
    """With one scale for all, the smallest rows would have two steps."""
    module = Product(function).eval()
    wanted = module(X).detach().numpy()
    got = integers(systola.compile(module, (X,)).imported, (X,))[0]
    axis = -1 if function is right else 1
    for row in (0, 15, 31):
        assert pcc(got.take(row, axis), wanted.take(row, axis)) >= 0.999


def test_what_follows_lies_as_what_was_multiplied() -> None:
    """(W·xᵀ)ᵀ is read step by step: no tensor is transposed on the way."""

    def steps(w: Tensor, x: Tensor) -> Tensor:
        made = torch.sigmoid(w @ x.transpose(1, 2))
        return torch.stack([made[:, :, t] * (t + 1) for t in range(4)], 1)

    graph = systola.compile(Product(steps).eval(), (X,)).imported.graph
    assert "TRANSPOSE" not in {op.kind for op in graph.ops}

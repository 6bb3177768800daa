"""The weights of a softmax become a product's first operand; what is computed stays the same."""

import pytest
import torch
from torch import nn

import systola
from sw.compiler.frontend.capture import capture

SOFTMAX, PRODUCTS = "softmax", ("matmul", "bmm", "mm")


class Attention(nn.Module):
    """Two heads of 16 channels; `mix` makes [..., 16, rows] of values and weights."""

    def __init__(self, mix, heads=2):
        super().__init__()
        self.mix, self.heads = mix, heads
        self.inner = nn.Linear(32, 16 * heads)

    def forward(self, x):
        y = self.inner(x).reshape(1, -1, self.heads, 16).transpose(1, 2)
        y = y if self.heads > 1 else y[0, 0]
        weights = (y @ y.transpose(-1, -2)).softmax(-1)
        return self.mix(y.transpose(-1, -2), weights)


def second(v, p):
    return v @ p.transpose(-1, -2)


def first(v, p):
    return (p @ v.transpose(-1, -2)).transpose(-1, -2)


def permuted(v, p):
    return v @ p.permute(*range(p.dim() - 2), -1, -2)


def read_twice(v, p):
    return (v @ p.transpose(-1, -2)).sum(-2) + p.sum(-1)


def as_it_is(v, p):
    return v @ p


def operands(module, x):
    """Of the last product: what its operands are permutations of."""
    graph = capture(module, (x,)).graph.graph
    product = [n for n in graph.nodes if n.op == "call_function" and name(n) in PRODUCTS][-1]
    return [source(n) for n in product.args]


def name(node):
    return node.target._opname


def source(node):
    while name(node) in ("permute", "transpose"):
        node = node.args[0]
    return name(node)


@pytest.mark.parametrize("heads", [1, 2])
@pytest.mark.parametrize("mix", [second, permuted])
def test_transposed_weights_come_first(mix, heads: int) -> None:
    torch.manual_seed(0)
    module, x = Attention(mix, heads).eval(), torch.randn(1, 24, 32)
    assert operands(module, x)[0] == SOFTMAX
    assert torch.allclose(capture(module, (x,)).graph(x)[0], module(x), atol=1e-6)


@pytest.mark.parametrize("mix", [read_twice, as_it_is])
def test_other_weights_stay_where_they_are(mix) -> None:
    torch.manual_seed(0)
    module, x = Attention(mix).eval(), torch.randn(1, 16, 32)
    assert operands(module, x)[1] == SOFTMAX
    assert torch.allclose(capture(module, (x,)).graph(x)[0], module(x), atol=1e-6)


def test_both_orders_take_the_same_cycles() -> None:
    x = torch.randn(1, 64, 32)
    cycles = []
    for mix in (first, second):
        torch.manual_seed(0)
        compiled = systola.compile(Attention(mix).eval(), (x,))
        cycles.append(compiled.image.info["predicted_cycles"])
    assert cycles[0] == cycles[1]

"""Writes into parts of a tensor: pieces that are joined once, and read where they come from."""

import pytest
import torch
from torch import Tensor, nn

import systola
from sw.compiler.frontend.capture import capture
from sw.measure.accuracy import integers
from sw.models.catalog import pcc

X = torch.randn(2, 6, 8, generator=torch.Generator().manual_seed(0))


class Of(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x)


def scan(x: Tensor) -> Tensor:
    out, h = torch.zeros_like(x), torch.zeros_like(x[:, 0])
    for t in range(x.shape[1]):
        h = h * 0.5 + x[:, t]
        out[:, t] = h
    return out


def reads_itself(x: Tensor) -> Tensor:
    out = x.clone()
    for t in range(1, x.shape[1]):
        out[:, t] = out[:, t] + 0.5 * out[:, t - 1]
    return out


def backwards(x: Tensor) -> Tensor:
    out = torch.ones_like(x)
    for t in (5, 3, 1):
        out[:, t - 6] = x[:, t] * 2
    return out


def twice(x: Tensor) -> Tensor:
    out = torch.zeros_like(x)
    out[:, 1:4] = x[:, :3]
    out[:, 3:5] = x[:, 4:] * 3
    out[:, 2] = x[:, 5]
    return out


def slices_of_slices(x: Tensor) -> Tensor:
    out = x * 2
    out[:, 1:5] = x[:, 2:]
    return out[:, 2:4] + out[:, 1:3] + out[:, 3].unsqueeze(1) + out[:, :2]


def two_dimensions(x: Tensor) -> Tensor:
    out = torch.zeros_like(x)
    out[:, 2] = x[:, 0]
    out[:, :, 3] = x[:, :, 1]
    out[:, 4] = x[:, 1]
    return out


def kept(x: Tensor) -> Tensor:
    first = torch.zeros_like(x)
    first[:, 1] = x[:, 0]
    second = first.clone()
    second[:, 2] = x[:, 1]
    return torch.cat([first * 2, second], 1)


def every_second(x: Tensor) -> Tensor:
    out = torch.zeros_like(x)
    out[:, 2] = x[:, 0]
    out[:, ::2] = x[:, :3]
    return out


def broadcast(x: Tensor) -> Tensor:
    out = x * 2
    out[:, 1] = 3.0
    out[:, 4] = x[:1, 0]
    return out


def nothing(x: Tensor) -> Tensor:
    out = x * 2
    out[:, 3:3] = x[:, :0]
    return out


ALL = [
    *(scan, reads_itself, backwards, twice, slices_of_slices, two_dimensions, kept, every_second),
    *(broadcast, nothing),
]


def names(module: nn.Module) -> list[str]:
    graph = capture(module, (X,)).graph.graph
    return [n.target._opname for n in graph.nodes if n.op == "call_function"]


@pytest.mark.parametrize("function", ALL, ids=lambda f: f.__name__)
def test_the_module_computes_the_same(function) -> None:
    module = Of(function)
    assert torch.equal(capture(module, (X,)).graph(X)[0], module(X))


@pytest.mark.parametrize("function", [scan, reads_itself, backwards, slices_of_slices])
def test_a_chain_of_writes_is_one_concatenation_at_most(function) -> None:
    made = names(Of(function))
    assert made.count("cat") <= 1
    assert not {"select_scatter", "slice_scatter", "where", "copy"} & set(made)


def test_what_is_written_is_read_from_where_it_comes() -> None:
    """A scan that reads its own results is as one that keeps them: no read waits for the whole."""
    assert "cat" not in names(Of(lambda x: reads_itself(x)[:, 5]))


def test_what_another_reads_too_is_made() -> None:
    assert names(Of(kept)).count("cat") >= 2


def test_a_loop_that_writes_takes_the_cycles_of_one_that_stacks() -> None:
    def stacked(x: Tensor) -> Tensor:
        steps, h = [], torch.zeros_like(x[:, 0])
        for t in range(x.shape[1]):
            h = h * 0.5 + x[:, t]
            steps.append(h)
        return torch.stack(steps, 1)

    cycles = []
    for function in (scan, stacked):
        compiled = systola.compile(Of(function), (X,))
        assert pcc(integers(compiled.imported, (X,))[0], function(X).numpy()) >= 0.999
        cycles.append(compiled.image.info["predicted_cycles"])
    assert cycles[0] == pytest.approx(cycles[1], rel=0.02)

"""Sums of convolutions of one value: one convolution that computes the same, or as they were."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from sw.compiler.frontend.capture import capture
from sw.compiler.frontend.nodes import aten

CONVOLUTIONS = (aten.conv2d.default, aten.conv2d.padding)


class Branches(nn.Module):
    """The sum of what its parts make of the input."""

    def __init__(self, *parts: nn.Module) -> None:
        super().__init__()
        self.parts = nn.ModuleList(parts)

    def forward(self, x: Tensor) -> Tensor:
        total = self.parts[0](x)
        for part in self.parts[1:]:
            total = part(x) + total
        return total.relu()


def convolved(inputs: int, outputs: int, side: int | tuple, **options: object) -> nn.Sequential:
    """A convolution, centred unless `options` say otherwise, and a batch norm."""
    rows, cols = (side, side) if isinstance(side, int) else side
    options = {"padding": (rows // 2, cols // 2), "bias": False, **options}
    return nn.Sequential(nn.Conv2d(inputs, outputs, (rows, cols), **options), normed(outputs))


def normed(channels: int, scale: float = 1.0) -> nn.BatchNorm2d:
    norm = nn.BatchNorm2d(channels)
    nn.init.uniform_(norm.weight, 0.8 * scale, 1.2 * scale)
    nn.init.normal_(norm.bias)
    nn.init.normal_(norm.running_mean)
    nn.init.uniform_(norm.running_var, 0.5, 1.5)
    return norm


def counts(module: nn.Module, x: Tensor) -> tuple[int, int]:
    """(convolutions, sums) of the captured graph, which computes what the module does."""
    captured = capture(module.eval(), (x,))
    with torch.no_grad():
        (result,) = captured.graph(x)
        torch.testing.assert_close(result, module(x), rtol=1e-4, atol=1e-4)
    targets = [node.target for node in captured.graph.graph.nodes]
    return sum(t in CONVOLUTIONS for t in targets), targets.count(aten.add.Tensor)


CASES = {
    "repvgg": ([(8, 8, 3), (8, 8, 1)], {}, (1, 0)),
    "wide": ([(8, 16, 3), (8, 16, 3), (8, 16, 1)], {}, (1, 0)),
    "strides": ([(8, 8, 5), (8, 8, 3)], {"stride": 2}, (1, 0)),
    "groups": ([(8, 16, 3), (8, 16, 1)], {"groups": 4}, (1, 0)),
    "depthwise": ([(8, 8, 7), (8, 8, 3)], {"groups": 8}, (1, 0)),
    "rows_and_columns": ([(8, 8, 3), (8, 8, (1, 3)), (8, 8, (3, 1))], {"padding": "same"}, (1, 0)),
    "a_cross": ([(8, 8, (1, 3)), (8, 8, (3, 1))], {"padding": "same"}, (2, 1)),
    "dilation": ([(8, 8, 3), (8, 8, 3)], {"dilation": 2, "padding": 2}, (2, 1)),
    "no_padding": ([(8, 8, 3), (8, 8, 3)], {"padding": "valid"}, (1, 0)),
}


@pytest.mark.parametrize("name", CASES)
def test_convolutions_of_one_value_are_one_where_that_is_no_more_work(name: str) -> None:
    torch.manual_seed(1)
    parts, options, expected = CASES[name]
    module = Branches(*(convolved(*part, **options) for part in parts))
    assert counts(module, torch.randn(1, 8, 12, 10)) == expected


@pytest.mark.parametrize(("scale", "expected"), [(0.2, (1, 0)), (20.0, (1, 1))])
def test_the_value_itself_joins_unless_its_factor_hides_the_weights(
    scale: float, expected: tuple[int, int]
) -> None:
    torch.manual_seed(2)
    module = Branches(convolved(8, 8, 3), convolved(8, 8, 1), normed(8, scale))
    assert counts(module, torch.randn(1, 8, 9, 9)) == expected
    depthwise = Branches(convolved(8, 8, 3, groups=8), normed(8, scale))
    assert counts(depthwise, torch.randn(1, 8, 9, 9)) == expected


class Others(nn.Module):
    """What must stay: a convolution that is read twice, of another value, of another stride."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.c = (nn.Conv2d(4, 4, 3, padding=1) for _ in range(3))

    def forward(self, x: Tensor) -> Tensor:
        twice = self.a(x)
        return (twice + self.b(x)) * twice.relu() + self.c(x.relu()) + self.c(x)[:, :, :1, :1]


def test_what_others_read_too_and_what_reads_other_values_stay() -> None:
    torch.manual_seed(3)
    assert counts(Others(), torch.randn(1, 4, 8, 8)) == (4, 3)


@given(
    seed=st.integers(0, 1 << 20),
    sides=st.lists(st.sampled_from([1, 2, 3, (1, 3), (5, 3)]), min_size=2, max_size=4),
    stride=st.sampled_from([1, 2, (2, 1)]),
    groups=st.sampled_from([1, 2, 8]),
    itself=st.booleans(),
)
@settings(max_examples=25, deadline=None)
def test_random_branches_compute_the_same(seed, sides, stride, groups, itself) -> None:
    torch.manual_seed(seed)
    options = {"stride": stride, "groups": groups, "padding": 2}
    parts = [convolved(8, 8, side, **options) for side in sides]
    x = torch.randn(2, 8, 9, 11)
    shapes = [part.eval()(x).shape for part in parts]
    parts = [part for part, shape in zip(parts, shapes, strict=True) if shape == shapes[0]]
    if itself and shapes[0] == x.shape:
        parts.append(normed(8, 0.3))
    counts(Branches(*parts), x)

"""Channels-last permutations go behind elementwise operators; what is computed stays the same."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import systola
from sw.compiler.frontend.capture import capture


class ChannelsLast(nn.Module):
    """`function` of convolutions on an image in NHWC, and of that image."""

    def __init__(self, function, channels=8):
        super().__init__()
        self.first = nn.Conv2d(channels, channels, 3, padding=1)
        self.second = nn.Conv2d(channels, channels, 3, padding=1)
        self.offset = nn.Parameter(torch.randn(channels))
        self.function = function

    def forward(self, x):
        return self.function(self, x)


def nhwc(convolution, x):
    return convolution(x.permute(0, 3, 1, 2)).permute(0, 2, 3, 1)


def activation(m, x):
    return nhwc(m.second, F.gelu(nhwc(m.first, x)))


def residual(m, x):
    y = torch.relu(nhwc(m.first, x))
    return torch.relu(nhwc(m.second, y) + y)


def constants(m, x):
    y = nhwc(m.first, x) * m.offset + 0.5
    return nhwc(m.second, F.silu(2.0 - y / (m.offset.abs() + 1.0)))


def excitation(m, x):
    y = torch.relu(nhwc(m.first, x))
    return y * torch.sigmoid(nhwc(m.second, y.mean((1, 2), keepdim=True)))


def pooled(m, x):
    y = torch.relu(nhwc(m.first, x)).permute(0, 3, 1, 2)
    return torch.relu(F.max_pool2d(y, 2).permute(0, 2, 3, 1))


def targets(graph):
    return [str(n.target).split(".")[1] for n in graph.graph.nodes if n.op == "call_function"]


@pytest.mark.parametrize(
    "function, permutes",
    [(activation, 2), (residual, 2), (constants, 4), (pooled, 2)],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_permutes_meet_and_vanish(function, permutes):
    torch.manual_seed(0)
    module, x = ChannelsLast(function).eval(), torch.randn(2, 6, 4, 8)
    graph = capture(module, (x,)).graph
    # Those of the input and of the result are left, and those of constants.
    assert targets(graph).count("permute") == permutes
    assert torch.allclose(graph(x)[0], module(x), atol=1e-5)


def test_a_scale_of_channels_stays_what_it_is():
    torch.manual_seed(0)
    module, x = ChannelsLast(excitation).eval(), torch.randn(2, 6, 4, 8)
    assert torch.allclose(capture(module, (x,)).graph(x)[0], module(x), atol=1e-5)


@pytest.mark.parametrize(
    "function",
    [
        lambda m, x: torch.relu(m.first(x).permute(0, 3, 2, 1)),
        lambda m, x: m.first(x).permute(0, 2, 3, 1) + x.permute(0, 2, 3, 1),
        lambda m, x: torch.relu(x.permute(0, 2, 3, 1)),
        lambda m, x: m.first(x).permute(0, 2, 3, 1) * m.offset.reshape(1, 1, 1, 1, 8),
    ],
    ids=["another permutation", "one of two operands", "no image", "more dimensions"],
)
def test_what_is_no_image_in_nhwc_stays_where_it_is(function):
    torch.manual_seed(0)
    module, x = ChannelsLast(function).eval(), torch.randn(1, 8, 6, 8)
    graph = capture(module, (x,)).graph
    assert targets(graph)[-1] != "permute"
    assert torch.allclose(graph(x)[0], module(x), atol=1e-5)


def test_a_residual_block_takes_the_cycles_and_the_error_of_the_one_in_nchw():
    torch.manual_seed(0)
    module, x = ChannelsLast(residual, channels=32).eval(), torch.randn(1, 16, 16, 32)

    class ChannelsFirst(nn.Module):
        def forward(self, x):
            y = torch.relu(module.first(x))
            return torch.relu(module.second(y) + y)

    def compiled(model, x):
        return systola.compile(model, (x,)).image.info["predicted_cycles"]

    last = compiled(module, x)
    first = compiled(ChannelsFirst().eval(), x.permute(0, 3, 1, 2).contiguous())
    assert abs(last / first - 1) < 0.02

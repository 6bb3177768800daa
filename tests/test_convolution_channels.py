"""What convolutions read has a scale for each channel, where one scale loses much."""

import numpy as np
import pytest
import torch
from torch import nn

import systola
from sw.compiler.frontend.importing import import_model
from sw.compiler.frontend.quantization.calibrate import Images
from sw.compiler.frontend.quantization.channels import Reader, image_scales
from sw.compiler.frontend.quantization.sensitivity import losses
from sw.models.catalog import pcc
from sw.runtime.calls import MeasuredModel
from sw.runtime.golden import GoldenDevice
from sw.runtime.rtl import RtlDevice

NPU = systola.preset("tiny")
QUIET = torch.logspace(0, -2, 16)[:, None, None]
"""Channels whose ranges differ by a hundred; the layer behind makes them alike."""


class Uneven(nn.Module):
    """Channels of different ranges, made by `first`, in front of `layer`."""

    def __init__(self, layer: nn.Module, function: nn.Module | None = None) -> None:
        super().__init__()
        self.first, self.function = nn.Conv2d(4, 16, 1), function or nn.ReLU()
        self.layer = layer
        with torch.no_grad():
            self.first.weight.mul_(QUIET[..., None])
            self.first.bias.mul_(QUIET[:, 0, 0])
            grouped = layer.weight.shape[1] == 1
            even = 1 / QUIET[..., None]
            layer.weight.mul_(even if grouped or isinstance(layer, nn.ConvTranspose2d)
                              else even.transpose(0, 1))  # fmt: skip

    def forward(self, x):
        return self.layer(self.function(self.first(x)))


CASES = {
    "depthwise": lambda: Uneven(nn.Conv2d(16, 16, 3, padding=1, groups=16)),
    "pointwise": lambda: Uneven(nn.Conv2d(16, 8, 1)),
    "three by three": lambda: Uneven(nn.Conv2d(16, 8, 3, stride=2)),
    "transposed": lambda: Uneven(nn.ConvTranspose2d(16, 8, 2, stride=2)),
    "a table before it": lambda: Uneven(nn.Conv2d(16, 8, 3), nn.Hardswish()),
}


def calls(count):
    return [(torch.randn(1, 4, 9, 9),) for _ in range(count)]


def compiled(module):
    return systola.compile(module, calls(1)[0], NPU, calibration=calls(8), policy="wide")


@pytest.mark.parametrize("case", CASES)
def test_channels_of_different_ranges_keep_their_bits(case):
    torch.manual_seed(1)
    module = CASES[case]().eval()
    (x,) = calls(1)[0]
    (got,) = MeasuredModel(compiled(module), GoldenDevice(NPU))(x.numpy())
    # With one scale the quietest channels have two or three integers: a PCC of 0.99 and less.
    assert pcc(got, module(x).detach().numpy()) > 0.9995


@pytest.mark.rtl
def test_the_rtl_computes_channels_of_different_ranges():
    torch.manual_seed(2)
    module = CASES["depthwise"]().eval()
    program, (x,) = compiled(module), calls(1)[0]
    (expected,) = MeasuredModel(program, GoldenDevice(NPU))(x.numpy())
    with RtlDevice(NPU) as device:
        (got,) = MeasuredModel(program, device)(x.numpy())
    assert np.array_equal(got, expected)


def operands(module, count=4):
    imported = import_model(module, calls(1)[0], calibration=calls(count), policy="wide")
    return imported, list(imported.layers.values())[-1]


def test_channels_of_alike_ranges_have_one_scale():
    torch.manual_seed(3)
    module = nn.Sequential(nn.Conv2d(4, 16, 1), nn.ReLU(), nn.Conv2d(16, 8, 3))
    assert isinstance(operands(module)[1].scale, float)


class Twice(Uneven):
    """A sum reads the value too."""

    def forward(self, x):
        y = self.function(self.first(x))
        return self.layer(y) + y


@pytest.mark.parametrize(
    "module",
    [
        lambda: Twice(nn.Conv2d(16, 16, 3, padding=1, groups=16)),
        lambda: Uneven(nn.Conv2d(16, 8, 1), nn.ReLU6()),
        lambda: Uneven(nn.Conv2d(16, 8, 1), nn.MaxPool2d(2)),
    ],
    ids=["read by a sum too", "bounded above", "a pool"],
)
def test_other_values_are_as_they_were(module):
    torch.manual_seed(4)
    module = module().eval()
    (x,) = calls(1)[0]
    (got,) = MeasuredModel(compiled(module), GoldenDevice(NPU))(x.numpy())
    assert pcc(got, module(x).detach().numpy()) > 0.95


def test_a_layer_of_16_bits_has_one_scale():
    torch.manual_seed(5)
    module = CASES["pointwise"]().eval()
    program = systola.compile(
        module, calls(1)[0], NPU, calibration=calls(4), precision={"conv2d_1": "int16"}
    )
    assert isinstance(program.imported.layers["conv2d_1"].scale, float)


def test_losses_of_layers_count_the_scales_of_their_channels():
    torch.manual_seed(6)
    module = CASES["pointwise"]().eval()
    imported, last = operands(module)
    assert (
        isinstance(last.scale, np.ndarray)
        and last.axis == 1
        and last.scale.max() > 20 * (last.scale.min())
    )
    found = losses(imported.source, imported.layers, calls(4))
    assert found[-1].pcc > 0.9995


def test_before_a_depthwise_layer_each_channel_has_its_own_range():
    """There the weights lose nothing: the scales are the ranges."""
    reach = np.array([8.0, 1.0, 0.125, 2.0])
    images = Images(mean=reach / 2, square=reach**2 / 3)
    images.least, images.most = [np.zeros(4)] * 2, [reach] * 2
    kernel = np.ones((4, 1, 3, 3))
    found = image_scales(images, [Reader(kernel=kernel / reach[:, None, None, None], groups=4)], 64)
    assert np.allclose(found, reach / 8)

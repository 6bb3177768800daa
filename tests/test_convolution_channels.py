"""What convolutions read has a scale for each channel, where one scale loses much."""

import numpy as np
import pytest
import torch
import torch.ao.quantization.fx._decomposed  # registers the operators
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


class Copied(nn.Module):
    def forward(self, x):
        return x.clone()


CASES = {
    "depthwise": lambda: Uneven(nn.Conv2d(16, 16, 3, padding=1, groups=16)),
    "pointwise": lambda: Uneven(nn.Conv2d(16, 8, 1)),
    "three by three": lambda: Uneven(nn.Conv2d(16, 8, 3, stride=2)),
    "transposed": lambda: Uneven(nn.ConvTranspose2d(16, 8, 2, stride=2)),
    "what changes nothing before it": lambda: Uneven(
        nn.Conv2d(16, 8, 1), nn.Sequential(nn.ReLU(), Copied())
    ),
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


class StoredWeights(nn.Module):
    """A depthwise layer whose weights are integers with scales, in front of it uneven channels."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(4, 16, 1)
        with torch.no_grad():
            self.first.weight.mul_(QUIET[..., None])
        self.integers = nn.Buffer(torch.randint(-127, 128, (16, 1, 3, 3), dtype=torch.int8))
        self.scale = nn.Buffer(1 / QUIET.flatten() / 127)
        self.zero = nn.Buffer(torch.zeros(16, dtype=torch.int64))

    def forward(self, x):
        weight = torch.ops.quantized_decomposed.dequantize_per_channel(
            self.integers, self.scale, self.zero, 0, -127, 127, torch.int8
        )
        return nn.functional.conv2d(self.first(x).relu(), weight, padding=1, groups=16)


@pytest.mark.parametrize("input_too", [False, True])
def test_integers_that_the_model_brings_stay_as_they_are(input_too):
    """Weights alone are quantized, or weights and the model's input: what lies between is float."""
    torch.manual_seed(7)
    module, model = StoredWeights(), StoredWeights()
    model.load_state_dict(module.state_dict())
    if input_too:
        model.register_forward_pre_hook(rounded_input)
    policy = "auto" if input_too else "wide"
    imported = import_model(model, calls(1)[0], calibration=calls(4), policy=policy)
    last = list(imported.layers.values())[-1]
    assert isinstance(last.scale, float)
    stored = [t.data for t in imported.graph.tensors.values() if t.data is not None]
    wanted = module.integers.numpy().transpose(2, 3, 0, 1)
    assert any(d.shape == wanted.shape and np.array_equal(d, wanted) for d in stored)


def rounded_input(_, inputs):
    ops, grid = torch.ops.quantized_decomposed, (0.03, 0, -128, 127, torch.int8)
    q = ops.quantize_per_tensor(inputs[0], *grid)
    return (ops.dequantize_per_tensor(q, *grid),)


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

"""What rounding takes from the mean result of a convolution comes back with its bias."""

import numpy as np
import pytest
import torch

import systola
from sw.compiler.frontend.capture import capture
from sw.compiler.frontend.importing import import_model
from sw.compiler.frontend.quantization.calibrate import calibrate
from sw.compiler.frontend.rules.mean_errors import mean_error
from sw.compiler.frontend.windows import output_first, windows
from sw.runtime.calls import MeasuredModel
from sw.runtime.golden import GoldenDevice

NPU = systola.preset("tiny")
SHAPES = {
    "plain": (torch.nn.Conv2d(6, 4, 3), (1, 6, 9, 11)),
    "padded": (torch.nn.Conv2d(6, 4, 5, padding=2), (1, 6, 4, 7)),
    "stride and dilation": (torch.nn.Conv2d(6, 4, 3, 2, (1, 3), (1, 2)), (1, 6, 9, 12)),
    "depthwise": (torch.nn.Conv2d(6, 12, 3, padding=1, groups=6), (1, 6, 5, 5)),
    "groups": (torch.nn.Conv2d(6, 9, 3, padding=1, groups=3), (1, 6, 5, 5)),
    "one dimension": (torch.nn.Conv1d(6, 4, 5, padding=2), (1, 6, 9)),
    "three dimensions": (torch.nn.Conv3d(2, 4, 3, padding=1), (1, 2, 4, 5, 6)),
    "transposed": (torch.nn.ConvTranspose2d(6, 4, 3, 2, 1, 1), (1, 6, 5, 4)),
    "transposed groups": (torch.nn.ConvTranspose2d(6, 4, 4, 2, 1, groups=2), (1, 6, 5, 4)),
}


@pytest.mark.parametrize("case", SHAPES)
def test_the_mean_error_is_that_of_constant_channels(case):
    """An input that is constant by channel has exactly its mean everywhere."""
    layer, size = SHAPES[case]
    generator = torch.Generator().manual_seed(1)
    mean = torch.rand(size[1], generator=generator)
    x = mean.reshape(1, -1, *[1] * (len(size) - 2)).expand(size).contiguous()
    graph = capture(layer, (x,)).graph
    (node,) = (n for n in graph.graph.nodes if "conv" in str(n.target))
    rounding = layer.weight.detach().double().numpy()
    if rounding.ndim == 3:
        rounding = rounding[:, :, None, :]
    w = windows(node, rounding.shape[2:])
    if w.transposed:
        rounding = output_first(rounding, w.groups)
    made = tuple(node.meta["val"].shape[2:])
    with torch.no_grad():
        layer.bias.zero_()
        others = [0, *range(2, len(size))]
        wanted = layer(x).mean(others).double().numpy()
    found = mean_error(rounding, mean.double().numpy(), w, size[2:], made)
    assert np.allclose(found, wanted, rtol=1e-4, atol=1e-6)


def test_calibration_has_the_mean_of_each_channel_over_all_calls():
    layer = torch.nn.Sequential(torch.nn.ReLU(), torch.nn.Conv2d(3, 2, 3))
    calls = [(torch.randn(1, 3, 6, 6),) for _ in range(3)]
    graph = capture(layer, calls[0]).graph
    ranges = calibrate(graph, calls)
    (relu,) = (n for n in graph.graph.nodes if "relu" in str(n.target))
    values, found = torch.cat([c.relu() for (c,) in calls]).double(), ranges.images[relu]
    assert np.allclose(found.mean, values.mean((0, 2, 3)).numpy())
    variance = values.var((0, 2, 3), correction=0).numpy()
    assert np.allclose(found.variance, variance)
    assert np.allclose(found.reach, values.amax((0, 2, 3)).numpy())


class Rounded(torch.nn.Module):
    """A pointwise layer behind a ReLU, whose weights all round to the same side.

    One weight of each output makes the step of the others; they are 0.4 steps beside multiples.
    """

    def __init__(self, transposed: bool = False) -> None:
        super().__init__()
        steps = torch.randint(-20, 20, (8, 32)) + 0.4
        steps[:, 0] = 127
        make = torch.nn.ConvTranspose2d if transposed else torch.nn.Conv2d
        self.layer = make(32, 8, 1)
        self.layer.weight.data = (steps.T if transposed else steps)[..., None, None] / 127
        self.layer.bias.data.zero_()

    def forward(self, x):
        return self.layer(x.relu()) * 1.5


def off(module, precision=()):
    """(mean deviation by channel, standard deviation of the rest) of the NPU's result."""
    calls = [(torch.randn(1, 32, 8, 8) + 1,) for _ in range(8)]
    program = systola.compile(
        module, calls[0], NPU, calibration=calls[1:], policy="wide", precision=precision
    )
    (got,) = MeasuredModel(program, GoldenDevice(NPU))(calls[0][0].numpy())
    with torch.no_grad():
        error = got - module(*calls[0]).numpy()
    return np.abs(error.mean((0, 2, 3))).max(), error.std()


@pytest.mark.parametrize("transposed", [False, True])
def test_weights_that_round_to_one_side_do_not_move_the_result(transposed):
    torch.manual_seed(2)
    mean, spread = off(Rounded(transposed))
    # Without the bias it is 0.4 steps · 31 weights · a mean of 1.1 · 1.5 / 127 = 0.16.
    assert mean < 0.02
    assert spread < 0.05


def test_a_transposed_convolution_reads_16_bits():
    torch.manual_seed(3)
    module = torch.nn.Sequential(torch.nn.ConvTranspose2d(32, 8, 4, 2, 1), torch.nn.Hardswish())
    narrow, wide = (off(module, p)[1] for p in ((), {"conv_transpose2d": "int16"}))
    assert wide < narrow / 2


def test_what_the_bias_restores_is_in_the_operands():
    torch.manual_seed(4)
    module, x = Rounded(), torch.rand(1, 32, 4, 4)
    (operands,) = import_model(module, (x,), policy="wide").layers.values()
    assert operands.restored is not None and (operands.restored > 0.05).all()

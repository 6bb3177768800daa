"""Whole numbers in floats, and fractions: samples do not slip to the element beside."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

import systola
from sw.models.catalog import pcc

NPU = systola.preset("small")


class Sampled(nn.Module):
    """Bilinear samples of an image [1, 2, 12, 16] at places [1, 12, 16, 2]."""

    def forward(self, image, places):
        return F.grid_sample(image, places, align_corners=False)


class Indexed(nn.Module):
    """A row of a table for each float, and the fraction that is left."""

    def __init__(self):
        super().__init__()
        self.table = nn.Parameter(torch.randn(24, 5))

    def forward(self, x):
        whole = torch.floor(x)
        return self.table[whole.long()] * (x - whole).unsqueeze(-1), whole + 1 >= 5


def places(*rows):
    return F.affine_grid(torch.tensor([rows]), (1, 2, 12, 16), align_corners=False)


def results(module, calibration, inputs):
    program = systola.compile(module, inputs, NPU, calibration=calibration)
    got = program.outputs(systola.run(program.image, program.inputs(*inputs)))
    wanted = module(*inputs)
    return got, wanted if isinstance(wanted, tuple) else (wanted,)


AFFINE = {
    "as it is": ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0)),
    "moved by two columns": ((1.0, 0.0, 0.25), (0.0, 1.0, 0.0)),
    "moved by half a row": ((1.0, 0.0, 0.0), (0.0, 1.0, 1 / 12)),
    "turned": ((0.8, -0.5, 0.1), (0.6, 0.9, -0.2)),
}


@pytest.mark.parametrize("name", AFFINE)
def test_samples_of_an_image_lie_where_they_should(name):
    torch.manual_seed(0)
    image, grid = torch.randn(1, 2, 12, 16), places(*AFFINE[name])
    calls = [(torch.randn(1, 2, 12, 16), grid) for _ in range(3)]
    (got,), (wanted,) = results(Sampled(), [*calls, (image, grid)], (image, grid))
    assert pcc(got, wanted.numpy()) > 0.9999
    assert np.abs(got - wanted.numpy()).max() < 0.02


def test_samples_at_places_that_calibration_has_not_seen():
    torch.manual_seed(0)
    still = [(torch.randn(1, 2, 12, 16), places(*AFFINE["as it is"])) for _ in range(3)]
    inputs = torch.randn(1, 2, 12, 16), places(*AFFINE["moved by half a row"]) * 0.9
    (got,), (wanted,) = results(Sampled(), still, inputs)
    assert pcc(got, wanted.numpy()) > 0.999


def test_whole_numbers_are_exact_as_indices_and_in_comparisons():
    torch.manual_seed(0)
    x = torch.cat([torch.arange(24.0) + 0.25, torch.arange(23.0) + 0.75])
    (rows, large), (wanted, more) = results(Indexed(), [(x,)], (x,))
    assert pcc(rows, wanted.detach().numpy()) > 0.9999
    assert np.array_equal(large.astype(bool), more.numpy())


@pytest.mark.parametrize("mode", ["bilinear", "nearest"])
@pytest.mark.parametrize("border", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("corners", [True, False])
def test_samples_at_random_places(mode, border, corners):
    class Anywhere(nn.Module):
        def forward(self, image, places):
            return F.grid_sample(image, places, mode, border, align_corners=corners)

    torch.manual_seed(0)
    calls = [(torch.randn(2, 3, 8, 8), torch.rand(2, 9, 7, 2) * 2.4 - 1.2) for _ in range(4)]
    inputs = calls[0][0].flip(2).clamp(-2, 2), torch.rand(2, 9, 7, 2) * 2.4 - 1.2
    (got,), (wanted,) = results(Anywhere(), calls, inputs)
    assert pcc(got, wanted.numpy()) > 0.999


@pytest.mark.parametrize("more", [-7, -1, 0, 1, 2, 3, 100])
@pytest.mark.parametrize("most", [3.0, 9.0, 150.0])
def test_a_whole_number_more_is_exact(more, most):
    class Moved(nn.Module):
        def forward(self, x):
            whole = torch.floor(x) + more
            turned = (more - torch.floor(x)).long().float()
            return whole.long().float(), whole == 2 + more, (whole + 1).int().float(), turned

    torch.manual_seed(0)
    calls = [(torch.rand(1, 300) * most - 0.5,) for _ in range(3)]
    inputs = (torch.cat([torch.rand(1, 250) * most, calls[0][0][:, :50]], 1).clamp(-0.4, most - 1),)
    got, wanted = results(Moved(), calls, inputs)
    far = (inputs[0] - inputs[0].round()).abs().numpy() > 0.03  # no step of the input slips
    assert far.sum() > 150
    for mine, yours in zip(got, wanted, strict=True):
        assert np.array_equal(np.asarray(mine)[far], yours.numpy()[far])


def test_places_beyond_those_that_calibration_saw_are_beside_the_image():
    """They saturate, and must not become the column behind the last one."""

    class Anywhere(nn.Module):
        def forward(self, image, places):
            return F.grid_sample(image, places, align_corners=False)

    torch.manual_seed(0)
    image = torch.randn(1, 2, 8, 8)
    seen = [(image, torch.rand(1, 8, 8, 2) * 0.9)]
    for far in (1.5, 3.0, 9.0):
        inputs = image, (torch.rand(1, 8, 8, 2) * 0.9).clamp(max=1.3) * far
        (got,), (wanted,) = results(Anywhere(), seen, inputs)
        seen_too = (inputs[1].abs() <= 1.3).all(-1).numpy()[0]
        assert np.abs(got - wanted.numpy())[..., seen_too].max() < 0.1
        assert np.abs(got).max() <= np.abs(image.numpy()).max() + 0.1

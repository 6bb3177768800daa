"""Inputs outside the calibrated range: a warning once, and their share in the report."""

import warnings

import numpy as np
import pytest
import torch
from torch import nn
from torch_backend_helpers import compiled, report

import systola
from sw.compiler.frontend.layout import Layout
from sw.compiler.frontend.ports import ModelPort, quantize_input, saturated_share
from sw.torch_backend.saturation import SaturationWarning


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 8)

    def forward(self, x):
        return self.layer(x)


def part_of(fast):
    (part,) = report(fast)["graphs"][0]["variants"][0]["parts"]
    return part


@torch.no_grad()
def test_values_far_outside_the_range_are_warned_of_once_and_counted():
    fast = compiled(Model(), recalibrate=0)
    inside = torch.ones(4, 8)
    outside = inside.clone()
    outside[0] = 100.0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fast(inside)
        fast(inside * -1.55)  # the range is half as large again as the calibration
    message = r"(?s)npu_0 \(.*self\.layer\(x\)\): 25\.00% of the values of input .* saturate"
    with pytest.warns(SaturationWarning, match=message) as caught:
        fast(outside)
        fast(outside)
    assert len(caught) == 1
    part = part_of(fast)
    assert part["calibrations"] == 1 and part["saturated"] == 3
    assert part["saturated_values"] == 32 + 16 and part["saturated_share"] == 48 / 128
    text = str(systola.compile_report(fast))
    assert "3 inputs saturated: 37.50% of all input values" in text


@torch.no_grad()
def test_inputs_saturate_again_once_there_are_no_recalibrations_left():
    fast = compiled(Model(), recalibrate=1)
    with pytest.warns(SaturationWarning, match=r"100\.00% of the values .*the largest is 400"):
        for size in (1.0, 20.0, 400.0):
            fast(torch.full((4, 8), size))
    part = part_of(fast)
    assert part["calibrations"] == 2 and part["saturated"] == 1


@pytest.mark.parametrize(("dtype", "zero_point"), [("int8", -128), ("int8", 5), ("int16", 0)])
def test_the_share_is_that_of_values_which_quantizing_changes_by_more_than_a_step(
    dtype, zero_point
):
    port = ModelPort(
        name="x", layout=Layout.of((50, 4)), scale=0.25, zero_point=zero_point, dtype=dtype
    )
    values = np.random.default_rng(0).normal(0, 30, (50, 4)).astype(np.float32)
    values[0, 0], values[0, 1] = 1e6, -1e6
    back = (quantize_input(port, values).astype(np.float64) - zero_point) * 0.25
    changed = np.abs(back.reshape(50, 4) - values) > 0.1251
    assert 0 < changed.sum() < 200
    assert saturated_share(port, values) == pytest.approx(changed.mean(), abs=1.1 / 200)


def test_ports_of_integers_and_empty_arrays_never_saturate():
    port = ModelPort(name="x", layout=Layout.of((2,)), scale=0.0, zero_point=0, dtype="int32")
    assert saturated_share(port, np.array([2**40, 1])) == 0.0
    empty = ModelPort(name="x", layout=Layout.of((0,)), scale=1.0, zero_point=0)
    assert saturated_share(empty, np.zeros(0)) == 0.0

"""Ranges of convolutions' inputs, and what mobile networks keep of their float outputs."""

from collections.abc import Iterator
from functools import lru_cache

import numpy as np
import torch
from torch import nn

from sw.compiler.frontend.capture import Captured, capture
from sw.compiler.frontend.importing import import_graph
from sw.compiler.frontend.quantization.ends import affine
from sw.measure.accuracy import floats, integers
from sw.models.catalog import pcc
from sw.models.weights import initialise, seeded
from sw.models.wide.squeeze import Inverted, SqueezeExcite


def _ends(count: int, seed: int = 0) -> list[tuple[float, float]]:
    tops = np.random.default_rng(seed).gumbel(5.0, 0.5, count)
    return [(-0.278, float(top)) for top in tops]


def test_more_inputs_do_not_widen_the_range() -> None:
    few, many = affine(_ends(16), 4096), affine(_ends(1024), 4096)
    assert many.scale < 1.02 * few.scale
    assert 255 * many.scale < 0.278 + max(top for _, top in _ends(1024))


def test_a_range_of_few_values_reaches_further_than_that_of_many() -> None:
    narrow, wide = affine(_ends(16), 10_000_000), affine(_ends(16), 16)
    assert wide.scale > 1.2 * narrow.scale


def test_a_range_has_an_integer_for_zero_and_uses_both_ends() -> None:
    form = affine([(-1.0, 3.0)] * 8, 100_000)
    assert form.dtype == "int8"
    low, high = ((steps - form.zero_point) * form.scale for steps in (-128, 127))
    assert low <= -1.0 and 3.0 <= high < 4.5
    assert affine([(0.5, 2.0)] * 4, 64).zero_point == -128


def test_a_value_that_is_always_zero_has_a_scale() -> None:
    assert affine([(0.0, 0.0)] * 3, 10).scale > 0


@lru_cache(maxsize=1)
def _mobile() -> tuple[Captured, list[tuple[torch.Tensor, ...]]]:
    """A small network with squeeze and excitation, and 64 samples; the first 16 fit its weights."""
    with seeded(7):
        layers: list[nn.Module] = [nn.Conv2d(3, 16, 3, 2, 1, bias=False), nn.BatchNorm2d(16)]
        layers.append(nn.Hardswish())
        for inputs, outputs, stride in ((16, 16, 1), (16, 24, 2), (24, 24, 1), (24, 32, 2)):
            gate = SqueezeExcite(3 * inputs, 8, nn.ReLU, nn.Hardsigmoid)
            layers.append(Inverted(inputs, 3 * inputs, outputs, 3, stride, nn.Hardswish, gate))
        layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 20)]
        module = nn.Sequential(*layers)
        data = torch.randn(64, 3, 32, 32)
    initialise(module, 7, data[:16])
    samples = [(sample,) for sample in data.split(1)]
    return capture(module, samples[0]), samples


def _accuracy(calibration: int) -> float:
    """PCC with float on 32 samples that calibrated nothing."""
    captured, samples = _mobile()
    imported = import_graph(captured.graph, samples[:calibration], policy="wide", name="mobile")
    return float(np.mean(list(_each(captured, imported, samples[32:]))))


def _each(
    captured: Captured, imported: object, samples: list[tuple[torch.Tensor, ...]]
) -> Iterator[float]:
    for sample in samples:
        yield pcc(floats(captured.graph, sample)[0], integers(imported, sample)[0])  # type: ignore[arg-type]


def test_unseen_samples_agree_with_float_and_more_calibration_does_not_cost_accuracy() -> None:
    four, eight, sixteen, many = (_accuracy(count) for count in (4, 8, 16, 32))
    assert four > 0.99
    assert eight > four - 2e-4 and sixteen > eight - 2e-4 and many > sixteen - 2e-4

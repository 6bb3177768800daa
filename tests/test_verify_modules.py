"""PyTorch modules through importer, compiler and golden model: the same bits as the TOSA graph."""

import numpy as np
import pytest
import torch
from frontend_cases import EXACT_CASES, TIE_CASES, Case
from frontend_helpers import random_tensors, run_module

import systola
from spec import preset
from sw.compiler import compile_graph
from sw.runtime.golden import GoldenDevice
from sw.runtime.report import compare
from sw.runtime.session import reference_comparison, run_image

CASES = {**EXACT_CASES, **TIE_CASES}


@pytest.mark.parametrize("name", CASES)
def test_golden_model_computes_the_tosa_graph(name: str) -> None:
    case: Case = CASES[name]
    torch.manual_seed(1)
    run = run_module(case.build(), random_tensors(case.shapes, seed=3))
    for config in (preset("tiny"), preset("odd")):
        image = compile_graph(run.imported.graph, config)
        outputs, _ = run_image(image, run.inputs, GoldenDevice(config))
        found = compare(run.outputs, outputs)
        assert found.exact, f"{config.name}: {found.first}"


class TwoHeads(torch.nn.Module):
    """Two inputs of which one is an image, two outputs of which one is an image."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = torch.nn.Conv2d(3, 6, 3, padding=1)
        self.linear = torch.nn.Linear(10, 4)

    def forward(self, image, vector):
        return {"a": torch.relu(self.conv(image)), "b": self.linear(vector)}


def test_compiled_module_takes_and_gives_tensors_of_the_modules_shapes() -> None:
    torch.manual_seed(0)
    module = TwoHeads()
    tensors = random_tensors([(2, 3, 7, 5), (2, 10)])
    config = preset("tiny")
    program = systola.compile(module, tensors, config, name="two", seed=7)
    assert program.image.info["name"] == "two"
    assert program.image.info["calibration_samples"] == 2
    assert program.image.info["calibration_seed"] == 7
    inputs = program.inputs(*tensors)
    assert {k: v.shape for k, v in inputs.items()} == {"image": (2, 7, 5, 3), "vector": (2, 10)}
    outputs = systola.run(program.image, inputs)
    image, vector = program.outputs(outputs)
    assert (image.shape, vector.shape) == ((2, 6, 7, 5), (2, 4))
    with torch.no_grad():
        wanted = program.quantized(*tensors)
    ports = program.imported.outputs
    for got, want, port in zip((image, vector), wanted.values(), ports, strict=True):
        assert np.abs(got - want.numpy()).max() <= 1.01 * port.scale
    assert reference_comparison(program.imported.graph, inputs, outputs).exact


def test_quantized_module_is_compiled_as_it_is() -> None:
    tensors = random_tensors([(2, 10)])
    config = preset("tiny")
    first = systola.compile(torch.nn.Linear(10, 4), tensors, config)
    again = systola.compile(first.quantized, tensors, config)
    assert again.quantized is first.quantized
    assert np.array_equal(again.image.program, first.image.program)
    assert np.array_equal(again.image.constants, first.image.constants)

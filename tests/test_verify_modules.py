"""PyTorch modules through importer, compiler and golden model: the same bits as the TOSA graph."""

import numpy as np
import pytest
import torch
from frontend_helpers import CASES, quantized_module, random_tensors, run_case, run_quantized
from torchao.quantization.pt2e import MinMaxObserver
from torchao.quantization.pt2e.quantizer import QuantizationSpec

import systola
from spec import preset
from sw.compiler import compile_graph
from sw.compiler.frontend.quantization.quantizer import SystolaQuantizer
from sw.runtime.golden import GoldenDevice
from sw.runtime.report import compare
from sw.runtime.session import reference_comparison, run_image


@pytest.mark.parametrize("name", CASES)
def test_golden_model_computes_the_tosa_graph(name: str) -> None:
    run = run_case(name)
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
    for got, want, port in zip((image, vector), wanted, ports, strict=True):
        assert np.abs(got - want.numpy()).max() <= 1.01 * port.scale
    returned = program.returned(outputs)
    assert list(returned) == ["a", "b"] and torch.equal(returned["b"], torch.from_numpy(vector))
    assert program.imported.policy == "pt2e"
    assert reference_comparison(program.imported.graph, inputs, outputs).exact


def test_quantized_module_is_compiled_as_it_is() -> None:
    tensors = random_tensors([(2, 10)])
    config = preset("tiny")
    first = systola.compile(torch.nn.Linear(10, 4), tensors, config)
    again = systola.compile(first.quantized, tensors, config)
    assert again.quantized is first.quantized
    assert np.array_equal(again.image.program, first.image.program)
    assert np.array_equal(again.image.constants, first.image.constants)


class _PerTensorWeights(SystolaQuantizer):
    """Affine per-tensor weights: zero points that are not zero."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = QuantizationSpec(
            dtype=torch.int8,
            quant_min=-128,
            quant_max=127,
            qscheme=torch.per_tensor_affine,
            observer_or_fake_quant_ctr=MinMaxObserver.with_args(eps=2.0**-20),
        )


def test_weights_of_another_quantizer_keep_their_zero_point() -> None:
    torch.manual_seed(0)
    conv = torch.nn.Conv2d(5, 9, 3, padding=1, stride=2, bias=False)
    with torch.no_grad():
        conv.weight.add_(0.1)
    tensors = random_tensors([(1, 5, 11, 9)])
    quantized = quantized_module(conv, tensors, _PerTensorWeights())
    run = run_quantized(quantized, tensors)
    graph = run.imported.graph
    assert graph.constant(graph.ops[0].inputs[4]).item() != 0
    assert run.off.max() <= 1 and (run.off > 0).sum() <= 1
    config = preset("odd")
    outputs, _ = run_image(compile_graph(graph, config), run.inputs, GoldenDevice(config))
    assert reference_comparison(graph, run.inputs, outputs).exact

"""Graphs of PyTorch's own quantizers: activations of uint8, rows that are rounded as they come."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torchao.quantization
import torchao.quantization.pt2e.quantizer.x86_inductor_quantizer as inductor
from torch import nn
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

import systola
from sw.compiler.errors import CompileError
from sw.models.catalog import pcc

NPU = systola.preset("small")


class Block(nn.Module):
    """Convolutions with ReLU, a residual sum, a pool, and a linear layer."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 16, 3, padding=1)
        self.second = nn.Conv2d(16, 16, 3, padding=1)
        self.depthwise = nn.Conv2d(16, 16, 3, padding=1, groups=16)
        self.last = nn.Linear(16, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.first(x).relu()
        x = (self.second(x) + x).relu()
        x = nn.functional.max_pool2d(self.depthwise(x).relu(), 2)
        return self.last(x.mean((2, 3)))


class Encoder(nn.Module):
    """Linear layers, a norm and a product of activations."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.last, self.norm = nn.Linear(32, 96), nn.Linear(32, 8), nn.LayerNorm(32)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.qkv(self.norm(x)).chunk(3, -1)
        return self.last((q @ k.transpose(-2, -1) * 0.18).softmax(-1) @ v)


def quantized(model: nn.Module, samples: list[torch.Tensor]) -> Any:
    graph = torch.export.export(model, (samples[0],), strict=False).module()
    quantizer = inductor.X86InductorQuantizer()
    quantizer.set_global(inductor.get_default_x86_inductor_quantization_config())
    prepared = prepare_pt2e(graph, quantizer)
    for x in samples:
        prepared(x)
    return convert_pt2e(prepared)


@pytest.mark.parametrize(
    ("make", "shape"), [(Block, (1, 3, 12, 12)), (Encoder, (1, 20, 32))], ids=["block", "encoder"]
)
def test_graph_of_the_inductor_quantizer(
    make: Callable[[], nn.Module], shape: tuple[int, ...]
) -> None:
    torch.manual_seed(0)
    samples = [torch.randn(shape) for _ in range(6)]
    graph = quantized(make().eval(), samples)
    assert "torch.uint8" in str(graph.graph)
    program = systola.compile(graph, (samples[0],), NPU, calibration=[(x,) for x in samples])
    assert program.image.info["policy"] == "pt2e"
    for x in samples[:3]:
        (got,) = program.outputs(systola.run(program.image, program.inputs(x)))
        assert pcc(got, graph(x).detach().numpy()) > 0.998


class Rounded(nn.Module):
    """x in steps of uint8, as floats or as the integers themselves."""

    def __init__(self, zero: int, back: bool) -> None:
        super().__init__()
        self.zero, self.back = zero, back

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        ops, given = torch.ops.quantized_decomposed, (0.05, self.zero, 0, 255, torch.uint8)
        steps = ops.quantize_per_tensor(x.relu(), *given)
        return ops.dequantize_per_tensor(steps, *given) if self.back else steps


@pytest.mark.parametrize("zero", [0, 7, 128, 255])
def test_steps_of_uint8_are_exact(zero: int) -> None:
    x = torch.linspace(-9, 9, 512).reshape(1, 512)
    model = Rounded(zero, back=True)
    program = systola.compile(model, (x,), NPU)
    (got,) = program.outputs(systola.run(program.image, program.inputs(x)))
    off = np.abs(got - model(x).numpy()) / 0.05
    assert off.max() < 1.01 and (off > 0.01).mean() < 0.01


def test_integers_of_uint8_as_a_result_are_refused() -> None:
    with pytest.raises(CompileError, match="uint8 that are not dequantized"):
        systola.compile(Rounded(128, back=False), (torch.randn(1, 8),), NPU)


class Layers(nn.Module):
    """Linear layers with and without a bias, on rows or on sequences."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(64, 96), nn.Linear(96, 32, bias=False)
        self.norm, self.last = nn.LayerNorm(32), nn.Linear(32, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(self.norm(self.second(nn.functional.gelu(self.first(x)))))


CONFIGS = (
    torchao.quantization.Int8WeightOnlyConfig,
    torchao.quantization.Int8DynamicActivationInt8WeightConfig,
    torchao.quantization.Int8DynamicActivationIntxWeightConfig,
    torchao.quantization.IntxWeightOnlyConfig,
)


@pytest.mark.parametrize("config", CONFIGS)
@pytest.mark.parametrize("shape", [(20, 64), (2, 9, 64)])
def test_linear_layers_that_torchao_quantizes(config: Any, shape: tuple[int, ...]) -> None:
    """They are linear layers again: as many cycles, and the weights that the integers stand for."""
    torch.manual_seed(0)
    model = Layers().eval()
    samples = [torch.randn(shape) for _ in range(4)]
    calls = [(x,) for x in samples]
    plain = systola.compile(model, calls[0], NPU, calibration=calls)
    torchao.quantization.quantize_(model, config())
    program = systola.compile(model, calls[0], NPU, calibration=calls)
    cycles = (p.image.info["predicted_cycles"] for p in (program, plain))
    assert next(cycles) == next(cycles)
    for x in samples[:2]:
        (got,) = program.outputs(systola.run(program.image, program.inputs(x)))
        assert pcc(got, model(x).detach().numpy()) > 0.999


def test_rows_that_are_rounded_for_something_else_are_refused_by_name() -> None:
    class Sums(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(64, 8)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            ops, given = torch.ops.torchao, ((1, 64), torch.int8, -128, 127)
            scale, zero = ops.choose_qparams_affine(x, "SYMMETRIC", *given)
            rounded = ops.quantize_affine(x, (1, 64), scale, zero, *given[1:])
            return self.layer(x) + rounded.sum(-1, keepdim=True)

    with pytest.raises(CompileError, match="choose_qparams_affine"):
        systola.compile(Sums().eval(), (torch.randn(20, 64),), NPU)


@pytest.mark.parametrize("turned", ["rows", "result"])
def test_a_transposed_product_of_integer_weights_stays_one(turned: str) -> None:
    class Square(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("weight", torch.randint(-99, 99, (32, 32), dtype=torch.int8))
            self.register_buffer("scale", torch.rand(32) / 99)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            if turned == "rows":
                return torch.mm(x.t(), self.weight.float()) * self.scale
            return (torch.mm(x, self.weight.float()) * self.scale).t() + self.scale

    torch.manual_seed(0)
    model, x = Square().eval(), torch.randn(32, 32)
    program = systola.compile(model, (x,), NPU)
    (got,) = program.outputs(systola.run(program.image, program.inputs(x)))
    assert pcc(got, model(x).detach().numpy()) > 0.999

"""Capture and quantization: batch norms, in-place operators, parameters, calibration."""

import numpy as np
import pytest
import torch
from frontend_cases import Apply
from frontend_helpers import quantized_module, random_tensors, run_module, run_quantized
from torch import nn

import systola
from sw.compiler.errors import CompileError
from sw.compiler.frontend.capture import capture
from sw.compiler.frontend.importing import import_model
from sw.compiler.frontend.quantization.policy import is_quantized
from sw.compiler.frontend.quantization.quantizer import SystolaQuantizer


def _norm(kind: type[nn.Module], channels: int) -> nn.Module:
    norm = kind(channels)
    with torch.no_grad():
        norm.weight.uniform_(0.5, 2)
        norm.bias.uniform_(-1, 1)
        norm.running_mean.uniform_(-1, 1)
        norm.running_var.uniform_(0.5, 2)
    return norm.eval()


def _norms(graph: torch.fx.GraphModule) -> list[str]:
    calls = [n for n in graph.graph.nodes if n.op == "call_function"]
    return [n.name for n in calls if "batch_norm" in str(n.target)]


@pytest.mark.parametrize("bias", [True, False])
def test_batch_norms_are_folded(bias: bool) -> None:
    torch.manual_seed(0)
    module = nn.Sequential(
        nn.Conv2d(3, 8, 3, bias=bias),
        _norm(nn.BatchNorm2d, 8),
        nn.Flatten(),
        nn.Linear(128, 6, bias=bias),
        _norm(nn.BatchNorm1d, 6),
    ).eval()
    x = random_tensors([(4, 3, 6, 6)])
    graph = capture(module, x).graph
    assert not _norms(graph)
    with torch.no_grad():
        torch.testing.assert_close(graph(*x)[0], module(*x), rtol=1e-5, atol=1e-5)


def test_convolution_that_is_used_twice_keeps_its_batch_norm() -> None:
    norm = _norm(nn.BatchNorm2d, 4)
    module = Apply(lambda c, n, x: n(y := c(x)) + y, nn.Conv2d(3, 4, 3), norm).eval()
    graph = capture(module, random_tensors([(1, 3, 6, 6)])).graph
    assert len(_norms(graph)) == 1


def test_module_is_not_changed() -> None:
    module = nn.Sequential(nn.Linear(4, 3), nn.Dropout(0.9)).train()
    before = {k: v.clone() for k, v in module.state_dict().items()}
    imported = import_model(module, random_tensors([(2, 4)]), policy="pt2e")
    run = run_quantized(imported.source, random_tensors([(2, 4)]))
    assert module.training and module[1].training
    assert all(torch.equal(v, before[k]) for k, v in module.state_dict().items())
    assert imported.samples == 2
    assert run.off.max() == 0


def test_capture_puts_back_the_mode_of_every_part() -> None:
    part = nn.Dropout(0.9).eval()
    module = nn.Sequential(nn.Linear(4, 3), part).train()
    part.eval()
    capture(module, random_tensors([(2, 4)]))
    assert module.training and module[0].training and not part.training


def test_weights_are_symmetric_per_channel_and_bias_has_the_accumulators_scale() -> None:
    torch.manual_seed(0)
    module = nn.Linear(16, 5)
    run = run_module(module, random_tensors([(8, 16)]))
    graph = run.imported.graph
    (layer,) = (op for op in graph.ops if op.kind == "CONV2D")
    weight, bias = (graph.constant(layer.inputs[i]) for i in (1, 2))
    scales = module.weight.detach().abs().amax(1).numpy() / 127
    assert np.abs(weight).max() == 127
    real = weight.reshape(5, 16) * scales[:, None]
    assert np.abs(real - module.weight.detach().numpy()).max() <= scales.max() * 0.51
    step = run.imported.inputs[0].scale * scales
    assert np.abs(bias * step - module.bias.detach().numpy()).max() <= step.max() * 0.51


def test_dead_channels_keep_their_bias() -> None:
    module = nn.Linear(8, 3)
    with torch.no_grad():
        module.weight[1] = 0
        module.bias[1] = 1.5
    run = run_module(module, random_tensors([(16, 8)]))
    port = run.imported.outputs[0]
    (output,) = run.outputs.values()
    real = (output.reshape(16, 3)[:, 1].astype(int) - port.zero_point) * port.scale
    assert np.abs(real - 1.5).max() <= port.scale


def test_calibration_batches_are_split_to_the_examples_size() -> None:
    module = nn.Sequential(nn.Flatten(), nn.Linear(12, 3))
    wide = 10 * random_tensors([(8, 3, 4)], seed=5)[0]
    imported = import_model(module, (wide[:2],), calibration=[wide, (wide,)], policy="pt2e")
    assert imported.samples == 16
    assert imported.inputs[0].scale == pytest.approx(float(wide.max() - wide.min()) / 255)


def test_histogram_observer_narrows_ranges_with_outliers() -> None:
    x = random_tensors([(64, 32)])[0]
    x[0, 0] = 100.0
    scales = {}
    for observer in ("minmax", "histogram"):
        quantizer = SystolaQuantizer(observer=observer)
        quantized = quantized_module(nn.Linear(32, 4), [x], quantizer)
        scales[observer] = run_quantized(quantized, [x]).imported.inputs[0].scale
    assert scales["histogram"] < scales["minmax"]


def test_converted_graph_is_recognised() -> None:
    x = random_tensors([(2, 4)])
    quantized = quantized_module(nn.Linear(4, 3), x)
    assert is_quantized(quantized)
    assert not is_quantized(capture(nn.Linear(4, 3), x).graph)


def test_graph_runs_with_other_strides_than_those_it_was_captured_with() -> None:
    """Operators that take others' places have their own strides: what was a view may be a copy."""
    model = Apply(lambda x: torch.relu(x).reshape(1, 784)).eval()
    x = torch.randn(1, 16, 7, 7)
    graph = capture(model, (x,)).graph
    turned = x.contiguous(memory_format=torch.channels_last)
    (result,) = graph(turned)
    assert torch.equal(result, model(x))


class WithConstants(nn.Module):
    """Results of which only the first depends on the input."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 4)
        self.register_buffer("fixed", torch.randn(3, 5))

    def forward(self, x):
        flags = torch.tensor([True, False])
        return self.linear(x), self.fixed * 2, torch.tensor([3, -4]), torch.zeros(()), flags


def test_outputs_may_be_constants() -> None:
    torch.manual_seed(0)
    module, x = WithConstants().eval(), torch.randn(2, 8)
    program = systola.compile(module, (x,), systola.preset("small"))
    got = program.outputs(systola.run(program.image, program.inputs(x)))
    for one, want in zip(got, module(x), strict=True):
        assert np.shape(one) == tuple(want.shape)
        assert np.allclose(one, want.detach().numpy(), atol=0.02)


def test_some_output_must_depend_on_an_input() -> None:
    class Fixed(nn.Module):
        def forward(self, x):
            return torch.ones(3)

    with pytest.raises(CompileError, match="no output depends on the inputs"):
        systola.compile(Fixed(), (torch.ones(2),), systola.preset("small"))


@pytest.mark.parametrize("value", [2**40, float("inf")])
def test_constants_that_no_integer_holds_are_refused(value: float) -> None:
    class Large(nn.Module):
        def forward(self, x):
            return x * 2, torch.tensor([value, 1])

    with pytest.raises(CompileError, match="no int32 holds it"):
        systola.compile(Large(), (torch.ones(2),), systola.preset("small"))

"""What the compiler says about modules that it cannot take."""

from collections.abc import Callable

import pytest
import torch
from frontend_cases import Apply
from frontend_helpers import random_tensors, run_module, run_quantized
from torch import Tensor, nn
from torch.nn import functional as F

from sw.compiler.errors import CompileError
from sw.compiler.frontend.capture import capture
from sw.compiler.frontend.module import quantize_module
from sw.compiler.frontend.ports import pack_inputs
from sw.compiler.frontend.pt2e.importer import import_module

IMAGE = (2, 4, 8, 8)


class WithSoftmax(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        y = self.layer(x)
        return y.softmax(-1)


def test_unknown_operator_names_node_source_line_and_hint() -> None:
    with pytest.raises(CompileError) as caught:
        run_module(WithSoftmax(), random_tensors([(3, 4)]))
    error = caught.value
    assert error.node == "softmax"
    path, line, code = error.source.rsplit(":", 2)
    assert path == __file__
    assert int(line) == WithSoftmax.forward.__code__.co_firstlineno + 2
    assert code.strip() == "return y.softmax(-1)"
    assert str(error).startswith("softmax: operator aten.softmax.int is not supported\n  at ")
    assert "\n  hint: run this part of the model outside" in str(error)


CASES: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...], str]] = {
    "groups": (
        lambda: nn.Conv2d(4, 8, 3, groups=2),
        IMAGE,
        "groups=2 of 4 channels: only groups=1 and depthwise convolutions (one group per input "
        "channel)",
    ),
    "transposed": (
        lambda: nn.ConvTranspose2d(4, 8, 3),
        IMAGE,
        "operator aten.conv_transpose2d.input is not supported",
    ),
    "max_pool_dilation": (
        lambda: nn.MaxPool2d(2, dilation=2),
        IMAGE,
        "max pool with dilation (2, 2) is not supported",
    ),
    "avg_pool_ceil": (
        lambda: nn.AvgPool2d(3, 2, ceil_mode=True),
        IMAGE,
        "average pool with ceil_mode=True",
    ),
    "avg_pool_divisor": (
        lambda: nn.AvgPool2d(2, divisor_override=3),
        IMAGE,
        "divisor_override=3",
    ),
    "adaptive_uneven": (
        lambda: nn.AdaptiveAvgPool2d(3),
        IMAGE,
        "adaptive average pool from [8, 8] to [3, 3]: sizes must divide evenly",
    ),
    "mean_channels": (
        lambda: Apply(lambda x: x.mean(1)),
        IMAGE,
        "mean over [1] of [2, 4, 8, 8]: only over height and width of [N,C,H,W]",
    ),
    "pad_reflect": (
        lambda: nn.ReflectionPad2d(1),
        IMAGE,
        "padding mode 'reflect': only constant padding",
    ),
    "broadcast": (
        lambda: Apply(lambda x: x + x[:, :, :1]),
        IMAGE,
        "operands [2, 4, 8, 8] and [2, 4, 1, 8]: broadcasting is not supported",
    ),
    "add_number": (
        lambda: Apply(lambda x: F.relu(x) + 1.0),
        IMAGE,
        "aten.add.Tensor with the number 1.0",
    ),
    "scaled_negative": (
        lambda: Apply(lambda x: F.relu(x) * -2.0),
        IMAGE,
        "aten.mul.Tensor by -2.0: only by a positive number",
    ),
    "slice_step": (
        lambda: Apply(lambda x: x[:, :, ::2]),
        IMAGE,
        "slice with step 2 is not supported",
    ),
    "matmul_broadcast": (
        lambda: Apply(lambda x: torch.matmul(x, x[:1])),
        IMAGE,
        "matrix product of [2, 4, 8, 8] and [1, 4, 8, 8]: equal leading dimensions needed",
    ),
    "pool_indices": (
        lambda: Apply(lambda x: F.max_pool2d(x, 2, return_indices=True)[1].float()),
        IMAGE,
        "reads a model input in float, which is not quantized",
    ),
    "batch_norm_alone": (
        lambda: nn.BatchNorm2d(4),
        IMAGE,
        "a batch norm that follows no convolution or linear layer",
    ),
    "batch_norm_of_computed_statistics": (
        lambda: Apply(
            lambda c, x: F.batch_norm(c(x), torch.zeros(5), torch.ones(5)), nn.Conv2d(4, 5, 3)
        ),
        IMAGE,
        "or whose parameters are computed in forward()",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_unsupported_forms_are_refused_with_their_reason(name: str) -> None:
    build, shape, message = CASES[name]
    with pytest.raises(CompileError) as caught:
        run_module(build(), random_tensors([shape]))
    assert message in str(caught.value)
    assert caught.value.node


def test_float_module_is_refused_by_the_importer() -> None:
    graph = capture(nn.Linear(4, 3), random_tensors([(2, 4)]))
    with pytest.raises(CompileError, match=r"linear: .*reads a model input in float, which is not"):
        import_module(graph)


def test_unused_model_input_is_refused() -> None:
    module = Apply(lambda x, y: F.relu(x))
    with pytest.raises(CompileError, match="model input 'x_1' is never used as a quantized tensor"):
        run_module(module, random_tensors([(2, 4), (2, 4)]))


def test_untraceable_module_is_refused() -> None:
    module = Apply(lambda x: x if x.sum() > 0 else -x)
    with pytest.raises(CompileError, match=r"torch\.export cannot trace Apply: "):
        run_module(module, random_tensors([(2, 4)]))


def test_calibration_shapes_are_checked() -> None:
    example = random_tensors([(2, 4)])
    with pytest.raises(CompileError) as caught:
        quantize_module(nn.Linear(4, 3), example, calibration=[torch.zeros(3, 4)])
    assert str(caught.value) == (
        "calibration inputs have shapes [(3, 4)], the example inputs [(2, 4)]\n"
        "  hint: give batches that are whole multiples of the example's"
    )
    with pytest.raises(CompileError, match="calibration has no samples"):
        quantize_module(nn.Linear(4, 3), example, calibration=[])


def test_inputs_of_another_shape_are_refused() -> None:
    tensors = random_tensors([(2, 4)])
    quantized, _ = quantize_module(nn.Linear(4, 3), tensors)
    imported = run_quantized(quantized, tensors).imported
    with pytest.raises(CompileError) as caught:
        pack_inputs(imported, random_tensors([(3, 4)]))
    assert str(caught.value) == (
        "input 'input_1' has shape [3, 4], the program was compiled for [2, 4]\n"
        "  hint: compile again with example inputs of that shape"
    )
    with pytest.raises(CompileError, match="2 inputs given, the module takes 1: input_1"):
        pack_inputs(imported, random_tensors([(2, 4), (2, 4)]))


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_values_that_are_not_finite_are_refused_with_their_place(value: float) -> None:
    bad = torch.zeros(2, 4)
    bad[1, 2] = value
    message = "1 of 8 values are NaN or infinite\n  hint: int8 scales follow from the range of"
    with pytest.raises(CompileError, match=f"^calibration input 0: {message}"):
        quantize_module(nn.Linear(4, 3), [bad])
    with pytest.raises(CompileError, match=f"^calibration input 0: {message}"):
        quantize_module(nn.Linear(4, 3), random_tensors([(2, 4)]), calibration=[bad])
    module = nn.Linear(4, 2)
    module.weight.data = bad
    with pytest.raises(CompileError, match=f"^Linear.weight: {message}"):
        quantize_module(module, random_tensors([(2, 4)]))


def test_model_that_overflows_is_refused_at_the_layer() -> None:
    module = nn.Linear(4, 3)
    module.weight.data *= 1e30
    with pytest.raises(CompileError) as caught:
        quantize_module(module, [torch.full((2, 4), 1e30)])
    assert caught.value.node == "linear"
    assert str(caught.value).startswith("linear: calibration: values are NaN or infinite")


def test_nan_is_no_input_and_infinity_saturates() -> None:
    tensors = random_tensors([(2, 4)])
    quantized, _ = quantize_module(nn.Linear(4, 3), tensors)
    imported = import_module(quantized)
    with pytest.raises(CompileError, match=r"^input 'input_1' has 8 NaN values$"):
        pack_inputs(imported, [torch.full((2, 4), float("nan"))])
    (packed,) = pack_inputs(imported, [torch.full((2, 4), float("inf"))]).values()
    assert (packed == 127).all()

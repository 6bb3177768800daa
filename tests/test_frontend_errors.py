"""What the compiler says about modules that it cannot take."""

from collections.abc import Callable

import pytest
import torch
from frontend_cases import Apply
from frontend_helpers import quantized_module, random_tensors, run_module, run_quantized
from torch import Tensor, nn
from torch.nn import functional as F

from sw.compiler.errors import CompileError
from sw.compiler.frontend.importing import import_model
from sw.compiler.frontend.quantization.calls import pack_inputs

IMAGE = (2, 4, 8, 8)


class Sorts(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        y = self.layer(x)
        return y.cummax(-1)[0]


def test_unknown_operator_names_node_source_line_and_hint() -> None:
    with pytest.raises(CompileError) as caught:
        run_module(Sorts(), random_tensors([(3, 4)]))
    error = caught.value
    assert error.node == "cummax"
    path, line, code = error.source.rsplit(":", 2)
    assert path == __file__
    assert int(line) == Sorts.forward.__code__.co_firstlineno + 2
    assert code.strip() == "return y.cummax(-1)[0]"
    assert str(error).startswith(
        "cummax: operator aten.cummax.default is not supported here\n  at "
    )
    assert "\n  hint: docs/operators.md lists the operators that are" in str(error)


CASES: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...], str]] = {
    "max_pool_dilation": (
        lambda: nn.MaxPool2d(2, dilation=2, padding=1),
        IMAGE,
        "max pool with dilation [2, 2]: only 1",
    ),
    "adaptive_pool_indices": (
        lambda: Apply(lambda x: F.adaptive_max_pool2d(x, 3, return_indices=True)[1].float()),
        IMAGE,
        "operator aten.adaptive_max_pool2d.default is not supported here: result 1: only the first",
    ),
    "huge_values": (
        lambda: Apply(lambda x: torch.softmax(x * 1e20, -1)),
        IMAGE,
        "is too large, RESCALE multiplies by less than 2^29; the values before and behind it are "
        "too far apart",
    ),
    "pool_indices": (
        lambda: Apply(lambda x: F.max_pool2d(x, 2, return_indices=True)[1].float()),
        IMAGE,
        "operator aten.max_pool2d_with_indices.default is not supported here: result 1: only the "
        "first",
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


FLOATS: dict[str, Callable[[], nn.Module]] = {
    "groups": lambda: nn.Conv2d(4, 8, 3, groups=2),
    "mean_channels": lambda: Apply(lambda x: x.mean(1)),
    "broadcast": lambda: Apply(lambda x: x + x[:, :, :1]),
    "add_number": lambda: Apply(lambda x: F.relu(x) + 1.0),
    "scaled_negative": lambda: Apply(lambda x: F.relu(x) * -2.0),
    "slice_step": lambda: Apply(lambda x: x[:, :, ::2]),
    "softmax": lambda: Apply(lambda c, x: c(x).softmax(-1), nn.Conv2d(4, 6, 1)),
    "silu_between": lambda: Apply(lambda a, b, x: b(F.silu(a(x))), *(nn.Conv2d(4, 4, 1),) * 2),
    "norm": lambda: Apply(lambda n, x: F.relu(n(x)), nn.LayerNorm(8)),
    "reflected": lambda: nn.Sequential(nn.Conv2d(4, 4, 3), nn.ReflectionPad2d(1)),
    "transposed": lambda: nn.ConvTranspose2d(4, 6, 2, 2),
    "gated": lambda: nn.GLU(1),
}


@pytest.mark.parametrize("name", FLOATS)
def test_what_pt2e_leaves_in_float_is_imported_as_under_policy_wide(name: str) -> None:
    torch.manual_seed(3)
    run = run_module(FLOATS[name](), random_tensors([IMAGE]))
    (port, *_), (tensor, *_) = run.imported.outputs, run.imported.graph.outputs
    # PyTorch's int8 graph computes the same in float32; an int16 result has finer steps.
    span = 255 if port.dtype == "int8" else 65535
    assert run.off.max() <= max(1, span * 0.02), (name, port.dtype, tensor)


def test_untraceable_module_is_refused() -> None:
    module = Apply(lambda x: x if x.sum() > 0 else -x)
    with pytest.raises(CompileError, match=r"torch\.export cannot trace Apply: "):
        run_module(module, random_tensors([(2, 4)]))


def test_calibration_shapes_are_checked() -> None:
    example = random_tensors([(2, 4)])
    with pytest.raises(CompileError) as caught:
        import_model(nn.Linear(4, 3), example, calibration=[torch.zeros(3, 4)], policy="pt2e")
    assert str(caught.value) == (
        "calibration inputs have shapes [(3, 4)], the example inputs [(2, 4)]\n"
        "  hint: give batches that are whole multiples of the example's"
    )
    with pytest.raises(CompileError, match="calibration has no samples"):
        import_model(nn.Linear(4, 3), example, calibration=[], policy="pt2e")


def test_inputs_of_another_shape_are_refused() -> None:
    tensors = random_tensors([(2, 4)])
    quantized = quantized_module(nn.Linear(4, 3), tensors)
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
    message = "1 of 8 values are NaN or infinite\n  hint: integer scales follow from the range of"
    with pytest.raises(CompileError, match=f"^calibration input 0: {message}"):
        import_model(nn.Linear(4, 3), [bad], policy="pt2e")
    with pytest.raises(CompileError, match=f"^calibration input 0: {message}"):
        import_model(nn.Linear(4, 3), random_tensors([(2, 4)]), calibration=[bad], policy="pt2e")
    module = nn.Linear(4, 2)
    module.weight.data = bad
    with pytest.raises(CompileError, match=f"^weight: {message}"):
        import_model(module, random_tensors([(2, 4)]), policy="pt2e")


def test_model_that_overflows_is_refused_at_the_layer() -> None:
    module = nn.Linear(4, 3)
    module.weight.data *= 1e30
    with pytest.raises(CompileError) as caught:
        import_model(module, [torch.full((2, 4), 1e30)], policy="pt2e")
    assert caught.value.node == "linear"
    assert str(caught.value).startswith("linear: calibration: values are NaN or infinite")


def test_nan_is_no_input_and_infinity_saturates() -> None:
    tensors = random_tensors([(2, 4)])
    quantized = quantized_module(nn.Linear(4, 3), tensors)
    imported = run_quantized(quantized, tensors).imported
    with pytest.raises(CompileError, match=r"^input 'input_1' has 8 NaN values$"):
        pack_inputs(imported, [torch.full((2, 4), float("nan"))])
    (packed,) = pack_inputs(imported, [torch.full((2, 4), float("inf"))]).values()
    assert (packed == 127).all()

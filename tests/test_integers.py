"""Integer inputs of later calls: larger than calibration saw, or too large for 32 bits."""

import numpy as np
import pytest
import torch
from torch import nn
from torch_backend_helpers import compiled, report

import systola
from sw.compiler.errors import CompileError
from sw.compiler.frontend.quantization.calls import SaturationWarning
from sw.compiler.frontend.quantized import QuantizedModel, load_quantized
from sw.compiler.tosa.graph import Graph
from sw.compiler.tosa.integers import outgrown
from sw.compiler.tosa.interpreter import run_graph

LARGE = 2_000_000_000


class Function(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *args):
        return self.function(*args)


class Masked(nn.Module):
    """Positions and an additive mask from a mask of integers, as language models make them."""

    def __init__(self):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(10, 4), nn.Embedding(16, 4)

    def forward(self, ids, mask):
        x = self.tokens(ids) + self.positions((mask.cumsum(-1) - 1).clamp(0, 15))
        added = (1.0 - mask[:, None].float()) * torch.finfo(torch.float32).min
        return torch.softmax(x @ x.transpose(1, 2) + added, -1) @ x


def part_of(fast):
    return report(fast)["graphs"][0]["variants"][0]["parts"][0]


FUNCTIONS = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "rsub": lambda a, b: 5 - a * 2 + b,
    "sum": lambda a, b: (a + b).sum(),
    "cumsum": lambda a, b: a.cumsum(0) - b,
    "mean": lambda a, b: (a * b).sum(0, keepdim=True) // 4,
    "remainder": lambda a, b: (a % 7 + 5) * b,
    "maximum": lambda a, b: torch.maximum(a, b) + b,
    "where": lambda a, b: torch.where(a > b, a, b) * 3,
    "clamp": lambda a, b: (a * 2).clamp(0, 100) + b,
    "neg": lambda a, b: -a * b,
    "abs": lambda a, b: a.abs() + b,
    "pow": lambda a, b: a**2 + b**3,
    "bool": lambda a, b: a * (b > 0) * 3 + (a > 0) + (1 - (b == 0).long()),
}


@pytest.mark.parametrize("name", FUNCTIONS)
@torch.no_grad()
def test_integers_are_exact_or_refused(name):
    model = Function(FUNCTIONS[name])
    small = torch.arange(1, 5), torch.arange(4, 0, -1)
    made = systola.compile(model, small)
    refused = 0
    for a, b in [(1, 1), (1000, 300), (60_000, -60_000), (LARGE, 3), (-LARGE, LARGE)]:
        call = torch.tensor([a, -a, 3, a]), torch.tensor([b, b, a // 3, 2])
        try:
            arrays = made.inputs(*call)
        except CompileError as error:
            assert "the NPU's end at 2,147,483,647 (int32)" in str(error)
            refused += 1
            continue
        (got,) = made.outputs(run_graph(made.imported.graph, arrays))
        assert np.array_equal(got, model(*call).numpy())
    assert 1 <= refused <= 3  # every function here leaves 32 bits with the largest


@torch.no_grad()
def test_a_product_that_would_wrap_around_runs_on_the_cpu():
    model = Function(lambda a, b: (a * b).float().sqrt())
    fast = compiled(model)
    small, large = torch.arange(8), torch.arange(8) * 100_000
    fast(small, small + 1)
    assert torch.equal(fast(large, large + 1), model(large, large + 1))
    part = part_of(fast)
    (reason,) = part["on_cpu"]
    assert "integers reach 4.9e+11 with these inputs" in reason and part["runs"] == 1


@torch.no_grad()
def test_integers_that_become_floats_calibrate_again():
    model = Function(lambda ids, x: ids.float() * 0.1 + x)
    fast, x = compiled(model), torch.zeros(8)
    fast(torch.arange(8), x)
    assert (fast(torch.arange(8) * 1000, x) - model(torch.arange(8) * 1000, x)).abs().max() < 0.05
    assert part_of(fast)["calibrations"] == 2


@torch.no_grad()
def test_integers_that_become_floats_are_warned_of_without_recalibrations():
    fast = compiled(Function(lambda ids, x: ids.float() * 0.1 + x), recalibrate=0)
    fast(torch.arange(8), torch.zeros(8))
    message = r"87\.50% of the integers at .* outside the calibrated range .*the largest is 70:"
    with pytest.warns(SaturationWarning, match=message):
        fast(torch.arange(8) * 10, torch.zeros(8))
    assert part_of(fast)["saturated_values"] == 7


@torch.no_grad()
def test_a_mask_that_calibration_saw_empty_calibrates_again():
    torch.manual_seed(0)
    model, ids = Masked().eval(), torch.arange(8)[None]
    ones = torch.ones(1, 8, dtype=torch.long)
    padded = (ids < 5).long()
    fast = compiled(model)
    for mask in (ones, padded, ones):
        assert (fast(ids, mask) - model(ids, mask)).abs().max() < 0.05
    part = part_of(fast)
    assert part["calibrations"] == 2 and part["runs"] == 3 and not part["on_cpu"]


@torch.no_grad()
def test_inputs_of_a_compiled_model_warn_of_what_calibration_did_not_see():
    model = Function(lambda ids, x: ids.float() * 0.1 + x)
    made = systola.compile(model, (torch.arange(8), torch.ones(8)))
    made.inputs(torch.arange(8), torch.ones(8))
    with pytest.warns(SaturationWarning, match="integers at args_0 are outside .*Calibrate with"):
        made.inputs(torch.arange(8) * 2, torch.ones(8))
    with pytest.warns(SaturationWarning, match=r"100\.00% of the values of input args_1 saturate"):
        made.inputs(torch.arange(8), torch.ones(8) * 3)


def test_what_calibration_saw_is_kept_in_the_file(tmp_path):
    model = Function(lambda ids, x: ids.float() * 0.1 + x)
    imported = systola.compile(model, (torch.arange(8), torch.ones(8))).imported
    assert imported.seen == {"args_0": (0.0, 7.0)}
    QuantizedModel(imported=imported).save(tmp_path / "model.safetensors")
    assert load_quantized(tmp_path / "model.safetensors").imported.seen == imported.seen


def test_token_ids_that_only_choose_values_are_free():
    model = nn.Sequential(nn.Embedding(100, 4), nn.Linear(4, 2))
    imported = systola.compile(model, (torch.arange(8),)).imported
    assert imported.seen == {}


def test_a_scale_that_would_wrap_around_is_found():
    graph = Graph()
    graph.add_input("x", (4,), "int32")
    scale = [graph.add_constant(*row) for row in (("m", [1 << 30], "int32"), ("s", [27], "int8"))]
    zeros = [graph.add_constant("zi", [0], "int32"), graph.add_constant("zo", [0], "int16")]
    attributes = {"per_channel": False}
    graph.outputs = [
        graph.add_op("RESCALE", ["x", *scale, *zeros], attributes, name="r", out_dtype="int16")
    ]
    inside, beyond = np.int32([1, -2, 3, 1 << 20]), np.int32([1, -2, 3, 1 << 29])
    assert not list(outgrown(graph, {"x": inside}, {}))
    (found,) = outgrown(graph, {"x": beyond}, {})
    assert found.op is graph.ops[0] and found.count == 1 and found.largest == 2.0**32

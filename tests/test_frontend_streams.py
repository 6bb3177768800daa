"""Sums of int16 have one scale, linear layers a zero point behind a GELU, groups their own sums."""

from collections.abc import Callable

import pytest
import torch
from compiler_graphs import assert_compiles_exactly, random_inputs
from torch import Tensor, nn
from torch.nn import functional

from spec.config import preset
from sw.compiler.frontend.importing import import_model
from sw.compiler.frontend.ports import Imported
from sw.compiler.kernels.layers import ConvLayer
from sw.compiler.pipeline import run_stages
from sw.compiler.tosa.graph import Graph, Op
from sw.measure.accuracy import integers
from sw.models.catalog import pcc

DEFAULT = preset("default")


@pytest.fixture(autouse=True)
def seeded() -> None:
    torch.manual_seed(0)


class Residual(nn.Module):
    """x plus `branch` of what a layer of its own makes of x, and a norm behind the sum."""

    def __init__(self, branch: nn.Module) -> None:
        super().__init__()
        self.first, self.branch, self.norm = nn.Linear(48, 48), branch, nn.LayerNorm(48)

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x)
        return self.norm(x + self.branch(x))


def imported(module: nn.Module, *shape: int) -> tuple[Imported, list[tuple[Tensor]]]:
    # Rows that are alike: scales by row are not worth their passes.
    calls = [(2 * torch.rand(*shape) - 1,) for _ in range(4)]
    return import_model(module.eval(), calls[0], calibration=calls[:3], policy="wide"), calls


def assert_close(found: Imported, module: nn.Module, call: tuple[Tensor], least: float) -> None:
    with torch.no_grad():
        exact = module(*call).numpy()
    assert pcc(integers(found, call)[0], exact) >= least


def rescale_of(graph: Graph, name: str) -> Op:
    """The RESCALE that makes a tensor or, of a result, the one behind it."""
    made = graph.producers()[name]
    return made if made.kind == "RESCALE" else graph.consumers()[name][0]


def factor(graph: Graph, op: Op) -> float:
    multiplier, shift = (graph.constant(n).astype(float) for n in op.inputs[1:3])
    return float((multiplier / 2**shift).max())


def test_a_sum_its_operands_and_its_result_have_one_scale() -> None:
    module = Residual(nn.Sequential(nn.Linear(48, 96), nn.ReLU(), nn.Linear(96, 48)))
    found, calls = imported(module, 1, 64, 48)
    graph = found.graph
    (add,) = [op for op in graph.ops if op.name == "add"]
    # The product is rescaled to the other operand's steps; that and the result are as they are.
    factors = sorted(factor(graph, rescale_of(graph, n)) for n in (*add.inputs, add.outputs[0]))
    assert factors[1:] == [1.0, 1.0] and factors[0] < 0.5
    assert_close(found, module, calls[3], 0.999)
    layers = run_stages(graph, DEFAULT).layers.layers
    sums = [x.residual for x in layers if isinstance(x, ConvLayer) and x.residual is not None]
    assert [(r.shift, r.operand.shift) for r in sums][-1:] == [(0, 0)]
    for name in ("default", "tiny", "small", "odd"):
        assert_compiles_exactly(graph, preset(name), random_inputs(graph))


def test_a_value_far_smaller_than_the_sum_keeps_its_steps() -> None:
    """Others read it, too; only what is for the sum alone may have any steps."""
    branch = nn.Linear(48, 48)
    with torch.no_grad():
        branch.weight *= 40
    module = Residual(branch)
    found, calls = imported(module, 1, 64, 48)
    graph = found.graph
    (add,) = [op for op in graph.ops if op.name == "add"]
    assert factor(graph, rescale_of(graph, add.outputs[0])) < 0.25
    assert_close(found, module, calls[3], 0.999)


@pytest.mark.parametrize("function", [functional.gelu, functional.relu, functional.silu])
def test_a_linear_layer_reads_what_is_hardly_below_zero_with_a_zero_point(function) -> None:
    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.up, self.down = nn.Linear(48, 192), nn.Linear(192, 48)

        def forward(self, x: Tensor) -> Tensor:
            return self.down(function(self.up(x)))

    module = Block()
    found, calls = imported(module, 1, 64, 48)
    graph = found.graph
    second = [op for op in graph.ops if op.kind == "CONV2D"][1]
    assert int(graph.constant(second.inputs[3]).reshape(-1)[0]) < -70
    before = rescale_of(graph, graph.producers()[second.inputs[0]].inputs[0])
    assert not before.attributes["per_channel"] or function is functional.relu
    assert_close(found, module, calls[3], 0.9995)
    # TABLE gives int8 in the same pass.
    layers = run_stages(graph, DEFAULT).layers.layers
    first = next(layer for layer in layers if isinstance(layer, ConvLayer))
    assert len(first.epilogue.passes) == 1
    assert_compiles_exactly(graph, DEFAULT, random_inputs(graph))


def test_what_lies_around_zero_keeps_a_scale_for_each_channel() -> None:
    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm, self.linear = nn.LayerNorm(48), nn.Linear(48, 48)
            self.norm.weight.data = torch.logspace(-0.7, 0.0, 48)

        def forward(self, x: Tensor) -> Tensor:
            return self.linear(self.norm(x))

    module = Block()
    found, calls = imported(module, 1, 64, 48)
    graph = found.graph
    (conv,) = [op for op in graph.ops if op.kind == "CONV2D"]
    assert not graph.constant(conv.inputs[3]).any()
    assert rescale_of(graph, graph.producers()[conv.inputs[0]].inputs[0]).attributes["per_channel"]
    assert_close(found, module, calls[3], 0.999)


def test_the_sum_behind_a_grouped_convolution_is_in_the_layer_of_each_group() -> None:
    class Unit(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = nn.Conv2d(16, 96, 1)
            self.middle = nn.Conv2d(96, 96, 1, groups=3)

        def forward(self, x: Tensor) -> Tensor:
            x = functional.relu(self.first(x))
            return functional.relu(x + self.middle(x)).mean((2, 3))

    module = Unit()
    found, calls = imported(module, 1, 16, 8, 8)
    layers = run_stages(found.graph, DEFAULT).layers.layers
    sums = [x for x in layers if isinstance(x, ConvLayer) and x.residual is not None]
    assert len(sums) == 3
    assert_close(found, module, calls[3], 0.999)
    for name in ("default", "small", "odd"):
        assert_compiles_exactly(found.graph, preset(name), random_inputs(found.graph))


def test_many_groups_are_narrowed_before_they_are_joined() -> None:
    class Unit(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = nn.Conv2d(8, 40, 1)
            self.middle = nn.Conv2d(40, 40, 3, padding=1, groups=20)

        def forward(self, x: Tensor) -> Tensor:
            x = functional.relu(self.first(x))
            return functional.relu(x + self.middle(x)).mean((2, 3))

    module = Unit()
    found, calls = imported(module, 1, 8, 8, 8)
    joined = [op for op in found.graph.ops if op.kind == "CONCAT"]
    assert {found.graph.tensors[op.outputs[0]].dtype for op in joined} == {"int16"}
    assert_close(found, module, calls[3], 0.999)


def test_steps_of_a_stream_follow_what_calibration_saw() -> None:
    """The sums of a chain have one step, and keep their accuracy."""

    class Chain(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.parts = nn.ModuleList(nn.Linear(32, 32) for _ in range(4))
            self.out = nn.Linear(32, 8)

        def forward(self, x: Tensor) -> Tensor:
            for part in self.parts:
                x = x + torch.tanh(part(x))
            return self.out(x)

    module = Chain()
    found, calls = imported(module, 1, 32, 32)
    assert_close(found, module, calls[3], 0.9995)
    adds = [op for op in found.graph.ops if op.kind == "ADD"]
    results = [rescale_of(found.graph, op.outputs[0]) for op in adds]
    # The input keeps its own steps, and the linear layer reads int8.
    assert [factor(found.graph, op) for op in results[1:-1]] == [1.0, 1.0]
    assert_compiles_exactly(found.graph, preset("small"), random_inputs(found.graph))


class Filled(nn.Module):
    """What a convolution makes with `fill` around it or in it, far larger than all else."""

    def __init__(self, fill: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.first, self.fill = nn.Conv2d(4, 16, 1), fill

    def forward(self, x: Tensor) -> Tensor:
        return torch.tanh(self.fill(self.first(x)) / 20)


def replaced(x: Tensor) -> Tensor:
    """Column 3 is 50."""
    return torch.cat([x[..., :3], torch.full_like(x[..., :1], 50.0), x[..., 4:]], 3)


def padded(x: Tensor) -> Tensor:
    return functional.pad(x, (1, 1), value=50.0)


@pytest.mark.parametrize("fill", [replaced, padded])
def test_a_constant_beside_a_value_has_its_own_range(fill: Callable[[Tensor], Tensor]) -> None:
    module = Filled(fill)
    found, calls = imported(module, 1, 4, 8, 8)
    assert_close(found, module, calls[3], 0.999)


def test_a_value_that_is_rolled_keeps_its_steps() -> None:
    """It is rescaled where it is made, and not again."""
    module = Filled(lambda x: torch.roll(x, 2, 3))
    found, calls = imported(module, 1, 4, 8, 8)
    graph = found.graph
    kinds = [op.kind for op in graph.ops]
    assert "CONCAT" in kinds
    rescaled = [op for op in graph.ops[: kinds.index("CONCAT")] if op.kind == "RESCALE"]
    assert [
        graph.tensors[op.inputs[0]].dtype for op in rescaled if op.inputs[0] not in graph.inputs
    ] == ["int32"]
    assert_close(found, module, calls[3], 0.999)

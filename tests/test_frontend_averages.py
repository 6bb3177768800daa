"""Averages of a few pixels are convolutions of int8 where convolutions read the same pixels."""

import pytest
import torch
from compiler_graphs import assert_compiles_exactly, random_inputs
from torch import Tensor, nn
from torch.nn import functional

from spec.config import preset
from sw.compiler.frontend.importing import import_model
from sw.compiler.frontend.ports import Imported
from sw.compiler.tosa.bound import graph_bound
from sw.compiler.tosa.graph import Graph
from sw.compiler.tosa.macs import graph_macs
from sw.measure.accuracy import integers
from sw.models.catalog import pcc

PIXELS = (1, 8, 14, 14)


class Branches(nn.Module):
    """An average and a convolution of the same pixels, side by side."""

    def __init__(self, pool: nn.Module, stride: int = 2) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.first = nn.Conv2d(8, 24, 3, padding=1)
        self.branch, self.pool = nn.Conv2d(24, 40, 3, stride, 1), pool

    def forward(self, x: Tensor) -> Tensor:
        x = functional.relu(self.first(x))
        return torch.cat([self.pool(x), self.branch(x)], 1)


def imported(module: nn.Module) -> tuple[Imported, list[tuple[Tensor]]]:
    torch.manual_seed(0)
    calls = [(2 * torch.rand(*PIXELS) - 1,) for _ in range(4)]
    return import_model(module.eval(), calls[0], calibration=calls[:3], policy="wide"), calls


def kinds(graph: Graph) -> list[str]:
    found = [op.kind for op in graph.ops]
    return [kind for kind in ("AVG_POOL2D", "DEPTHWISE_CONV2D") for _ in range(found.count(kind))]


@pytest.mark.parametrize(
    "pool", [nn.AvgPool2d(3, 2, 1), nn.AvgPool2d(2, 2), nn.AvgPool2d((4, 3), 2, 1)]
)
def test_an_average_beside_a_convolution_is_one(pool: nn.Module) -> None:
    module = Branches(pool)
    found, calls = imported(module)
    graph = found.graph
    assert kinds(graph) == ["DEPTHWISE_CONV2D"]
    # Its operand is that of the other branch, and padding is part of it.
    (average,) = (op for op in graph.ops if op.kind == "DEPTHWISE_CONV2D")
    assert graph.tensors[average.inputs[0]].dtype == "int8"
    assert "PAD" not in [op.kind for op in graph.ops]
    with torch.no_grad():
        exact = module(*calls[3]).numpy()
    assert pcc(integers(found, calls[3])[0], exact) >= 0.9995
    for name in ("default", "micro"):  # with and without a depthwise engine
        assert assert_compiles_exactly(graph, preset(name), random_inputs(graph)) > 0


def test_an_average_has_no_products() -> None:
    """MACs and bound are those of the convolutions alone."""
    with_average = imported(Branches(nn.AvgPool2d(3, 2, 1)))[0].graph
    (average,) = (op for op in with_average.ops if op.kind == "DEPTHWISE_CONV2D")
    macs = 14 * 14 * 24 * 8 * 9 + 7 * 7 * 40 * 24 * 9
    assert graph_macs(with_average) == macs
    before = graph_bound(with_average, preset("default"))
    with_average.ops.remove(average)
    assert graph_bound(with_average, preset("default")) == before


@pytest.mark.parametrize(
    ("pool", "why"),
    [
        (nn.AvgPool2d(3, 2, 1, count_include_pad=False), "windows of several sizes"),
        (nn.AvgPool2d(7, 2, 3), "many pixels"),
    ],
)
def test_other_averages_are_pools(pool: nn.Module, why: str) -> None:
    assert kinds(imported(Branches(pool))[0].graph) == ["AVG_POOL2D"], why


def test_an_average_of_what_no_convolution_reads_keeps_16_bits() -> None:
    module = nn.Sequential(nn.Conv2d(8, 24, 3), nn.SiLU(), nn.AvgPool2d(2), nn.Sigmoid())
    graph = imported(module)[0].graph
    (pool,) = (op for op in graph.ops if op.kind == "AVG_POOL2D")
    assert graph.tensors[pool.inputs[0]].dtype == "int16"


def test_a_part_of_a_concatenation_is_made_in_its_steps() -> None:
    """Neither branch is rescaled a second time, though their ranges are others."""
    module = Branches(nn.AvgPool2d(3, 2, 1))
    with torch.no_grad():
        module.branch.weight.mul_(7)
    graph = imported(module)[0].graph
    (joined,) = (op for op in graph.ops if op.kind == "CONCAT")
    makers = [graph.producers()[name] for name in joined.inputs]
    assert {op.kind for op in makers} == {"RESCALE"}
    assert {graph.tensors[op.inputs[0]].dtype for op in makers} == {"int32"}
    assert {graph.tensors[name].dtype for name in joined.inputs} == {"int16"}

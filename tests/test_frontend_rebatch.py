"""Batches: the same integers for every sample, whatever else runs with it."""

import numpy as np
import pytest
import torch
from compiler_graphs import zero_point
from frontend_cases import EXACT_CASES
from frontend_helpers import random_tensors, run_module
from torch import nn
from torch.nn import functional as F

from sw.compiler.errors import CompileError
from sw.compiler.frontend.layout import Layout
from sw.compiler.frontend.ports import Imported, ModelPort
from sw.compiler.frontend.quantization.calls import pack_inputs
from sw.compiler.frontend.rebatch import rebatch
from sw.compiler.tosa.graph import Graph
from sw.compiler.tosa.interpreter import run_graph


def _outputs(imported: Imported, tensors: list[torch.Tensor]) -> list[np.ndarray]:
    """Outputs as arrays of the model's shape, in steps."""
    arrays = run_graph(imported.graph, pack_inputs(imported, tensors))
    return [p.layout.to_logical(arrays[p.name]) for p in imported.outputs]


class Net(nn.Module):
    """Everything that moves the batch about: pads, pools, sums, flattens, a matrix product."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, stride=2)
        self.depthwise = nn.Conv2d(8, 8, 3, padding=1, groups=8)
        self.point = nn.Conv2d(8, 8, 1, stride=2)
        self.head = nn.Linear(8, 5)
        self.wide = nn.Linear(8 * 4 * 4, 6)

    def forward(self, x):
        y = F.relu6(self.stem(F.pad(x, (0, 1, 0, 1))))
        y = y + self.depthwise(y)
        rows = y.flatten(2)  # NCHW order: a TRANSPOSE
        products = torch.matmul(rows, rows.transpose(1, 2))
        pooled = self.point(F.max_pool2d(y, 3, 1, 1))
        return self.head(pooled.mean((2, 3))), self.wide(pooled.flatten(1)), products


def test_every_sample_gives_the_same_integers_in_a_batch_as_alone() -> None:
    torch.manual_seed(0)
    (x,) = random_tensors([(3, 3, 17, 17)])
    one = run_module(Net(), [x[:1]]).imported
    kinds = {op.kind for op in one.graph.ops}
    assert {"TRANSPOSE", "MATMUL", "RESHAPE", "SLICE", "DEPTHWISE_CONV2D"} <= kinds
    three = rebatch(one, 3)
    assert [p.shape for p in three.outputs] == [(3, 5), (3, 6), (3, 8, 8)]
    together = _outputs(three, [x])
    alone = [_outputs(one, [x[i : i + 1]]) for i in range(3)]
    for i, whole in enumerate(together):
        assert np.array_equal(whole, np.concatenate([row[i] for row in alone]))
    assert rebatch(one, 1) is one


def test_a_linear_layer_stays_one_matrix_over_all_samples() -> None:
    (x,) = random_tensors([(1, 3, 4)])
    one = run_module(nn.Sequential(nn.Flatten(), nn.Linear(12, 5)), [x]).imported
    (layer,) = (op for op in rebatch(one, 7).graph.ops if op.kind == "CONV2D")
    assert rebatch(one, 7).graph.tensors[layer.inputs[0]].shape == (1, 7, 1, 12)


def test_a_batch_that_was_exported_is_multiplied() -> None:
    torch.manual_seed(1)
    case = EXACT_CASES["conv_bn_relu"]
    (x,) = random_tensors([(4, *case.shapes[0][1:])])
    two = run_module(case.build(), [x[:2]]).imported
    (whole,) = _outputs(rebatch(two, 2), [x])
    parts = [_outputs(two, [x[i : i + 2]])[0] for i in (0, 2)]
    assert np.array_equal(whole, np.concatenate(parts))


def test_operators_that_mix_samples_are_refused() -> None:
    (x,) = random_tensors([(2, 6, 4)])
    crossed = run_module(nn.Sequential(nn.Linear(4, 4)), [x]).imported
    graph = crossed.graph
    turned = graph.add_op("TRANSPOSE", [graph.outputs[0]], {"perms": (1, 0, 2, 3)}, name="turn")
    graph.outputs = [turned]
    port = ModelPort(name=turned, layout=Layout.of((12, 4)), scale=1.0, zero_point=0)
    with pytest.raises(CompileError) as caught:
        rebatch(Imported(graph=graph, inputs=crossed.inputs, outputs=(port,)), 2)
    text = str(caught.value)
    assert text.startswith("turn: TRANSPOSE cannot take more samples than it was exported for")
    assert "export the model with example inputs of that batch" in text


@pytest.mark.parametrize("kind", ["PAD", "SLICE"])
def test_the_batch_can_be_neither_padded_nor_cut(kind: str) -> None:
    graph = Graph()
    x = graph.add_input("x", (2, 3))
    values = {"PAD": [[0, 1, 0, 0]], "SLICE": [[1, 0], [1, 3]]}[kind]
    operands = [x, *(graph.add_constant("v", v, "shape") for v in values)]
    operands += [zero_point(graph, 0)] if kind == "PAD" else []
    graph.outputs = [graph.add_op(kind, operands, name="op")]
    port = ModelPort(name="x", layout=Layout.of((2, 3)), scale=1.0, zero_point=0)
    imported = Imported(graph=graph, inputs=(port,), outputs=())
    with pytest.raises(CompileError, match=f"op: {kind} cannot take more samples"):
        rebatch(imported, 2)


def test_a_port_whose_first_dimension_is_not_outermost_is_refused() -> None:
    graph = Graph()
    graph.outputs = [graph.add_op("IDENTITY", [graph.add_input("x", (3, 2))])]
    port = ModelPort(name="x", layout=Layout.of((2, 3), (1, 0)), scale=1.0, zero_point=0)
    with pytest.raises(CompileError, match=r"port 'x' of shape \[2, 3\]: its first dimension is"):
        rebatch(Imported(graph=graph, inputs=(port,), outputs=()), 2)
    with pytest.raises(CompileError, match="batch factor 0: must be at least 1"):
        rebatch(Imported(graph=graph, inputs=(port,), outputs=()), 0)

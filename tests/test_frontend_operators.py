"""Every operator of the importer: PT2E's own integers against TOSA, and TOSA's reference model."""

import numpy as np
import pytest
import torch
from frontend_cases import EXACT_CASES, TIE_CASES, Case
from frontend_helpers import Run, is_subsequence, run_case

import systola
from sw.compiler.tosa.graph import Graph, Op
from sw.compiler.tosa.interpreter import run_graph
from sw.runtime.verify import verify


def _check_structure(run: Run, case: Case) -> None:
    assert is_subsequence(case.kinds, run.kinds), f"{run.kinds} lacks {case.kinds}"
    result = verify(run.imported.graph, run.inputs, run.outputs)
    assert result.reference_exact, result.first


@pytest.mark.parametrize("name", EXACT_CASES)
def test_operator_is_at_most_one_step_from_pt2e(name: str) -> None:
    case = EXACT_CASES[name]
    run = run_case(name)
    _check_structure(run, case)
    assert run.off.size >= 700
    assert run.off.max() <= 1
    # One element of a small tensor may be more than 0.1%.
    assert (run.off > 0).sum() <= max(1, 0.001 * run.off.size)


@pytest.mark.parametrize("name", TIE_CASES)
def test_means_differ_from_pt2e_only_where_the_mean_is_halfway(name: str) -> None:
    case = TIE_CASES[name]
    run = run_case(name)
    _check_structure(run, case)
    assert run.off.max() <= 1
    graph = run.imported.graph
    (pool,) = (op for op in graph.ops if op.kind == "AVG_POOL2D")
    x = run.inputs[graph.inputs[0]].astype(np.int64).transpose(0, 3, 1, 2)
    top, bottom, left, right = pool.attributes["pad"]
    zero = run.imported.inputs[0].zero_point
    tensor = torch.nn.functional.pad(
        torch.from_numpy(x - zero).double(), (left, right, top, bottom)
    )
    ones = torch.nn.functional.pad(
        torch.ones(1, 1, *x.shape[2:]).double(), (left, right, top, bottom)
    )
    pools = [
        torch.nn.functional.avg_pool2d(t, pool.attributes["kernel"], pool.attributes["stride"])
        for t in (tensor, ones)
    ]
    mean = (pools[0] / pools[1]).reshape(-1).numpy()
    halfway = np.abs(mean - np.floor(mean) - 0.5) < 1e-9
    assert halfway.any()
    assert not (run.off[~halfway] > 0).any()


def test_no_transpose_is_left_between_pool_and_linear() -> None:
    run = run_case("flatten_linear")
    assert "TRANSPOSE" not in run.kinds


def test_asymmetric_padding_becomes_the_convolutions_own() -> None:
    run = run_case("conv_pad_asymmetric")
    assert run.kinds == ["CONV2D", "RESCALE"]
    assert run.imported.graph.ops[0].attributes["pad"] == (2, 2, 0, 0)


def test_depthwise_padding_is_folded_and_its_multiplier_kept() -> None:
    run = run_case("depthwise_pad_asymmetric")
    assert run.kinds[:2] == ["DEPTHWISE_CONV2D", "RESCALE"]
    assert "PAD" not in run.kinds
    wide = run_case("depthwise_multiplier").imported.graph
    (op,) = (op for op in wide.ops if op.kind == "DEPTHWISE_CONV2D")
    assert wide.tensors[op.inputs[1]].shape == (4, 3, 5, 3)


def _left_shift(graph: Graph, rescale: Op) -> int | None:
    """k of a RESCALE that multiplies by exactly 2^k, else None."""
    multiplier, shift = (int(graph.constant(n)[0]) for n in rescale.inputs[1:3])
    return 30 - shift if multiplier == 1 << 30 else None


SUMS = {
    # which operand is exact: the one that a convolution makes, of two the longer reduction, of
    # equal ones the later; else the one with the larger scale
    "add_relu": 1,
    "residual_inplace": 0,
    "residual_convs": 1,
    "residual_shortcut": 0,
    "residual_far_scales": 0,
}


@pytest.mark.parametrize("name", SUMS)
def test_one_operand_of_a_sum_is_an_exact_left_shift_with_room(name: str) -> None:
    run = run_case(name)
    graph = run.imported.graph
    producers = graph.producers()
    (add,) = (op for op in graph.ops if op.kind == "ADD")
    shifts = [_left_shift(graph, producers[n]) for n in add.inputs]
    k = shifts[SUMS[name]]
    assert k is not None and 0 <= k <= 20
    values = run_graph(graph, run.inputs, keep=True)
    largest = max(int(np.abs(values[n].astype(np.int64)).max()) for n in add.inputs)
    assert largest < 1 << 30
    # As fine as the room allows: one more bit would be too much, or k is at its limit.
    other = producers[add.inputs[1 - SUMS[name]]]
    multiplier, shift = (int(graph.constant(n)[0]) for n in other.inputs[1:3])
    assert k == 20 or 2 * 256 * multiplier / 2.0**shift >= 1 << 30


def test_scales_within_half_a_step_need_no_rescale() -> None:
    run = run_case("max_pool")
    assert run.kinds == ["MAX_POOL2D"]


def test_a_constant_of_one_element_is_a_number_whatever_its_dimensions_are() -> None:
    class Shifted(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x[0] + torch.tensor([[1.5]])

    calls = [(torch.randn(2, 8),) for _ in range(4)]
    program = systola.compile(Shifted().eval(), calls[0], systola.preset("tiny"), calibration=calls)
    (found,) = program.outputs(systola.run(program.image, program.inputs(*calls[1])))
    np.testing.assert_allclose(found, calls[1][0][:1] + 1.5, atol=0.03)


class _Steps(torch.nn.Module):
    """`count` results of one shape side by side, as a loop over time makes them."""

    def __init__(self, way: str, count: int) -> None:
        super().__init__()
        self.way, self.count = way, count

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.way == "stack":
            return torch.stack([row.relu() for row in x.unbind(1)], -1)
        if self.way == "fold":
            return torch.nn.functional.fold(x.reshape(1, -1, 8), (5, 3), 2)
        return torch.cat([x[:, i : i + 1] * (i + 1) / 99 for i in range(self.count)], 1)


@pytest.mark.parametrize("way", ["cat", "stack", "fold"])
@pytest.mark.parametrize("count", [64, 65, 200])
def test_more_operands_than_one_concat_takes(way: str, count: int) -> None:
    torch.manual_seed(0)
    model, x = _Steps(way, count).eval(), torch.randn(1, 4 * count if way == "fold" else count, 8)
    program = systola.compile(model, (x,), systola.preset("default"))
    (got,) = program.outputs(systola.run(program.image, program.inputs(x)))
    assert got.shape == model(x).shape
    step = {"fold": 1 / 60}.get(way, 1 / 500)  # windows are int8, and four of them meet
    assert np.abs(got - model(x).numpy()).max() < step * float(x.abs().max())

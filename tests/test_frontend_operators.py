"""Every operator of the importer: PT2E's own integers against TOSA, and TOSA's reference model."""

import numpy as np
import pytest
import torch
from frontend_cases import EXACT_CASES, TIE_CASES, Case
from frontend_helpers import Run, is_subsequence, run_case

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


def test_scales_within_half_a_step_need_no_rescale() -> None:
    run = run_case("max_pool")
    assert run.kinds == ["MAX_POOL2D"]

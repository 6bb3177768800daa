"""Eager operators of `torch.device("systola")`, from the table of operators, against PyTorch."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from aten_cases import CASES, Case, X, _map, _target
from aten_cases_rewritten import REWRITTEN_CASES
from torch_device_fixtures import device as device

from sw.compiler.frontend.operator_row import Pcc
from sw.compiler.frontend.operators import TABLE
from sw.torch_device.kernels import npu_operators

SLOW = ("lstm", "gru", "rnn", "conv3d", "bicubic", "trilinear", "conv_transpose3d", "take_along")
"""Operators that become long programs; docs/torch_device.md has times."""

RULED, REWRITTEN = 2, 5
"""Of the operators with a rule, and of those that are rewritten, which are tested here: every
second, every fifth.

`tests/test_aten_operators.py` has all of them, with the same importer.
"""

INDICES = "a result that is no float32 is computed exactly"
MOVED = "moves or counts what comes from the CPU"

ON_THE_CPU = {
    "native_layer_norm": "aten.native_layer_norm.default: only its first result",
    "native_group_norm": "aten.native_group_norm.default: only its first result",
    "_native_batch_norm_legit_no_training": (
        "aten._native_batch_norm_legit_no_training.default: only its first result"
    ),
    "max.dim": INDICES,
    "min.dim": INDICES,
    "max_pool2d_with_indices": INDICES,
    "adaptive_max_pool3d": INDICES,
    "pow.Tensor_Tensor": "power of two tensors: only one of them may vary",
    "reflection_pad3d": MOVED,
    "_upsample_nearest_exact3d.vec": MOVED,
    "pixel_shuffle": MOVED,
    "roll": MOVED,
    "slice_scatter": MOVED,
}
"""Operators that stay on the CPU, with the reason that the report gives."""


def called(case: Case, place: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    """The result of a case whose tensors are where `place` puts them."""
    torch.manual_seed(1)
    inputs = iter([x.make() for x in case.inputs])
    args = _map(lambda v: next(inputs) if isinstance(v, X) else v, case.args)
    args = _map(lambda v: place(v) if isinstance(v, torch.Tensor) else v, args)
    results = _target(case.name)(*args, **dict(case.kwargs))
    return results[case.result or 0] if isinstance(results, tuple | list) else results


def floats(case: Case) -> bool:
    """Whether a case has float inputs of a size that the NPU is asked for, and a float result."""
    shapes = [x.shape for x in case.inputs if x.dtype is torch.float32]
    large = any(torch.Size(shape).numel() >= 16 for shape in shapes)
    return large and called(case, lambda t: t).dtype is torch.float32


def first_cases() -> list[Case]:
    """One case of an operator, for the share of them that is tested here."""
    names = {op.name().removeprefix("aten::") for op in npu_operators()}
    names |= {f"{name}.default" for name in names if "." not in name}
    found: dict[str, Case] = {}
    for case in (*CASES, *REWRITTEN_CASES):
        full = case.name.removeprefix("aten.")
        slow = any(word in full for word in SLOW)
        if full in names and full not in found and not slow and floats(case):
            found[full] = case
    ruled = [case for case in found.values() if TABLE[case.name].rule]
    others = [case for case in found.values() if not TABLE[case.name].rule]
    return ruled[::RULED] + others[::REWRITTEN]


def name(case: Case) -> str:
    """As the report has it."""
    return case.name.removeprefix("aten.").removesuffix(".default")


CHOSEN = first_cases()


def test_more_than_sixty_operators_run_on_the_npu() -> None:
    assert len({name(case) for case in CHOSEN} - ON_THE_CPU.keys()) > 60


@pytest.mark.parametrize("case", CHOSEN, ids=lambda case: case.name.removeprefix("aten."))
def test_eager_operator(case: Case, device: Any) -> None:
    exact = called(case, lambda t: t)
    found = called(case, lambda t: t.to("systola"))
    assert found.device == torch.device("systola:0")
    assert (found.shape, found.dtype, found.stride()) == (exact.shape, exact.dtype, exact.stride())
    (row,) = device.report().rows
    assert row.name == name(case)
    result, largest = found.cpu(), float(exact.abs().max())
    if name(case) in ON_THE_CPU:
        assert row.cpu == {ON_THE_CPU[name(case)]: 1}
        assert torch.equal(result, exact)
        return
    assert (row.npu, row.cpu) == (1, {})
    assert row.predicted_cycles > 0
    tested = TABLE[case.name].tested
    if isinstance(tested, Pcc) and exact.numel() > 1:
        pair = torch.stack([result.flatten(), exact.flatten()]).double()
        assert torch.corrcoef(pair)[0, 1] >= tested.least
    assert (result - exact).abs().max() <= 0.02 * largest

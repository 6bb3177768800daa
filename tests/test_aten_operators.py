"""Every operator of the importer's table: PyTorch, the interpreter and the golden model."""

from typing import Any

import numpy as np
import pytest
import torch
from aten_cases import CASES, Case
from aten_cases_rewritten import REWRITTEN_CASES

from spec.config import preset
from sw.compiler import compile_graph
from sw.compiler.frontend.importing import import_graph, import_model
from sw.compiler.frontend.operator_row import Pcc, Steps
from sw.compiler.frontend.operators import ROWS, TABLE
from sw.compiler.frontend.ports import Imported, dequantize_output, unpack_outputs
from sw.compiler.frontend.quantization.calls import pack_inputs
from sw.compiler.frontend.rewrites.rewrite import rewrite
from sw.compiler.frontend.rewrites.table import FUNCTIONS
from sw.compiler.frontend.rules.table import RULES
from sw.compiler.frontend.support import reasons
from sw.compiler.tosa.interpreter import run_graph
from sw.runtime.golden import GoldenDevice

TINY = preset("tiny")


def _held(imported: Imported, inputs: list[torch.Tensor]) -> list[torch.Tensor]:
    """What the ports hold of the inputs, as float64 or integers."""
    arrays = pack_inputs(imported, inputs)
    held = [torch.from_numpy(np.array(dequantize_output(p, arrays[p.name]))) for p in
            imported.inputs]  # fmt: skip
    return [h.double() if i.is_floating_point() else i for h, i in zip(held, inputs, strict=True)]


def _pcc(a: Any, b: Any) -> float:
    return float(np.corrcoef(np.ravel(a).astype(float), np.ravel(b).astype(float))[0, 1])


def _interpolation(case: Case, imported: Imported) -> float:
    """Bound of a table of 513 entries: how far the function bends away from straight lines between
    them, and half a step of the entries, which may reach four times the largest value.
    """
    (given,) = case.inputs
    step = 128 * imported.inputs[0].scale
    x = torch.linspace(given.low, given.high, 4001, dtype=torch.float64)
    left = torch.floor(x / step) * step
    values = [case.call([at]) for at in (left, x, left + step)]
    line = values[0] + (values[2] - values[0]) * (x - left) / step
    bend = (line - values[1]).abs().max()
    return float(bend + 4 * values[1].abs().max() / 65534)


_ALL = [*CASES, *REWRITTEN_CASES]


@pytest.mark.parametrize("case", _ALL, ids=lambda case: case.name.removeprefix("aten."))
def test_operator(case: Case) -> None:
    torch.manual_seed(1)
    graph = case.graph()
    rewrite(graph)
    samples = [tuple(x.make() for x in case.inputs) for _ in range(3)]
    imported = import_graph(graph, samples, name=case.name.replace(".", "_"), policy="wide")
    assert not any(reasons(graph).values())
    tested, results, exacts = TABLE[case.name].tested, [], []
    for sample in samples[:2]:
        arrays = pack_inputs(imported, sample)
        found = run_graph(imported.graph, arrays)
        (name,) = imported.graph.outputs
        if sample is samples[0]:
            device = GoldenDevice(TINY)
            device.load(compile_graph(imported.graph, TINY))
            for port, array in arrays.items():
                device.write(port, array)
            device.run()
            assert np.array_equal(device.read(name), found[name])
        (result,) = unpack_outputs(imported, found)
        exact = case.call(_held(imported, list(sample))).numpy()
        assert result.shape == exact.shape
        results.append(result)
        exacts.append(exact)
        if isinstance(tested, Pcc):
            if exact.size == 1:  # one number correlates with nothing
                assert abs(result - exact) <= 0.01 * abs(exact)
            else:
                assert _pcc(result, exact) >= tested.least
            continue
        scale = imported.outputs[0].scale
        steps = max(tested.count if isinstance(tested, Steps) else 1, case.steps)
        bound = steps * scale + 1e-6 * float(np.abs(exact).max())
        if not isinstance(tested, Steps):
            bound += _interpolation(case, imported)
        assert np.abs(result.astype(np.float64) - exact.astype(np.float64)).max() <= bound
    if isinstance(tested, Pcc) and results[0].size > 1:
        assert _pcc(results[0], exacts[1]) < 0.9


def test_rules_and_rewrites_are_those_that_the_table_names() -> None:
    assert {row.rule for row in ROWS} - {""} <= set(RULES)
    names = {(name, name.rpartition("_")[0]) for name in FUNCTIONS}
    aten = torch.ops.aten
    assert all(any(hasattr(aten, n) or hasattr(aten, f"_{n}") for n in pair) for pair in names)


def test_every_row_has_a_case() -> None:
    assert {case.name for case in _ALL} == {row.name for row in ROWS}


class Chosen(torch.nn.Module):
    """Scores that a bool input masks at run time."""

    def forward(self, scores: torch.Tensor, keep: torch.Tensor) -> torch.Tensor:
        low = torch.finfo(torch.float32).min
        return torch.where(keep, scores * 2.0, low).softmax(-1)


class Causal(torch.nn.Module):
    """A constant mask of −∞ on values that a comparison reads too."""

    def forward(self, scores: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        mask = torch.full((6, 6), float("-inf")).triu(1)
        masked = scores + mask
        return masked.softmax(-1), masked > 0.5


@pytest.mark.parametrize("module", [Chosen(), Causal()], ids=["chosen", "causal"])
def test_masks_of_minus_infinity(module: torch.nn.Module) -> None:
    torch.manual_seed(1)
    inputs = (torch.randn(2, 6, 6) * 3, torch.rand(2, 6, 6) < 0.7)
    inputs = inputs[: 1 if isinstance(module, Causal) else 2]
    imported = import_model(module, inputs, policy="wide")
    results = unpack_outputs(imported, run_graph(imported.graph, pack_inputs(imported, inputs)))
    exact = module(*inputs)
    exact = exact if isinstance(exact, tuple) else (exact,)
    assert np.abs(results[0] - exact[0].numpy()).max() < 0.003
    for result, expected in zip(results[1:], exact[1:], strict=True):
        assert np.array_equal(result, expected.numpy())

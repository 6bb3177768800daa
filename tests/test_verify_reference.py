"""`verify`: what it calls a difference, and what it refuses."""

import numpy as np
import pytest

from sw.compiler.tosa.graph import Graph
from sw.compiler.tosa.interpreter import run_graph
from sw.models.kernels import kernel, kernel_names
from sw.runtime import verify as module
from sw.runtime.verify import ReferenceModelError, VerifyResult, compare, verify


@pytest.mark.parametrize("name", kernel_names())
def test_every_kernel_graph_runs_on_the_reference_model(name: str) -> None:
    work = kernel(name, seed=5)
    outputs = run_graph(work.graph, work.inputs)
    result = verify(work.graph, work.inputs, outputs)
    size = sum(out.size for out in outputs.values())
    assert result == VerifyResult(reference_exact=True, mismatches=0, compared=size)


def test_one_wrong_element_is_found_and_named() -> None:
    work = kernel("add", {"n": 1, "h": 3, "w": 4, "c": 5}, seed=1)
    (name, out), *_ = run_graph(work.graph, work.inputs).items()
    wrong = out.copy()
    wrong[0, 2, 1, 3] ^= 1
    result = verify(work.graph, work.inputs, {name: wrong})
    assert not result.reference_exact
    assert (result.mismatches, result.compared) == (1, out.size)
    assert result.first == (
        f"{name}[0, 2, 1, 3]: got {wrong[0, 2, 1, 3]}, the reference has {out[0, 2, 1, 3]}"
    )


def test_missing_or_misshapen_outputs_differ() -> None:
    want = {"y": np.zeros((2, 3), np.int8)}
    missing = compare(want, {})
    assert not missing.reference_exact
    assert missing.first == "y: missing, the reference has [2, 3]"
    turned = compare(want, {"y": np.zeros((3, 2), np.int8)})
    assert (turned.mismatches, turned.compared) == (6, 0)
    assert turned.first == "y: of shape [3, 2], the reference has [2, 3]"


def test_nothing_compared_is_not_exact() -> None:
    assert compare({}, {}) == VerifyResult(reference_exact=False, mismatches=0, compared=0)


def _overflow() -> tuple[Graph, dict[str, np.ndarray]]:
    """A RESCALE whose result does not fit in int32: TOSA leaves it undefined, the model refuses."""
    graph = Graph(name="overflow")
    zero = graph.add_constant("zero", [0], "int32")
    operands = [
        graph.add_input("x", (1,), "int32"),
        graph.add_constant("multiplier", [2**31 - 1], "int32"),
        graph.add_constant("shift", [2], "int8"),
        zero,
        zero,
    ]
    graph.outputs = [graph.add_op("RESCALE", operands, out_dtype="int32")]
    return graph, {"x": np.array([2**31 - 1], np.int32)}


def test_what_the_reference_model_refuses_is_an_error_with_its_reason() -> None:
    graph, inputs = _overflow()
    with pytest.raises(ReferenceModelError) as caught:
        verify(graph, inputs, {graph.outputs[0]: np.zeros(1, np.int32)})
    text = str(caught.value)
    assert text.startswith("tosa_reference_model refused graph 'overflow' (exit ")
    assert "OpRescale failure" in text


def test_missing_input_is_refused() -> None:
    graph, _ = _overflow()
    with pytest.raises(ReferenceModelError) as caught:
        verify(graph, {}, {})
    assert str(caught.value) == "verify: no value for graph input 'x'"


def test_absent_reference_model_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module.sys, "executable", "/nowhere/python")
    monkeypatch.setattr(module.shutil, "which", lambda _: None)
    with pytest.raises(ReferenceModelError) as caught:
        module.find_reference_model()
    assert str(caught.value) == "tosa_reference_model not found; `pip install tosa-tools`"


def test_reference_model_that_hangs_is_stopped() -> None:
    work = kernel("conv2d", seed=5)
    with pytest.raises(ReferenceModelError, match=r"not done after 0\.001 s on graph 'conv2d'"):
        verify(work.graph, work.inputs, {}, timeout_s=0.001)

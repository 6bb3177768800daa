"""`reference_exact`: results against `tosa_reference_model` on the compiler's own TOSA graph.

The reference model is not ours: it is what checks the compiler and the golden model together. It
runs as a separate program on a flatbuffer and `.npy` files.
"""

import importlib.metadata
import json
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spec.errors import SystolaError
from sw.compiler.tosa.flatbuffer import to_flatbuffer
from sw.compiler.tosa.graph import Graph
from sw.runtime.scratch import Scratch

Array = NDArray[Any]


class ReferenceModelError(SystolaError):
    """The reference model is missing, refuses the graph, or does not finish."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyResult:
    """Outcome of a comparison: `reference_exact` needs compared > 0 and mismatches == 0.

    `first` names the first difference: tensor, index, both values.
    """

    reference_exact: bool
    mismatches: int
    compared: int
    first: str = ""


def verify(
    graph: Graph,
    inputs: Mapping[str, Array],
    outputs: Mapping[str, Array],
    *,
    timeout_s: float = 600.0,
) -> VerifyResult:
    """Compare `outputs` (golden's, by graph output name) with the reference model's, all elements.

    `inputs` holds one array per graph input. `ReferenceModelError` if the model cannot run.
    """
    return compare(run_reference(graph, inputs, timeout_s=timeout_s), outputs)


def compare(expected: Mapping[str, Array], actual: Mapping[str, Array]) -> VerifyResult:
    """Element by element over every tensor of `expected`; a missing or misshapen one differs."""
    mismatches = compared = 0
    first = ""
    for name, want in expected.items():
        got = actual.get(name)
        if got is None or got.shape != want.shape:
            mismatches += max(1, want.size)
            has = "missing" if got is None else f"of shape {list(got.shape)}"
            first = first or f"{name}: {has}, the reference has {list(want.shape)}"
            continue
        compared += want.size
        wrong = np.argwhere(got.astype(np.int64) != want.astype(np.int64))
        mismatches += len(wrong)
        if len(wrong) and not first:
            at = tuple(int(i) for i in wrong[0])
            first = f"{name}{list(at)}: got {got[at]}, the reference has {want[at]}"
    return VerifyResult(
        reference_exact=compared > 0 and mismatches == 0,
        mismatches=mismatches,
        compared=compared,
        first=first,
    )


def run_reference(
    graph: Graph, inputs: Mapping[str, Array], *, timeout_s: float = 600.0
) -> dict[str, Array]:
    """The reference model's outputs by graph output name."""
    missing = [name for name in graph.inputs if name not in inputs]
    if missing:
        raise ReferenceModelError(f"verify: no value for graph input {missing[0]!r}")
    values = {name: inputs[name] for name in graph.inputs}
    return run_flatbuffer(
        to_flatbuffer(graph), values, graph.outputs, name=graph.name, timeout_s=timeout_s
    )


def run_flatbuffer(
    data: bytes,
    inputs: Mapping[str, Array],
    outputs: Sequence[str],
    *,
    name: str = "graph",
    timeout_s: float = 600.0,
) -> dict[str, Array]:
    """The reference model's `outputs` of the TOSA file `data`, whose inputs are `inputs`."""
    model = find_reference_model()
    with Scratch("verify") as scratch:
        directory = scratch.path
        (directory / "graph.tosa").write_bytes(data)
        description = _description(list(inputs), list(outputs))
        for array, file in zip(inputs.values(), description["ifm_file"], strict=True):
            np.save(directory / file, np.asarray(array, order="C"))
        (directory / "desc.json").write_text(json.dumps(description))
        command = [*model, "--test_desc", "desc.json", "--tosa_level", "NONE"]
        try:
            done = subprocess.run(
                command, cwd=directory, capture_output=True, text=True, timeout=timeout_s
            )
        except subprocess.TimeoutExpired:
            raise ReferenceModelError(
                f"tosa_reference_model: not done after {timeout_s:g} s on graph {name!r}"
            ) from None
        files = [directory / f for f in description["ofm_file"]]
        if done.returncode or not all(f.exists() for f in files):
            raise ReferenceModelError(
                f"tosa_reference_model refused graph {name!r} (exit {done.returncode}): "
                f"{_complaint(done.stderr + done.stdout)}"
            )
        return {n: np.load(f) for n, f in zip(outputs, files, strict=True)}


def _complaint(log: str) -> str:
    """The lines that say why, without the debugger's back trace that the model prints around."""
    words = ("ERROR", "REQUIRE", "WARNING: Failed", "FATAL", "fail", "Cannot", "Exception")
    lines = [line.strip() for line in log.splitlines() if any(w in line for w in words)]
    return "\n".join(lines[:8]) or log.strip()[-1000:]


def _description(inputs: list[str], outputs: list[str]) -> dict[str, Any]:
    return {
        "tosa_file": "graph.tosa",
        "ifm_name": inputs,
        "ifm_file": [f"input{i}.npy" for i in range(len(inputs))],
        "ofm_name": outputs,
        "ofm_file": [f"output{i}.npy" for i in range(len(outputs))],
        "expected_failure": False,
    }


def find_reference_model() -> list[str]:
    """The command that runs `tosa_reference_model`: this environment's first, then PATH's."""
    beside = Path(sys.executable).with_name("tosa_reference_model")
    found = str(beside) if beside.exists() else shutil.which("tosa_reference_model")
    if found is None:
        raise ReferenceModelError("tosa_reference_model not found; `pip install tosa-tools`")
    return [found]


def reference_version() -> str:
    """Version of the installed tosa-tools, for reports."""
    try:
        return importlib.metadata.version("tosa-tools")
    except importlib.metadata.PackageNotFoundError:
        return "not installed"

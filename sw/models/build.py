"""From a float model with data to a `QuantizedModel`: the importer, samples, PyTorch's results."""

import importlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.fx import GraphModule

from sw.compiler.errors import CompileError
from sw.compiler.frontend.capture import Captured, capture
from sw.compiler.frontend.importing import import_graph
from sw.compiler.frontend.quantization.calls import pack_inputs
from sw.compiler.frontend.quantization.policy import Policy
from sw.compiler.frontend.quantization.precision import PLAIN, Precision
from sw.compiler.frontend.quantization.smoothing import Rows
from sw.compiler.frontend.quantized import QuantizedModel
from sw.compiler.frontend.threads import one_thread
from sw.compiler.tosa.macs import graph_macs
from sw.models.prepared import Prepared
from sw.models.table import NetworkSpec
from sw.models.versions import versions

Call = tuple[torch.Tensor, ...]


@dataclass(frozen=True, kw_only=True)
class Built:
    """A quantized model beside the PyTorch graphs that it came from.

    captured: the float graph. quantized: what was imported; with quantize nodes under policy
    `pt2e`. tests: the tensors of each run, in the graph's order.
    """

    model: QuantizedModel
    captured: Captured
    quantized: GraphModule
    tests: tuple[Call, ...]


def build_network(
    spec: NetworkSpec,
    policy: Policy = "auto",
    precision: Precision = PLAIN,
    *,
    samples: int | None = None,
) -> Built:
    """Build, quantize and import a built-in network; takes seconds to a minute.

    policy: `auto` is `pt2e`, which the built-in networks are measured with, unless layers are to
    read 16 bits. samples: how many to keep with PyTorch's results, which take a third of the time;
    all unless given. They calibrate nothing.
    """
    file, function = spec.builder
    prepared: Prepared = getattr(importlib.import_module(file), function)(spec.seed)
    facts = {
        "name": spec.name,
        "seed": spec.seed,
        "shape": spec.shape,
        "data": prepared.data,
        "weights": prepared.weights,
        "runs": spec.runs,
        "logits": spec.logits,
    }
    tests = [(part,) for part in torch.from_numpy(prepared.test[:samples]).split(1)]
    with one_thread():
        captured = capture(prepared.module, tests[0])
    calibration = [(torch.from_numpy(prepared.calibration),)]
    built = build(
        captured,
        tests,
        calibration,
        facts=facts,
        policy="pt2e" if policy == "auto" and precision.is_default else policy,
        precision=precision,
        labels=None if prepared.labels is None else prepared.labels[:samples],
    )
    macs = graph_macs(built.model.imported.graph)
    if precision.is_default and macs != spec.macs:  # layers of 16 bits have several products
        raise CompileError(f"network {spec.name} has {macs:,} MACs, its table says {spec.macs:,}")
    return built


def build(
    captured: Captured,
    tests: Sequence[Call],
    calibration: Iterable[Call],
    *,
    facts: dict[str, Any],
    policy: Policy = "auto",
    precision: Precision = PLAIN,
    rows: Rows = "auto",
    labels: NDArray[np.int64] | None = None,
    batch: int = 1,
) -> Built:
    """Quantize a captured model of `batch` samples a run.

    tests, calibration: the tensors of calls that the graph reads, in its order; those that
    calibrate may hold a multiple of the batch. facts: what the file says about the model; `name`
    at least.
    """
    with one_thread():
        imported = import_graph(
            captured.graph,
            calibration,
            policy=policy,
            precision=precision,
            rows=rows,
            name=facts["name"],
        )
        flat = tuple(tuple(test) for test in tests)
        graphs = {"fp32": captured.graph}
        if imported.policy == "pt2e":
            graphs["pt2e"] = imported.source
        results = {kind: _outputs(graph, flat) for kind, graph in graphs.items()}
    arrays: dict[str, NDArray[Any]] = {}
    packed = [pack_inputs(imported, call) for call in flat]
    for port in imported.inputs:
        arrays[f"samples/{port.name}"] = np.stack([run[port.name] for run in packed])
    for kind, outputs in results.items():
        for port, output in zip(imported.outputs, outputs, strict=True):
            arrays[f"{kind}/{port.name}"] = output
    if labels is not None:
        arrays["labels"] = np.asarray(labels, np.int64)
    info = {
        **facts,
        "batch": batch,
        "macs": graph_macs(imported.graph),
        "calibration_samples": imported.samples,
        "policy": imported.policy,
        "policy_reason": imported.reason,
        "notes": list(captured.notes),
        "packages": versions(),
    }
    model = QuantizedModel(imported=imported, arrays=arrays, info=info)
    return Built(model=model, captured=captured, quantized=imported.source, tests=flat)


def _outputs(graph: GraphModule, calls: Sequence[Call]) -> list[NDArray[Any]]:
    """Every output over all calls: [calls, …the model's own shape]."""
    with torch.no_grad():
        runs = [torch.utils._pytree.tree_leaves(graph(*call)) for call in calls]
    rows = [[v.detach().numpy() for v in run if isinstance(v, torch.Tensor)] for run in runs]
    return [np.stack(column) for column in zip(*rows, strict=True)]

"""From a float network with data to a `QuantizedModel`: PT2E, the importer, reference outputs."""

import importlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.fx import GraphModule

from sw.compiler.errors import CompileError
from sw.compiler.frontend.module import one_thread, quantize_module
from sw.compiler.frontend.ports import quantize_input
from sw.compiler.frontend.pt2e.importer import import_module
from sw.compiler.frontend.quantized import QuantizedModel
from sw.compiler.tosa.macs import graph_macs
from sw.models.prepared import Prepared
from sw.models.table import NetworkSpec
from sw.models.versions import versions


@dataclass(frozen=True, kw_only=True)
class Built:
    """A quantized model beside the PyTorch graphs that it came from.

    tests: float32 test inputs, one array [samples, …] per argument.
    """

    model: QuantizedModel
    module: Any
    quantized: GraphModule
    tests: tuple[NDArray[np.float32], ...]


def build_network(spec: NetworkSpec) -> Built:
    """Build, quantize and import a built-in network; takes seconds to a minute."""
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
    built = build(
        prepared.module,
        [prepared.calibration],
        [prepared.test],
        facts=facts,
        labels=prepared.labels,
    )
    macs = graph_macs(built.model.imported.graph)
    if macs != spec.macs:
        raise CompileError(f"network {spec.name} has {macs:,} MACs, its table says {spec.macs:,}")
    return built


def build(
    module: Any,
    calibration: Sequence[NDArray[np.float32]],
    tests: Sequence[NDArray[np.float32]],
    *,
    facts: dict[str, Any],
    labels: NDArray[np.int64] | None = None,
    batch: int = 1,
) -> Built:
    """Quantize `module` for `batch` samples a run.

    calibration, tests: one float32 array [samples, …] per argument; whole multiples of `batch`.
    facts: what the file says about the model; `name` at least.
    """
    examples = [torch.from_numpy(t[:batch]) for t in tests]
    data = tuple(torch.from_numpy(c) for c in calibration)
    quantized, samples = quantize_module(module, examples, calibration=[data])
    imported = import_module(quantized, name=facts["name"])
    with torch.no_grad(), one_thread():
        fp32, pt2e = (_outputs(m, tests, batch) for m in (module, quantized))
    arrays: dict[str, NDArray[Any]] = {}
    for port, test in zip(imported.inputs, tests, strict=True):
        runs = [quantize_input(port, part) for part in _runs(test, batch)]
        arrays[f"samples/{port.name}"] = np.stack(runs)
    for kind, outputs in (("fp32", fp32), ("pt2e", pt2e)):
        for port, output in zip(imported.outputs, outputs, strict=True):
            arrays[f"{kind}/{port.name}"] = output
    if labels is not None:
        arrays["labels"] = np.asarray(labels, np.int64)
    info = {
        **facts,
        "batch": batch,
        "macs": graph_macs(imported.graph),
        "calibration_samples": samples,
        "packages": versions(),
    }
    model = QuantizedModel(imported=imported, arrays=arrays, info=info)
    return Built(model=model, module=module, quantized=quantized, tests=tuple(tests))


def _runs(array: NDArray[np.float32], batch: int) -> list[NDArray[np.float32]]:
    """The samples of each run."""
    return [array[i : i + batch] for i in range(0, len(array), batch)]


def _outputs(
    module: Any, tests: Sequence[NDArray[np.float32]], batch: int
) -> list[NDArray[np.float32]]:
    """Every output over all runs: [runs, …the module's own shape]."""
    rows: list[list[NDArray[np.float32]]] = []
    for parts in zip(*(_runs(test, batch) for test in tests), strict=True):
        result = module(*(torch.from_numpy(part) for part in parts))
        leaves = torch.utils._pytree.tree_leaves(result)
        rows.append([v.numpy() for v in leaves if isinstance(v, torch.Tensor)])
    return [np.stack(column) for column in zip(*rows, strict=True)]

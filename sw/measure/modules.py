"""`systola bench --suite modules`: modules as users bring them.

The modules are the public functions of examples/modules/. Each is compiled, run and profiled as the
commands of these names do it. One with operators that the NPU lacks is run with `--fallback`.
"""

import ast
import hashlib
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from spec.config import NpuConfig
from sw.models.supplied import NOTHING
from sw.results.revision import ROOT
from sw.runtime.session import DeviceOptions, OptionError, open_device

if TYPE_CHECKING:
    from sw.compiler.frontend.capture import Captured

FOLDER = ROOT / "examples" / "modules"
MIN_PCC = 0.99
"""A module whose result agrees less with PyTorch's float result has a problem."""

Array = NDArray[Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A function of examples/modules/: special is its docstring, digest that of its file."""

    name: str
    file: str
    special: str
    digest: str

    @property
    def target(self) -> str:
        """What the commands take, from the root of the source tree."""
        return f"examples/modules/{self.file}:{self.name}"


def find_modules(folder: Path = FOLDER) -> list[Found]:
    """The modules in order of files and lines, without executing them.

    `OptionError` outside the source tree.
    """
    if not folder.is_dir():
        raise OptionError(f"--suite modules: its modules are in {folder}, which does not exist")
    return [found for path in sorted(folder.glob("*.py")) for found in _functions(path)]


def _functions(path: Path) -> Iterator[Found]:
    source = path.read_bytes()
    digest = hashlib.sha256(source).hexdigest()[:16]
    for item in ast.parse(source).body:
        if isinstance(item, ast.FunctionDef) and not item.name.startswith("_"):
            special = (ast.get_docstring(item) or "").splitlines()[:1]
            yield Found(name=item.name, file=path.name, special=" ".join(special), digest=digest)


def run_module(target: str, config: NpuConfig, options: DeviceOptions) -> dict[str, Any]:
    """The facts of one module, whole on the NPU or with its other operators on the CPU.

    A module that no command takes gives `error`, whatever its code has raised.
    """
    from sw.compiler.errors import CompileError

    try:
        try:
            return _whole(target, config, options)
        except CompileError as error:
            refused = str(error).splitlines()[0]
        return {**_partitioned(target, config, options), "refused": refused}
    except Exception as error:  # a module can raise anything, and gets a row all the same
        return {"error": f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"}


def _whole(target: str, config: NpuConfig, options: DeviceOptions) -> dict[str, Any]:
    """`systola compile`, `run --verify` and `profile` of a module."""
    from sw.measure.model_runs import float_outputs, run_model, verify_model
    from sw.measure.profile.run import profile_graph
    from sw.models.catalog import StoredModel, build_model, compile_model

    start = time.perf_counter()
    built = build_model(str(ROOT / target), NOTHING)
    model = StoredModel(built.model)
    import_s = time.perf_counter() - start
    start = time.perf_counter()
    image = compile_model(model, config)
    compile_s = time.perf_counter() - start
    outputs: list[dict[str, Array]] = []
    with open_device(config, options) as device:
        report = run_model(
            model, device, collected=outputs, clock_mhz=options.clock_mhz, memory=options.memory
        )
    report.reference = verify_model(model, config, limit=model.count).reference
    results = float_outputs(model, outputs)
    graph, inputs = model.imported().graph, model.inputs(0)
    seen = profile_graph(graph, dict(inputs), model.name, model.shape, config, options)
    facts = {key: value for key, value in report.to_json().items() if key != "counters"}
    return {
        **facts,
        "elements": report.comparison.elements if report.comparison else 0,
        **_agreement([results[p.name] for p in model.imported().outputs], built.captured),
        "policy": model.info["policy"],
        "policy_reason": model.info["policy_reason"],
        "import_s": import_s,
        "compile_s": compile_s,
        "operators": _operators(built.captured),
        "tosa_operators": len(graph.ops),
        "instructions": len(image.instructions()),
        "cpu": [],
        "profiled_cycles": seen.report.cycles,
        "bound_by": _bound(seen.to_json()["layers"]),
    }


def _operators(captured: "Captured") -> int:
    """Operators of the graph that depend on its inputs."""
    from sw.compiler.frontend.quantization.calibrate import constant_values, fixed_nodes
    from sw.compiler.frontend.support import reasons

    graph = captured.graph
    return len(reasons(graph, constant_values(graph, fixed_nodes(graph))))


def agreement(
    ours: Sequence[Array], exact: Sequence[Array], others: Sequence[Array]
) -> dict[str, Any]:
    """How results agree with PyTorch's (`exact`); None where there is no result of the kind.

    pcc: the lowest of all float results. pcc_other: the highest that `others` have, which are
    PyTorch's results of the same inputs with their elements in another order. same_integers: share
    of equal elements in the results that are integers or truth values.
    """
    from sw.models.catalog import pcc

    rows = list(zip(ours, exact, others, strict=True))
    floats = [row for row in rows if row[1].dtype.kind == "f"]
    whole = [np.ravel(a) == np.ravel(b) for a, b, _ in rows if b.dtype.kind != "f"]
    return {
        "pcc": min((pcc(a, b) for a, b, _ in floats), default=None),
        "pcc_other": max((pcc(c, b) for _, b, c in floats), default=None),
        "same_integers": float(np.mean(np.concatenate(whole))) if whole else None,
    }


def _agreement(ours: Sequence[Array], captured: "Captured") -> dict[str, Any]:
    """How the results of the example call agree with PyTorch's; see `agreement`."""
    import torch

    order = torch.Generator().manual_seed(1)
    call = captured.example
    mixed = [t.flatten()[torch.randperm(t.numel(), generator=order)].view(t.shape) for t in call]
    exact, others = (_results(captured.graph, tensors) for tensors in (call, mixed))
    return agreement([a.reshape(b.shape) for a, b in zip(ours, exact, strict=True)], exact, others)


def _results(graph: Any, call: Sequence[Any]) -> list[Array]:
    """PyTorch's results of a call."""
    import torch

    with torch.no_grad():
        results = torch.utils._pytree.tree_leaves(graph(*call))
    return [t.numpy() for t in results if isinstance(t, torch.Tensor)]


def _bound(layers: Sequence[Mapping[str, Any]]) -> str:
    """What bounds the layers: of the reasons, the one with the most cycles."""
    cycles: dict[str, int] = {}
    for layer in layers:
        cycles[layer["bound_by"]] = cycles.get(layer["bound_by"], 0) + layer["cycles"]
    return max(cycles, key=lambda name: cycles[name])


def _partitioned(target: str, config: NpuConfig, options: DeviceOptions) -> dict[str, Any]:
    """`systola run --fallback` of a module, on the RTL and on the golden model."""
    from sw.measure.partitioned_run import run_partitioned

    golden = DeviceOptions(device="golden")
    runs = [
        run_partitioned(str(ROOT / target), NOTHING, config, device, None)
        for device in (options, golden)
    ]
    found = runs[0].to_json()
    ours, expected = ([np.stack(c) for c in zip(*run.outputs, strict=True)] for run in runs)
    parts, nodes = found["parts"], found["nodes"]
    return {
        "config": config.name,
        "config_digest": config.digest_hex,
        "device": options.device,
        "policy": found["policy"],
        "policy_reason": found["policy_reason"],
        "operators": found["npu_nodes"],
        "cpu": [
            {"operator": n["target"], "reason": n["reason"]} for n in nodes if n["where"] == "cpu"
        ],
        "instructions": sum(sum(p["instructions"].values()) for p in parts),
        "cycles": sum(p["cycles"] or 0 for p in parts),
        "wall_s": sum(p["wall_s"] for p in parts),
        "programs": len(parts),
        "bit_exact": all(np.array_equal(a, b) for a, b in zip(ours, expected, strict=True)),
        "interpreter_exact": bool(parts) and all(p["verified"] == p["runs"] > 0 for p in parts),
        "elements": sum(a.size for a in ours),
        **_agreement([a[0] for a in ours], runs[0].module.captured),
    }


def module_problems(row: Mapping[str, Any]) -> list[str]:
    """What else is wrong with the row of a module; empty for a good one."""
    found = []
    if row["pcc"] is not None and row["pcc"] < MIN_PCC:
        found.append(f"the result has a PCC of {row['pcc']:.4f} to PyTorch's float result")
    if row.get("refused") and not row["cpu"]:
        found.append(f"refused, though every operator can run on the NPU: {row['refused']}")
    if any(not node["reason"] for node in row["cpu"]):
        found.append("an operator on the CPU without a reason")
    if not row["cpu"] and row["profiled_cycles"] != row["cycles"]:
        found.append(f"the profile has {row['profiled_cycles']} cycles, the run {row['cycles']}")
    return found

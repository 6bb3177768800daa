"""What `systola diff` does with a model's name, and how it shows the outcome."""

import math
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, cast

from rich.console import Console

from spec.config import NpuConfig
from sw.compiler.frontend.ports import quantize_input
from sw.compiler.frontend.quantization.calls import pack_inputs
from sw.measure.diff import (
    Array,
    LayerDiff,
    MemoryDevice,
    Tolerance,
    compare_layers,
    first_beyond,
    run_fed,
    run_free,
    usual_tolerance,
)
from sw.models.supplied import NOTHING, Supplied
from sw.runtime.session import DeviceOptions, open_device
from sw.runtime.tables import FittedTable, left, right

if TYPE_CHECKING:
    from sw.compiler.frontend.ports import ModelPort
    from sw.compiler.tosa.graph import Graph
    from sw.models.build import Built


@dataclass(frozen=True, slots=True, kw_only=True)
class DiffReport:
    """Rows in execution order, and the first that differs by more than the tolerance.

    policy: that the program was quantized by, and that says which graph of PyTorch's it is beside.
    """

    name: str
    policy: str
    config: NpuConfig
    device: str
    fed: bool
    tolerance: Tolerance
    rows: list[LayerDiff]

    @property
    def first(self) -> LayerDiff | None:
        return first_beyond(self.rows, self.tolerance)

    def to_json(self) -> dict[str, Any]:
        rows = []
        for row in self.rows:
            # JSON has no infinity.
            sqnr = row.sqnr_db if math.isfinite(row.sqnr_db) else None
            beyond = row.exceeds(self.tolerance)
            rows.append({**asdict(row), "sqnr_db": sqnr, "beyond": beyond})
        return {
            "name": self.name,
            "config": self.config.name,
            "config_digest": self.config.digest_hex,
            "device": self.device,
            "policy": self.policy,
            "fed": self.fed,
            "tolerance": asdict(self.tolerance),
            "first_beyond": None if self.first is None else self.first.layer,
            "layers": rows,
        }

    def print(self, console: Console) -> None:
        """The table, and what it means."""
        how = "each layer fed PyTorch's integers" if self.fed else "free-running"
        title = f"{self.name} on {self.config.name} ({self.device}), {how}"
        numbers = [right("elements", 2), right("max LSB"), right("differ"), right("PCC", 1)]
        columns = [left("layer", fold=16), left("module", 3, fold=12), *numbers]
        table = FittedTable([*columns, right("SQNR dB"), left("")], title)
        for row in self.rows:
            table.add_row(
                row.layer,
                row.module,
                f"{row.elements:,}",
                str(row.max_lsb),
                f"{row.differing / row.elements:.3%}",
                f"{row.pcc:.6f}",
                "∞" if math.isinf(row.sqnr_db) else f"{row.sqnr_db:.1f}",
                "beyond" if row.exceeds(self.tolerance) else "",
            )
        console.print(table)
        console.print(self.verdict(), soft_wrap=True)

    @property
    def reference(self) -> str:
        """What the NPU is compared with."""
        return (
            "PyTorch's int8 graph" if self.policy == "pt2e" else "PyTorch's float graph, rounded,"
        )

    def verdict(self) -> str:
        """One line: PASS, or the first layer beyond the tolerance."""
        limits = ", ".join(f"{k} {v:g}" for k, v in asdict(self.tolerance).items() if v is not None)
        first = self.first
        if first is None:
            return f"PASS  NPU = {self.reference} within {limits}: {len(self.rows)} layers"
        where = f"layer {first.layer}"
        where += f" (module {first.module})" if first.module else ""
        where += f", {first.source}" if first.source else ""
        return (
            f"FAIL  NPU = {self.reference}: beyond {limits} first in {where}: "
            f"{first.differing:,} of {first.elements:,} elements differ by up to {first.max_lsb} "
            f"from node {first.node}"
        )


def diff_model(
    name: str,
    config: NpuConfig,
    options: DeviceOptions,
    *,
    fed: bool,
    tolerance: Tolerance | None = None,
    supplied: Supplied = NOTHING,
) -> DiffReport:
    """Compare a model's first sample (or batch) with PyTorch's graph, layer by layer.

    That graph is PyTorch's int8 graph under policy `pt2e`, else the float graph, whose values are
    then rounded to the formats that the NPU has for them.
    """
    from sw.models.catalog import build_model

    built = build_model(name, supplied)
    rows = diff_rows(built, config, options, fed=fed)
    policy = built.model.imported.policy
    return DiffReport(
        name=name,
        policy=policy,
        config=config,
        device=options.device,
        fed=fed,
        tolerance=tolerance or usual_tolerance(policy, fed),
        rows=rows,
    )


def diff_rows(
    built: "Built",
    config: NpuConfig,
    options: DeviceOptions,
    *,
    fed: bool,
    graph: "Graph | None" = None,
) -> list[LayerDiff]:
    """The rows of a built model. `graph`: to run in place of the model's own, same tensors."""
    imported = built.model.imported
    graph = graph or imported.graph
    want = pt2e_tensors(built)
    with open_device(config, options) as opened:
        device = cast(MemoryDevice, opened)
        if fed:
            compilation, got = run_fed(graph, imported.quantized, want, device)
        else:
            start = {port.name: want[port.name] for port in imported.inputs}
            compilation, got = run_free(graph, start, device)
    return compare_layers(compilation, got, imported.quantized, want, graph.modules)


def pt2e_tensors(built: "Built") -> dict[str, Array]:
    """PyTorch's values of the first run as integers, by TOSA tensor, in its order in memory.

    The inputs are among them, whatever the policy.
    """
    from sw.measure.diff_pt2e import node_values

    imported = built.model.imported
    known = {
        node: port
        for node, port in imported.quantized.items()
        if not imported.graph.tensors[port.name].is_constant
    }
    values = node_values(built.quantized, built.tests[0], known)
    shapes = {name: tensor.shape for name, tensor in imported.graph.tensors.items()}
    return pack_inputs(imported, built.tests[0]) | {
        port.name: _in_memory(port, values[node]).reshape(shapes[port.name])
        for node, port in known.items()
    }


def _in_memory(port: "ModelPort", value: Array) -> Array:
    """A value of PyTorch's graph as the port's integers, in its order in memory."""
    if value.dtype.kind == "f":
        return quantize_input(port, value)
    return port.layout.to_memory(value.astype(port.dtype))

"""What `torch.compile(model, backend="systola")` made of a model: what ran where, and why."""

import json
import weakref
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from spec.notebook import summary
from sw.runtime.timing import Timing
from sw.torch_backend.compiled_part import Part
from sw.torch_backend.dynamo import Untraced, switched_off
from sw.torch_backend.graph import CompiledGraph
from sw.torch_backend.kept import Families
from sw.torch_backend.kernel_part import KernelPart
from sw.torch_backend.options import Options
from sw.torch_backend.report_text import report_lines
from sw.torch_backend.variant import Variant

_SUMS = (
    "runs",
    "bytes_in",
    "bytes_out",
    "calibrations",
    "saturated",
    "saturated_values",
    "verified",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CompileReport:
    """Of one compiled model (or of all), over all calls so far.

    data: as JSON has it, see docs/torch_compile.md. `str()` is a table for people.
    """

    data: dict[str, Any]

    @property
    def npu_nodes(self) -> int:
        """Operators that run on the NPU, over all variants."""
        return int(self.data["totals"]["npu_nodes"])

    @property
    def cpu_nodes(self) -> int:
        """Operators that run on the CPU."""
        return int(self.data["totals"]["cpu_nodes"])

    @property
    def counters(self) -> dict[str, int]:
        """Executed instructions by engine, and `cycles` where the device has a clock."""
        totals = self.data["totals"]
        cycles = {} if totals["cycles"] is None else {"cycles": totals["cycles"]}
        return {**totals["instructions"], **cycles}

    def to_dict(self) -> dict[str, Any]:
        return self.data

    def to_json(self) -> str:
        return json.dumps(self.data, indent=1)

    def _repr_html_(self) -> str:
        """What a notebook shows: the totals."""
        totals = {k: v for k, v in self.data["totals"].items() if isinstance(v, int | float)}
        facts = [(name.replace("_", " "), value) for name, value in totals.items()]
        return summary("torch.compile with backend systola", facts)

    def __str__(self) -> str:
        return "\n".join(report_lines(self.data))


def make_report(
    graphs: Sequence[CompiledGraph], untraced: Sequence[Untraced] = ()
) -> CompileReport:
    """The report of some graphs, in order of their compilation, and of what Dynamo left out."""
    rows = [_graph(g) for g in graphs]
    variants = [v for row in rows for v in row["variants"]]
    parts = [p for v in variants for p in v["parts"]]
    options = graphs[0].options if graphs else None
    calls = sum(r["calls"] for r in rows)
    totals: dict[str, Any] = {
        "graphs": len(rows),
        "calls": calls,
        "eager_calls": sum(sum(r["eager"].values()) for r in rows),
        "variants": len(variants),
        "npu_nodes": sum(v["npu_nodes"] for v in variants),
        "cpu_nodes": sum(v["cpu_nodes"] for v in variants),
        "parts": len(parts),
        **{name: sum(p[name] for p in parts) for name in _SUMS},
        "cycles": _cycles(parts),
        **parts_timing(parts, calls, options).to_json(),
        "instructions": _sum([p["instructions"] for p in parts]),
    }
    return CompileReport(
        data={
            "backend": "systola",
            "config": options.config.name if options else None,
            "device": options.device if options else None,
            "totals": totals,
            "off": switched_off(),
            "dynamo": [asdict(row) for row in untraced],
            "graphs": rows,
        }
    )


def _graph(graph: CompiledGraph) -> dict[str, Any]:
    return {
        "graph": graph.number,
        "place": graph.place,
        "calls": graph.calls,
        "eager": dict(graph.eager),
        "notes": list(graph.notes),
        "kept": graph.kept,
        "given_up": graph.given_up,
        "variants": [variant_data(v) for v in graph.variants],
    }


def variant_data(variant: Variant) -> dict[str, Any]:
    """A variant as JSON has it: policy, parts with figures, operators with where and why."""
    nodes = [asdict(row) for row in variant.nodes]
    on_npu = sum(row["where"] != "cpu" for row in nodes)
    return {
        "shapes": variant.shapes,
        "policy": variant.choice.policy,
        "policy_reason": variant.choice.reason,
        "npu_nodes": on_npu,
        "cpu_nodes": len(nodes) - on_npu,
        "parts": [_part(p) for p in variant.parts],
        "nodes": nodes,
    }


def _part(part: Part | KernelPart) -> dict[str, Any]:
    return {
        "part": part.title,
        "nodes": len(part.names),
        **_bytes(part.timing),
        "tosa_digest": part.tosa_digest,
        "digest": part.digest,
        **part.figures.to_json(),
    }


def _bytes(timing: Timing | None) -> dict[str, int]:
    """Bytes of a part's program; 0 where there is none."""
    names = ("program_bytes", "constant_bytes", "peak_dram_bytes")
    return {name: 0 if timing is None else getattr(timing, name) for name in names}


def parts_timing(parts: Sequence[dict[str, Any]], calls: int, options: Options | None) -> Timing:
    """Of all runs of all parts; a sample is a call. Memory is that of the largest part."""
    return Timing(
        predicted_cycles=sum(p["predicted_cycles"] for p in parts),
        layer_bound=sum(p["layer_bound"] for p in parts),
        program_bytes=sum(p["program_bytes"] for p in parts),
        constant_bytes=sum(p["constant_bytes"] for p in parts),
        peak_dram_bytes=max((p["peak_dram_bytes"] for p in parts), default=0),
        cycles=_cycles(parts),
        samples=max(calls, 1),
        clock_mhz=options.clock_mhz if options else None,
    )


def _cycles(parts: Sequence[dict[str, Any]]) -> int | None:
    known = [p["cycles"] for p in parts if p["cycles"] is not None]
    return sum(known) if known else None


def _sum(counts: Sequence[dict[str, int]]) -> dict[str, int]:
    total: dict[str, int] = {}
    for each in counts:
        for name, count in each.items():
            total[name] = total.get(name, 0) + count
    return total


class Ledger:
    """The graphs that this process has compiled, as long as torch keeps them."""

    def __init__(self) -> None:
        self._graphs: list[weakref.ref[CompiledGraph]] = []
        self.families = Families()
        self.count = 0

    def add(self, graph: CompiledGraph) -> None:
        self._graphs.append(weakref.ref(graph))
        self.count += 1

    def graphs(self) -> list[CompiledGraph]:
        """In the order of their compilation."""
        self._graphs = [r for r in self._graphs if r() is not None]
        return [g for r in self._graphs if (g := r()) is not None]

"""`import_model`: the one way from a PyTorch model to a TOSA graph, whatever door it came through.

A model is captured, normalized, given a policy, quantized or calibrated by it, and imported.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from torch.fx import GraphModule

from sw.compiler.frontend.capture import Captured, capture
from sw.compiler.frontend.importer import Importer, PortFormat
from sw.compiler.frontend.operators import limits
from sw.compiler.frontend.plan import Planner
from sw.compiler.frontend.ports import Imported
from sw.compiler.frontend.quantization.calibrate import (
    Ranges,
    RangesNeededError,
    calibrate,
    unmeasured,
)
from sw.compiler.frontend.quantization.formats import Formats
from sw.compiler.frontend.quantization.policy import Policy, choose, is_quantized
from sw.compiler.frontend.quantization.quantize_nodes import note_values
from sw.compiler.frontend.quantization.samples import (
    require_finite_inputs,
    require_finite_parameters,
    runs_on_inputs,
    split_calls,
)
from sw.compiler.frontend.quantization.smoothing import Rows
from sw.compiler.frontend.quantization.unrolled import join_steps
from sw.compiler.frontend.rules.table import RULES
from sw.compiler.frontend.threads import one_thread, quiet

if TYPE_CHECKING:
    from torchao.quantization.pt2e.quantizer import Quantizer

Samples = Iterable[Sequence[torch.Tensor]]


def import_model(
    model: Any,
    example_inputs: Sequence[Any] = (),
    example_keywords: Mapping[str, Any] | None = None,
    *,
    calibration: Iterable[Any] | None = None,
    policy: Policy = "auto",
    rows: Rows = "auto",
    name: str = "",
    outputs: Sequence[PortFormat] = (),
) -> Imported:
    """The TOSA graph of `model` for inputs shaped like the examples.

    model: a module, an `ExportedProgram`, or a graph of PT2E. calibration: the arguments of calls
    (default: the examples). rows: see `smoothing.Rows`. outputs: formats that outputs take under
    policy `wide`, in order: the number of an input, or a port of another program, so that they can
    go in there as they are. `CompileError` names the first node that cannot be imported.
    """
    with one_thread():
        captured = capture(model, example_inputs, example_keywords)
        return import_captured(
            captured, calibration=calibration, policy=policy, rows=rows, name=name, outputs=outputs
        )


def import_captured(
    captured: Captured,
    *,
    calibration: Iterable[Any] | None = None,
    policy: Policy = "auto",
    quantizer: "Quantizer | None" = None,
    rows: Rows = "auto",
    name: str = "",
    outputs: Sequence[PortFormat] = (),
) -> Imported:
    """`import_model` of a captured model. quantizer: of PT2E, for policy `pt2e`."""
    samples = [captured.example] if calibration is None else map(captured.flat, calibration)
    imported = import_graph(
        captured.graph,
        samples,
        policy=policy,
        quantizer=quantizer,
        rows=rows,
        name=name or captured.name,
        outputs=outputs,
    )
    return replace(imported, notes=(*captured.notes, *imported.notes))


def import_graph(
    graph: GraphModule,
    samples: Samples,
    *,
    policy: Policy = "auto",
    quantizer: "Quantizer | None" = None,
    rows: Rows = "auto",
    name: str = "",
    outputs: Sequence[PortFormat] = (),
) -> Imported:
    """The TOSA graph of a captured graph, or of a part of one; see `import_model`.

    Nodes carry `val` in their meta data; parameters are attributes, other placeholders inputs.
    """
    choice = choose(graph, policy)
    example = [n.meta["val"] for n in graph.graph.nodes if n.op == "placeholder"]
    samples = split_calls(samples, example)
    wide = choice.policy == "wide"  # where −∞ is a mask
    require_finite_parameters(graph, infinite=wide)
    require_finite_inputs(samples, infinite=wide)
    if choice.policy == "pt2e" and not is_quantized(graph):
        with quiet():
            from sw.compiler.frontend.quantization.quantizer import quantize_graph
        with runs_on_inputs():
            graph = quantize_graph(graph, samples, quantizer)
    if choice.policy == "pt2e":
        note_values(graph)
        imported = _import_quantized(graph, samples, rows, name, outputs)
    else:
        with runs_on_inputs():
            ranges = calibrate(graph, samples)
        imported = import_calibrated(graph, ranges, rows=rows, name=name, outputs=outputs)
    return replace(
        imported,
        policy=choice.policy,
        reason=choice.reason,
        source=graph,
        samples=sum(len(call[0]) if call and call[0].dim() else 1 for call in samples),
    )


def import_calibrated(
    graph: GraphModule,
    ranges: Ranges,
    *,
    rows: Rows = "auto",
    name: str = "",
    outputs: Sequence[PortFormat] = (),
) -> Imported:
    """The TOSA graph of a graph whose ranges are known."""
    planner = Planner(graph, ranges.constants)
    ranges = join_steps(planner, ranges)
    return Importer(graph, name, ranges, Formats(planner, ranges, rows)).run(RULES, limits, outputs)


def _import_quantized(
    graph: GraphModule,
    samples: Sequence[Sequence[torch.Tensor]],
    rows: Rows,
    name: str,
    outputs: Sequence[PortFormat],
) -> Imported:
    """Its own grids suffice for most models; values between them are calibrated if need be."""
    try:
        return import_calibrated(graph, unmeasured(graph), rows=rows, name=name, outputs=outputs)
    except RangesNeededError:
        with runs_on_inputs():
            ranges = calibrate(graph, samples)
        return import_calibrated(graph, ranges, rows=rows, name=name, outputs=outputs)

"""`import_model`: the one way from a PyTorch model to a TOSA graph.

Every entry (`run`, `compile`, `torch.compile`, a `.pt2` file) comes here. A model is captured,
normalized, given a policy, quantized or calibrated by it, and imported.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

import torch
from torch.fx import GraphModule

from spec.config import NpuConfig
from sw.compiler.frontend.capture import Captured, capture
from sw.compiler.frontend.importer import Importer, PortFormat
from sw.compiler.frontend.plan import Planner
from sw.compiler.frontend.ports import Imported
from sw.compiler.frontend.quantization.budget import choose_layers
from sw.compiler.frontend.quantization.calibrate import (
    Ranges,
    RangesNeededError,
    calibrate,
    unmeasured,
)
from sw.compiler.frontend.quantization.formats import Formats
from sw.compiler.frontend.quantization.policy import Choice, Policy, choose, is_quantized
from sw.compiler.frontend.quantization.precision import PLAIN, Precision
from sw.compiler.frontend.quantization.quantize_nodes import note_values
from sw.compiler.frontend.quantization.samples import (
    Call,
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


class Options(TypedDict, total=False):
    """What the importer is told besides the graph.

    rows: see `smoothing.Rows`. name: of the TOSA graph. outputs: formats that outputs take under
    policy `wide`, in order: the number of an input, or a port of another program, so that they can
    go in there as they are. precision: which layers read 16 bits.
    """

    rows: Rows
    name: str
    outputs: Sequence[PortFormat]
    precision: Precision


def import_model(
    model: Any,
    example_inputs: Sequence[Any] = (),
    *,
    calibration: Iterable[Any] | None = None,
    policy: Policy = "auto",
    **options: Unpack[Options],
) -> Imported:
    """The TOSA graph of `model` for inputs shaped like the examples.

    model: a module, an `ExportedProgram`, or a graph of PT2E. calibration: the arguments of calls
    (default: the examples). `CompileError` names the first node that cannot be imported.
    """
    with one_thread():
        captured = capture(model, example_inputs)
        return import_captured(captured, calibration=calibration, policy=policy, **options)


def import_captured(
    captured: Captured,
    *,
    calibration: Iterable[Any] | None = None,
    policy: Policy = "auto",
    quantizer: "Quantizer | None" = None,
    config: NpuConfig | None = None,
    **options: Unpack[Options],
) -> Imported:
    """`import_model` of a captured model. quantizer: of PT2E, for policy `pt2e`."""
    samples = [captured.example] if calibration is None else map(captured.flat, calibration)
    options["name"] = options.get("name") or captured.name
    imported = import_graph(
        captured.graph, samples, policy=policy, quantizer=quantizer, config=config, **options
    )
    return replace(imported, notes=(*captured.notes, *imported.notes))


def import_graph(
    graph: GraphModule,
    samples: Samples,
    *,
    policy: Policy = "auto",
    quantizer: "Quantizer | None" = None,
    config: NpuConfig | None = None,
    **options: Unpack[Options],
) -> Imported:
    """The TOSA graph of a captured graph, or of a part of one; see `import_model`.

    config: whose predicted cycles a budget of `precision` means (default: `default`'s). Nodes carry
    `val` in their meta data; parameters are attributes, other placeholders inputs.
    """
    wanted = options.get("precision", PLAIN)
    choice = choose(graph, policy, wanted)
    example = [n.meta["val"] for n in graph.graph.nodes if n.op == "placeholder"]
    samples = split_calls(samples, example)
    wide = choice.policy == "wide"  # where −∞ is a mask
    require_finite_parameters(graph, infinite=wide)
    require_finite_inputs(samples, infinite=wide)
    if wanted.has_budget:
        chosen = choose_layers(
            lambda rules, calls: _imported(graph, calls, choice, {**options, "precision": rules}),
            graph, samples, wanted, config or NpuConfig(),
        )  # fmt: skip
        choice = replace(choice, reason=f"{choice.reason}; {chosen.reason}")
        options["precision"] = chosen.precision
    imported = _imported(graph, samples, choice, options, quantizer)
    if not wanted.is_default and not wanted.has_budget:
        imported = replace(imported, reason=f"{choice.reason}; {_widths(imported)}, as asked for")
    return imported


def _widths(imported: Imported) -> str:
    """The layers and products of each width but int8."""
    found: dict[str, list[str]] = {}
    for name, width in imported.widths.items():
        if width != "int8":
            found.setdefault(width, []).append(name)
    every = len(imported.widths)
    return ", ".join(
        f"{'every layer' if len(names) == every else ', '.join(names)} at {width}"
        for width, names in found.items()
    )


def _imported(
    graph: GraphModule,
    samples: Sequence[Call],
    choice: Choice,
    options: Options,
    quantizer: "Quantizer | None" = None,
) -> Imported:
    wide = choice.policy == "wide"
    if not wide and not is_quantized(graph):
        with quiet():
            from sw.compiler.frontend.quantization.quantizer import quantize_graph
        with runs_on_inputs():
            graph = quantize_graph(graph, samples, quantizer)
    if wide:
        imported = _calibrated(graph, samples, options)
    else:
        note_values(graph)
        try:  # a quantized graph's own grids suffice, or values between them are calibrated
            imported = import_calibrated(graph, unmeasured(graph), **options)
        except RangesNeededError:
            imported = _calibrated(graph, samples, options)
    return replace(
        imported,
        policy=choice.policy,
        reason=choice.reason,
        source=graph,
        samples=sum(len(call[0]) if call and call[0].dim() else 1 for call in samples),
    )


def _calibrated(graph: GraphModule, samples: Samples, options: Options) -> Imported:
    with runs_on_inputs():
        ranges = calibrate(graph, samples)
    return import_calibrated(graph, ranges, **options)


def import_calibrated(graph: GraphModule, ranges: Ranges, **options: Unpack[Options]) -> Imported:
    """The TOSA graph of a graph whose ranges are known."""
    planner = Planner(graph, ranges.constants)
    ranges = join_steps(planner, ranges)
    precision = options.get("precision", PLAIN)
    formats = Formats(planner, ranges, options.get("rows", "auto"), precision)
    importer = Importer(graph, options.get("name", ""), ranges, formats)
    return importer.run(RULES, options.get("outputs", ()))

"""`import_float`: a float module to a TOSA graph with a wide residual stream."""

from collections.abc import Iterable, Sequence

import torch
from torch.fx import GraphModule

from sw.compiler.frontend.calibrate import Ranges, calibrate
from sw.compiler.frontend.capture import capture
from sw.compiler.frontend.formats import Formats
from sw.compiler.frontend.importer import Importer, PortFormat
from sw.compiler.frontend.module import one_thread
from sw.compiler.frontend.operators import RULES, limits
from sw.compiler.frontend.plan import Planner
from sw.compiler.frontend.ports import Imported
from sw.compiler.frontend.smoothing import Rows


def import_float(
    module: torch.nn.Module,
    example_inputs: Sequence[torch.Tensor],
    *,
    calibration: Iterable[Sequence[torch.Tensor]] | None = None,
    rows: Rows = "auto",
    name: str = "",
    outputs: Sequence[PortFormat] = (),
) -> Imported:
    """The TOSA graph of a float `module` for inputs shaped like `example_inputs`.

    `calibration` yields the arguments of calls (default: the example inputs); `rows` says where
    linear layers scale their input by row (`smoothing.py`). Outputs are int16, unless `outputs`
    says otherwise, in order: the number of an input, or a port (of another program), whose format
    they take, so that they can go in there as they are. `CompileError` names the first node that
    cannot be imported.
    """
    with one_thread():
        graph = capture(module, example_inputs)
        samples = [tuple(example_inputs)] if calibration is None else calibration
        name = name or type(module).__name__
        return import_graph(graph, samples, rows=rows, name=name, outputs=outputs)


def import_graph(
    graph: GraphModule,
    samples: Iterable[Sequence[torch.Tensor]],
    *,
    rows: Rows = "auto",
    name: str = "",
    outputs: Sequence[PortFormat] = (),
) -> Imported:
    """The TOSA graph of a functional ATen graph, or of a part of one; see `import_float`.

    As exported, or decomposed to core ATen. Nodes carry `val` in their meta data; parameters are
    attributes, other placeholders inputs; `samples` are the arguments of calls.
    """
    ranges = calibrate(graph, samples)
    return import_calibrated(graph, ranges, rows=rows, name=name, outputs=outputs)


def import_calibrated(
    graph: GraphModule,
    ranges: Ranges,
    *,
    rows: Rows = "auto",
    name: str = "",
    outputs: Sequence[PortFormat] = (),
) -> Imported:
    """`import_graph` with the ranges that `calibrate` found in that graph."""
    formats = Formats(Planner(graph, ranges.constants), ranges, rows)
    return Importer(graph, name, ranges, formats).run(RULES, limits, outputs)

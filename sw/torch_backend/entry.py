"""What torch calls: `systola` for a graph of Dynamo, found by the entry point of that name."""

import atexit
import functools
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch._dynamo.eval_frame import innermost_backend, innermost_fn
from torch.fx import GraphModule

from sw.runtime.session import OptionError
from sw.torch_backend.dynamo import may_come_from, trace_recurrent_layers, untraced
from sw.torch_backend.graph import CompiledGraph, first_line
from sw.torch_backend.options import parse_options
from sw.torch_backend.report import CompileReport, Ledger, make_report

_PAUSE = 1.0
"""Seconds between two writes of a report file; the last state is written at the end."""


@functools.cache
def ledger() -> Ledger:
    """Everything that was compiled in this process."""
    return Ledger()


def systola(
    module: GraphModule,
    examples: Sequence[Any],
    *,
    mode: str | None = None,
    options: Mapping[str, Any] | None = None,
) -> Callable[..., Any]:
    """The backend: a callable that runs what it can of `module` on the NPU, for inference.

    options: see `Options`. `OptionError` for one that does not exist. Nothing is compiled before
    the first call: quantizing needs real inputs.
    """
    graph = compiled_graph(module, examples, mode=mode, options=options)
    return torch._dynamo.disable(graph, reason="runs on the NPU")


def compiled_graph(
    module: GraphModule,
    examples: Sequence[Any],
    *,
    mode: str | None = None,
    options: Mapping[str, Any] | None = None,
) -> CompiledGraph:
    """`systola` for those who want to ask the graph itself: to prepare it, or for its report."""
    parsed = parse_options(options, mode)
    book = ledger()
    kept = book.families.of(module, first_line(module), options)
    graph = CompiledGraph(module, examples, parsed, options, book.count, kept)
    book.add(graph)
    if parsed.report is not None:
        graph.after = functools.partial(_write, parsed.report, _Clock.of(parsed.report))
    return graph


def compile_report(compiled: Any = None) -> CompileReport:
    """What became of a model (None: of all): see `CompileReport`.

    compiled: what `torch.compile(…, backend="systola")` returned. `OptionError` for anything else.
    """
    graphs = ledger().graphs()
    if compiled is None:
        return make_report(graphs, untraced(graphs))
    wrapper = _wrapper(compiled)
    given = wrapper.kwargs.get("options")
    graphs = [g for g in graphs if g.given is given or _equal(g.given, given)]
    owner = innermost_fn(getattr(compiled, "_orig_mod", compiled))
    if isinstance(owner, torch.nn.Module):
        tensors = [*owner.parameters(), *owner.buffers()]
        graphs = [g for g in graphs if g.belongs_to(tensors, may_come_from(g, owner))]
    return make_report(graphs, untraced(graphs, owner))


def _wrapper(compiled: Any) -> Any:
    """The object that stands for the backend and its options in what `torch.compile` returns."""
    called = getattr(compiled, "_compiled_call_impl", None) or compiled  # Module.compile()
    context = getattr(called, "dynamo_ctx", None)
    callback = _closure(called) if context is None else getattr(context, "callback", None)
    found = innermost_backend(callback) if callback is not None else None
    if getattr(found, "compiler_fn", None) is not systola:
        raise OptionError(
            f"{type(compiled).__name__} is nothing that torch.compile(…, backend='systola') "
            "returned; without an argument the report is about everything"
        )
    return found


def _closure(compiled: Any) -> Any:
    """The backend of a compiled function: torch keeps it in the wrapper's closure only."""
    compiled = getattr(compiled, "__func__", compiled)
    for cell in getattr(compiled, "__closure__", None) or ():
        callback = getattr(cell.cell_contents, "callback", None)
        if callback is not None:
            return callback
    return None


def _equal(a: Any, b: Any) -> bool:
    try:
        return bool((a or {}) == (b or {}))
    except (RuntimeError, ValueError):  # tensors of the option calibration
        return False


class _Clock:
    """When a report file was written last."""

    def __init__(self) -> None:
        self.last = float("-inf")

    @staticmethod
    @functools.cache
    def of(path: Path) -> "_Clock":
        clock = _Clock()
        atexit.register(_write, path, clock, last=True)
        return clock


def _write(path: Path, clock: _Clock, last: bool = False) -> None:
    if last or time.monotonic() - clock.last >= _PAUSE:
        graphs = [g for g in ledger().graphs() if g.options.report == path]
        if graphs:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(make_report(graphs, untraced(graphs)).to_json() + "\n")
        clock.last = time.monotonic()


# torch loads this file when a model is given to torch.compile by the backend's name. There is no
# later moment: Dynamo asks for nothing before it skips a function with a recurrent layer.
trace_recurrent_layers()

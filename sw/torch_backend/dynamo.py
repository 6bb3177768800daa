"""What Dynamo kept from the backend: frames that it skipped, and breaks between graphs.

Dynamo decides which functions it traces. What it does not trace runs in eager mode, and the backend
is never called for it; Dynamo's own records are the only trace of that.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from types import CodeType
from typing import Any, Protocol

import torch
from torch._dynamo import external_utils
from torch._dynamo.utils import get_compilation_metrics, graph_break_reasons

_TORCH = "/torch/"
"""Part of the paths of PyTorch's own files."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Untraced:
    """Code that ran in eager mode.

    kind: `skipped` for a whole function, `graph break` for what lies between two graphs.
    """

    kind: str
    where: str
    reason: str


def trace_recurrent_layers() -> None:
    """Let Dynamo trace `nn.LSTM`, `nn.GRU` and `nn.RNN`.

    Without this a function that uses one is skipped as a whole, and no backend hears of it.
    """
    torch._dynamo.config.allow_rnn = True


class Traced(Protocol):
    """A graph that did reach the backend: from which of Dynamo's frames, when, from which files."""

    frame: int | None
    born: float

    @property
    def place(self) -> str: ...

    @property
    def files(self) -> set[str]: ...


def untraced(graphs: Iterable[Traced], compiled: Any = None) -> list[Untraced]:
    """What Dynamo left to eager mode of a module or a function (None: of everything).

    Dynamo's records name a file and a line. They count where the file holds the code of `compiled`
    or of one of its `graphs`.
    """
    graphs = list(graphs)
    files = None
    if compiled is not None:
        files = {c.co_filename for c in _codes(compiled)}.union(*(g.files for g in graphs))
        # Dynamo calls modules of torch.nn from there.
        files = files or {external_utils.__file__}
    found = []
    for metrics in get_compilation_metrics():
        if metrics.fail_reason:
            path, place = metrics.fail_user_frame_filename or metrics.co_filename, _place(metrics)
            if not path:  # it has given up before it looked at the code
                place = next((g.place for g in graphs if _again(metrics, g)), "")
            if files is None or path in files or (not path and place):
                reason = _short(metrics.fail_reason)
                found.append(Untraced(kind="skipped", where=place, reason=reason))
    for record in graph_break_reasons:
        if record.user_stack and (files is None or record.user_stack[-1].filename in files):
            last = record.user_stack[-1]
            where = f"{last.filename}:{last.lineno}: {last.line or ''}".removesuffix(": ")
            found.append(Untraced(kind="graph break", where=where, reason=_short(record.reason)))
    return list(dict.fromkeys(found))


def may_come_from(graph: Traced, compiled: torch.nn.Module) -> bool:
    """Whether a graph has lines of the module's files, or neither of them has any (torch.nn)."""
    files = {code.co_filename for code in _codes(compiled)}
    return bool(files & graph.files) or not graph.files


def switched_off() -> str:
    """The setting that keeps Dynamo from compiling anything, '' if there is none."""
    from torch._dynamo.eval_frame import _stance

    if torch._dynamo.config.disable:
        return "torch._dynamo.config.disable (or TORCHDYNAMO_DISABLE) is set"
    stance = _stance.stance
    return "" if stance == "default" else f"torch.compiler.set_stance({stance!r}) is in force"


def _again(metrics: Any, graph: Traced) -> bool:
    """Whether a record is about another compilation of the frame that gave a graph."""
    frame = str(metrics.compile_id).partition("/")[0]
    later = metrics.start_time is not None and metrics.start_time >= graph.born
    return frame == str(graph.frame) and later


def _codes(compiled: Any) -> Iterable[CodeType]:
    """The code of a function, or of the forward() of every module in a module of the user's."""
    if isinstance(compiled, torch.nn.Module):
        functions: Iterable[Any] = [getattr(m, "forward", None) for m in compiled.modules()]
    else:
        functions = [compiled]
    for function in functions:
        code = getattr(getattr(function, "__func__", function), "__code__", None)
        if code is not None and _TORCH not in code.co_filename.replace("\\", "/"):
            yield code


def _place(metrics: Any) -> str:
    path = metrics.fail_user_frame_filename or metrics.co_filename
    if not path:
        return ""
    line = metrics.fail_user_frame_lineno or metrics.co_firstlineno
    return f"{path}:{line}: {metrics.co_name or ''}".removesuffix(": ")


def _short(reason: str) -> str:
    """Dynamo's headline, its explanation, and what the two are about."""
    if reason.startswith("generic_jump"):
        return "a branch that depends on the values of a tensor"
    lines = [line.strip() for line in reason.splitlines()]
    parts = [lines[0].rstrip(".")]
    for line in lines[1:]:
        label, _, text = line.partition(": ")
        if label == "Explanation" and text:
            parts.append(text)
        elif label == "Developer debug context" and text:
            parts.append(f"({text})")
    return ": ".join(parts[:2]) + "".join(f" {p}" for p in parts[2:])

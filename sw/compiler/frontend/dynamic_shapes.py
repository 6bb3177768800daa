"""Exported programs whose shapes are not fixed: which dimensions are symbols, for a clear refusal.

A program image has one shape. `torch.export` with `dynamic_shapes` leaves symbols in the graph; the
example's sizes must not take their place unsaid.
"""

from typing import Any

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind


def dynamic_dims(program: ExportedProgram) -> list[str]:
    """A sentence for each size of the inputs that is a symbol, in order; [] if all are fixed.

    For example "input 'x': dimension 0 is 's77' (2 to 64)". A size that is a number argument of
    the model ("input 'count': is a number of the caller, 'u0'") counts as well.
    """
    users = {
        spec.arg.name for spec in program.graph_signature.input_specs
        if spec.kind is InputKind.USER_INPUT
    }  # fmt: skip
    found: list[str] = []
    for node in program.graph.nodes:
        if node.op != "placeholder" or node.name not in users:
            continue
        value = node.meta.get("val")
        if isinstance(value, torch.Tensor):
            found += [
                f"input '{node.name}': dimension {axis} is '{size}'{_limits(program, size)}"
                for axis, size in enumerate(value.shape)
                if not isinstance(size, int)
            ]
        elif isinstance(value, torch.SymInt | torch.SymFloat | torch.SymBool):
            found.append(f"input '{node.name}': is a number of the caller, '{value}'")
    return found


def _limits(program: ExportedProgram, size: Any) -> str:
    """The range of a size, as far as torch knows one."""
    limits = program.range_constraints.get(size.node.expr)
    if limits is None:
        return ""
    upper = str(limits.upper)
    return f" ({limits.lower} to {upper})" if upper.isdecimal() else f" (from {limits.lower})"

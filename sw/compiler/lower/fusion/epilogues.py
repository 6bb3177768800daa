"""What may follow a layer's results and is computed by the layer itself, as a table.

A layer's epilogue is up to MAX_PASSES passes of the vector engine; each scales, clamps and looks up
(see `Epilogue`). FOLLOWERS says, for an operator that alone reads the results so far, under which
condition it joins the epilogue, and what the epilogue then is.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from spec.isa import DType, Table
from spec.numerics import RANGES
from sw.compiler.kernels.layers import Epilogue
from sw.compiler.kernels.views import DTYPE, UNSIGNED
from sw.compiler.lower.fusion.short_tables import shortened
from sw.compiler.tosa.graph import Graph, Op

MAX_PASSES = 3
"""Passes behind a product: each takes as many cycles as the results have vectors."""

_NARROW = (DType.I8, DType.I16)


def integer(graph: Graph, name: str) -> int:
    """The value of a one-element constant."""
    return int(graph.constant(name).reshape(-1)[0])


def zero_point(graph: Graph, name: str, unsigned: bool) -> int:
    """A zero-point operand; TOSA keeps those of unsigned values in signed types."""
    value = integer(graph, name)
    if unsigned and value < 0:
        value += {"int8": 256, "int16": 65536}.get(graph.tensors[name].dtype, 0)
    return value


def rescale_values(graph: Graph, op: Op) -> dict[str, Any]:
    """Epilogue fields of a RESCALE: multiplier, shift, zero point, range, type."""
    unsigned = op.attributes["output_unsigned"]
    kind = (UNSIGNED if unsigned else DTYPE)[graph.tensors[op.outputs[0]].dtype]
    low, high = RANGES[kind]
    return {
        "multiplier": graph.constant(op.inputs[1]).astype(np.int64),
        "shift": graph.constant(op.inputs[2]).astype(np.int64),
        "zero_point": zero_point(graph, op.inputs[4], unsigned),
        "low": low,
        "high": high,
        "dtype": kind,
    }


def plain(kind: DType, **values: Any) -> Epilogue:
    """The epilogue that changes no value of type `kind`, with further fields."""
    low, high = RANGES[kind]
    return Epilogue(dtype=kind, low=low, high=high, **values)


@dataclass(frozen=True, slots=True)
class Follower:
    """An operator that can join an epilogue if `fits`; `fold` gives the longer epilogue.

    product_only: only behind products, and only while passes are left.
    """

    kind: str
    fits: Callable[[Graph, Epilogue, Op], bool]
    fold: Callable[[Graph, Epilogue, Op], Epilogue]
    product_only: bool = False


def _is_unscaled(graph: Graph, epilogue: Epilogue, op: Op) -> bool:
    """Whether this pass has int32 results that nothing has happened to but a bias."""
    return epilogue.dtype is DType.I32 and epilogue.multiplier is None


def _scale(graph: Graph, epilogue: Epilogue, op: Op) -> Epilogue:
    return replace(epilogue, **rescale_values(graph, op))


def _can_clamp(graph: Graph, epilogue: Epilogue, op: Op) -> bool:
    # The pipeline clamps before it looks up.
    return epilogue.dtype in _NARROW and epilogue.table is None


def _clamp(graph: Graph, epilogue: Epilogue, op: Op) -> Epilogue:
    low, high = op.attributes["min_val"], op.attributes["max_val"]
    return replace(
        epilogue,
        low=min(max(epilogue.low, low), high),
        high=max(min(epilogue.high, high), low),
    )


def _has_no_table(epilogue: Epilogue) -> bool:
    # All passes share the one table that is loaded for the layer.
    return all(p.table is None for p in epilogue.passes)


def _can_look_up(graph: Graph, epilogue: Epilogue, op: Op) -> bool:
    return epilogue.dtype is DType.I8 and _has_no_table(epilogue)


def _look_up(graph: Graph, epilogue: Epilogue, op: Op) -> Epilogue:
    return replace(epilogue, table=graph.constant(op.inputs[1]))


def _can_interpolate(graph: Graph, epilogue: Epilogue, op: Op) -> bool:
    return epilogue.dtype is DType.I16 and _has_no_table(epilogue)


def _interpolate(graph: Graph, epilogue: Epilogue, op: Op) -> Epilogue:
    return replace(epilogue, dtype=DType.I32, table=graph.constant(op.inputs[1]))


def _can_shorten(graph: Graph, epilogue: Epilogue, op: Op) -> bool:
    """Whether a TABLE with other entries has what the RESCALE behind it makes."""
    if epilogue.lookup is not Table.I16 or epilogue.dtype is not DType.I32:
        return False
    return shortened(graph, np.asarray(epilogue.table), op) is not None


def _shorten(graph: Graph, epilogue: Epilogue, op: Op) -> Epilogue:
    table = shortened(graph, np.asarray(epilogue.table), op)
    return replace(epilogue, dtype=DType.I8, table=table, short=True)


def _can_go_on(graph: Graph, epilogue: Epilogue, op: Op) -> bool:
    """Whether what is in the accumulator, which is signed, can be rescaled by another pass."""
    unsigned = op.attributes["input_unsigned"] or op.attributes["output_unsigned"]
    return epilogue.dtype not in (DType.U8, DType.U16) and not unsigned


def _another_pass(graph: Graph, epilogue: Epilogue, op: Op) -> Epilogue:
    return Epilogue(
        **rescale_values(graph, op),
        input_zp=zero_point(graph, op.inputs[3], unsigned=False),
        first=replace(epilogue, dtype=DType.I32),
    )


FOLLOWERS: tuple[Follower, ...] = (
    Follower("RESCALE", _is_unscaled, _scale),
    Follower("CLAMP", _can_clamp, _clamp),
    Follower("TABLE", _can_look_up, _look_up),
    Follower("TABLE", _can_interpolate, _interpolate, product_only=True),
    Follower("RESCALE", _can_shorten, _shorten),
    Follower("RESCALE", _can_go_on, _another_pass, product_only=True),
)
"""The first that fits is taken."""

FOLLOWING = tuple(dict.fromkeys(f.kind for f in FOLLOWERS))
"""The operators of the table."""


def follower(graph: Graph, epilogue: Epilogue, op: Op, *, several: bool) -> Follower | None:
    """The row by which `op` joins `epilogue`; `several`: more passes may follow."""
    more = several and len(epilogue.passes) < MAX_PASSES
    rows = (f for f in FOLLOWERS if f.kind == op.kind and (more or not f.product_only))
    return next((f for f in rows if f.fits(graph, epilogue, op)), None)

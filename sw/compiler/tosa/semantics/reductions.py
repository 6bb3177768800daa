"""Reductions along one axis, and ARGMAX (the first of equal maxima)."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from spec.numerics import wrap32
from sw.compiler.tosa.graph import Op
from sw.compiler.tosa.semantics.arrays import Array, Evaluate, wide


def _along(function: Callable[..., Any]) -> Evaluate:
    def run(op: Op, args: list[Array], _: str) -> Array:
        return np.asarray(function(args[0], axis=op.attributes["axis"], keepdims=True))

    return run


def _sum(op: Op, args: list[Array], _: str) -> Array:
    return wrap32(wide(args[0]).sum(axis=op.attributes["axis"], keepdims=True))


def _argmax(op: Op, args: list[Array], _: str) -> Array:
    return np.asarray(args[0].argmax(axis=op.attributes["axis"]))


REDUCTIONS: Mapping[str, Evaluate] = {
    "REDUCE_SUM": _sum,
    "REDUCE_MAX": _along(np.max),
    "REDUCE_MIN": _along(np.min),
    "REDUCE_ALL": _along(np.all),
    "REDUCE_ANY": _along(np.any),
    "ARGMAX": _argmax,
}

"""Reductions along one axis, and ARGMAX (the first of equal maxima)."""

from collections.abc import Callable
from typing import Any

import numpy as np

from spec.numerics import wrap32
from sw.compiler.tosa.nodes import Op
from sw.compiler.tosa.semantics.arrays import Array, Evaluate, wide


def along(function: Callable[..., Any]) -> Evaluate:
    def run(op: Op, args: list[Array], _: str) -> Array:
        return np.asarray(function(args[0], axis=op.attributes["axis"], keepdims=True))

    return run


def sum_(op: Op, args: list[Array], _: str) -> Array:
    return wrap32(wide(args[0]).sum(axis=op.attributes["axis"], keepdims=True))


def argmax(op: Op, args: list[Array], _: str) -> Array:
    return np.asarray(args[0].argmax(axis=op.attributes["axis"]))

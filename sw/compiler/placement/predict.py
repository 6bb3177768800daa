"""Predicted cycles of some layers of a program, by which placement compares what it could do."""

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

from sw.compiler.errors import CompileError
from sw.compiler.kernels.base import Layer, LayerProgram

Predict = Callable[[LayerProgram], int]
"""Predicted cycles of a program of its own."""


def predicted(
    predict: Predict,
    program: LayerProgram,
    layers: Sequence[Layer],
    in_turn: Collection[int] = (),
) -> float:
    """The cycles of `layers` of `program`, of which those of numbers `in_turn` take turns; infinite
    if they do not fit.
    """
    some = replace(program, layers=tuple(layers), in_turn=frozenset(in_turn))
    try:
        return predict(some)
    except CompileError:
        return math.inf

"""Predicted cycles of some layers of a program, by which placement compares what it could do."""

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace

from sw.compiler.errors import CompileError
from sw.compiler.kernels.base import Layer, LayerProgram

Predict = Callable[[LayerProgram], int]
"""Predicted cycles of a program of its own; raises `TooLong`."""

LONGEST = 8_000
"""Instructions of the longest program that is compared with others."""

ALL = 100_000
"""Instructions of all programs that are compared for one network."""


class TooLong(Exception):
    """A program that would take too long to predict. The compiler can do without the comparison."""


@dataclass(slots=True)
class Effort:
    """What is left of the instructions that one network's programs to compare may have.

    Large pictures with many channels have programs of tens of thousands of instructions for three
    layers; without a limit compilation takes minutes.
    """

    left: int = ALL

    def take(self, instructions: int) -> None:
        """`TooLong` if that is too much."""
        if instructions > min(LONGEST, self.left):
            raise TooLong
        self.left -= instructions


def predicted(
    predict: Predict,
    program: LayerProgram,
    layers: Sequence[Layer],
    in_turn: Collection[int] = (),
) -> float:
    """The cycles of `layers` of `program`, of which those of numbers `in_turn` take turns; infinite
    if they do not fit. Raises `TooLong`.
    """
    some = replace(program, layers=tuple(layers), in_turn=frozenset(in_turn))
    try:
        return predict(some)
    except CompileError:
        return math.inf

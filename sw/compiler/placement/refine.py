"""Small programs: plans that the cost model cannot tell apart are compared by the timeline.

A cost model of a layer does not see how much of the program has come when its loads begin, nor
what its last tile leaves over. In a program of thousands of instructions neither matters.
"""

from collections.abc import Callable, Sequence

from sw.compiler.errors import CompileError
from sw.compiler.kernels.base import Layer, LayerProgram, Plan
from sw.compiler.kernels.budget import MemoryBudget
from sw.compiler.placement.predict import TooLong
from sw.compiler.placement.residency import Residency

Near = Callable[[Layer, MemoryBudget], Sequence[Plan]]
"""Other plans of a layer in a budget."""

REFINED = 1_000
"""Instructions of all programs that are compared for one network."""


def refine(
    program: LayerProgram,
    plans: Sequence[Plan],
    residency: Residency,
    near: Near,
    predict: Callable[[Sequence[Plan]], int],
) -> list[Plan]:
    """`plans`, layer by layer replaced by what makes the whole program faster.

    `predict`: cycles of the program with these plans; raises `TooLong`.
    """
    best = list(plans)
    try:
        cycles = predict(best)
        for i, (layer, budget) in enumerate(zip(program.layers, residency.budgets, strict=True)):
            for other in near(layer, budget):
                if other == best[i]:
                    continue
                trial = [*best[:i], other, *best[i + 1 :]]
                faster = _cycles(predict, trial, cycles)
                if faster < cycles:
                    best, cycles = trial, faster
    except TooLong:
        pass
    return best


def _cycles(predict: Callable[[Sequence[Plan]], int], plans: Sequence[Plan], otherwise: int) -> int:
    """Predicted cycles; `otherwise` for what does not fit together."""
    try:
        return predict(plans)
    except CompileError:
        return otherwise

"""Tensors on chip lie apart from what the layer before them still reads.

A tensor that was read for the last time leaves its place to the next one. Where the next layer
begins with the first results of the layer before it, its own first results then wait for that
layer's last reads. A place of its own costs scratchpad, and is taken only where no plan changes
and the buffers of neighbours still fit side by side, so that each layer's loads run ahead.
"""

from dataclasses import replace
from itertools import pairwise

from spec.config import NpuConfig
from sw.compiler.errors import CompileError
from sw.compiler.kernels.base import LayerProgram
from sw.compiler.kernels.budget import MemoryBudget
from sw.compiler.placement.follow import Plans
from sw.compiler.placement.residency import LEAST, Residency, lives, overlaps, place


def keep_apart(
    program: LayerProgram, residency: Residency, config: NpuConfig, plan: Plans
) -> Residency:
    """The same tensors on chip, some at other addresses."""
    address, budgets = dict(residency.address), list(residency.budgets)
    held = [life for life in lives(program, config) if life.root in address]
    for life in held:
        near = [x for x in held if x is not life and (x.meets(life) or life.born == x.dies + 1)]
        places = [(x, address[x.root]) for x in near]
        if not overlaps(life, address[life.root], places):
            continue
        apart = place(life, places, config)
        if apart < config.spad_bytes // LEAST:
            continue
        span = slice(life.born, life.dies + 1)
        new = [replace(b, spad_bytes=min(b.spad_bytes, apart)) for b in budgets[span]]
        changed = {life.born + i: b for i, b in enumerate(new) if b != budgets[life.born + i]}
        if _fits(program, budgets, changed, plan):
            address[life.root], budgets[span] = apart, new
    return Residency(address=address, budgets=tuple(budgets))


def _fits(
    program: LayerProgram,
    budgets: list[MemoryBudget],
    changed: dict[int, MemoryBudget],
    plan: Plans,
) -> bool:
    """Whether layers keep their plans in budgets that are `changed`, by number, and each still has
    room beside its neighbours.
    """
    for i, budget in changed.items():
        layers = range(max(0, i - 1), min(i + 2, len(budgets)))
        used = [plan(program.layers[k], budgets[k]).spad_bytes for k in layers]
        if any(a + b > budget.spad_bytes for a, b in pairwise(used)):
            return False
        try:
            after = plan(program.layers[i], budget)
        except CompileError:
            return False
        if after != plan(program.layers[i], budgets[i]):
            return False
    return True

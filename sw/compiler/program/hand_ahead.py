"""The order in which fetch hands out instructions: some a little ahead of their start, LOADs late.

Fetch hands out one instruction after the other, and waits where a queue is full. A vector engine
that is slower than the model, because a product beside it uses its banks, then keeps fetch from the
product's next instruction, and the array has nothing to do. So instructions of such layers have
their place where their engine begins with the one before, and wait in its queue.

A LOAD that nobody needs yet keeps fetch from what is needed now: its queue fills, and its words
come before those of the program. So LOADs have their place shortly before their data are needed.
"""

import math
from collections.abc import Collection, Sequence

from spec.isa import Engine
from sw.compiler.machine.costs import MEMORY_LATENCY

AHEAD = 4 * MEMORY_LATENCY
"""Cycles before its data are needed that a LOAD is handed out."""


def late_loads(
    order: Sequence[int],
    engines: Sequence[Engine],
    starts: Sequence[float],
    busy: Sequence[float],
    before: Sequence[Collection[int]],
) -> list[float]:
    """`starts`, with LOADs as late as whoever waits for them allows. LOADs keep their order.

    busy: cycles that each instruction takes. before: what each must stay behind.
    """
    needed = [math.inf] * len(order)
    for i, wanted in enumerate(before):
        if engines[i] is not Engine.LOAD:
            for j in wanted:
                needed[j] = min(needed[j], starts[i])
    late, latest = list(starts), math.inf
    for i in reversed(order):
        if engines[i] is Engine.LOAD:
            latest = min(latest, needed[i]) - busy[i]
            if latest < math.inf:
                late[i] = max(starts[i], latest - AHEAD)
    return late


def hand_ahead(
    order: Sequence[int],
    engines: Sequence[Engine],
    starts: Sequence[float],
    before: Sequence[Collection[int]],
    ahead: Sequence[bool],
) -> list[int]:
    """`order`, the numbers of instructions by their start, with those of `ahead` where their engine
    begins with the one before. `before`: what each must stay behind.
    """
    keys = [0.0] * len(order)
    last: dict[Engine, float] = {}
    for i in order:
        engine = engines[i]
        soonest = last.get(engine, 0.0) if ahead[i] else starts[i]
        keys[i] = max([soonest, *(keys[j] for j in before[i])])
        last[engine] = starts[i]
    # Sorting is stable: of equal keys the one that starts first stays first.
    return sorted(order, key=keys.__getitem__)

"""The order in which fetch hands out instructions: some a little ahead of their start.

Fetch hands out one instruction after the other, and waits where a queue is full. A vector engine
that is slower than the model, because a product beside it uses its banks, then keeps fetch from the
product's next instruction, and the array has nothing to do. So instructions of such layers have
their place where their engine begins with the one before, and wait in its queue.
"""

from collections.abc import Collection, Sequence

from spec.isa import Engine


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

"""The order of work where an engine fills banks of the accumulator and VECTOR empties them."""

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from spec.config import NpuConfig

Box = TypeVar("Box")
Unit = TypeVar("Unit")


def bank_starts(config: NpuConfig, shared: bool) -> Sequence[int]:
    """First vectors of the banks that units take turns in.

    shared: a product works beside, which has every other bank, from the first on.
    """
    starts = range(config.acc_bank if shared else 0, config.acc_vectors, config.acc_bank)
    return starts[:: 2 if shared else 1]


def in_turns(
    todo: Sequence[Box],
    ahead: int,
    units: Callable[[Box], Iterable[Unit]],
    load: Callable[[Box], None],
    compute: Callable[[Unit], None],
    finish: Callable[[Unit], None],
) -> None:
    """Compute and finish all units of the boxes `todo`, whose loads run ahead by `ahead` boxes."""
    for box in todo[:ahead]:
        load(box)
    pending: list[Unit] = []
    for i, box in enumerate(todo):
        for unit in units(box):
            compute(unit)
            # One unit behind: the next computation is queued before this one's epilogue.
            for before in pending:
                finish(before)
            pending = [unit]
        # Into the slot that this box has used: as many boxes are ahead as there are slots.
        if i + ahead < len(todo):
            load(todo[i + ahead])
    for unit in pending:
        finish(unit)

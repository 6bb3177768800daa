"""The plan of a MoveLayer.

A tile is a range of the output's outermost dimension that does not fit as a whole, inside single
indices of the dimensions before it.
"""

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass

from spec.config import NpuConfig
from sw.compiler.errors import CompileError
from sw.compiler.kernels.budget import MemoryBudget
from sw.compiler.kernels.move.cost import move_cycles
from sw.compiler.kernels.move.layer import MoveLayer

PIECES = 6
"""Tiles of a tensor that fits as a whole: what others do with one of them overlaps the next."""

Ranges = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class MovePlan:
    """`axis` is cut in steps of `step`, the axes before it in ones; `slots` buffers of `nbytes`.

    `from_chip`, `to_chip`: the source, or the result, lies on chip, and there are no buffers.
    """

    axis: int
    step: int
    slots: int
    nbytes: int
    from_chip: bool = False
    to_chip: bool = False
    cycles: int = 0
    traffic: int = 0

    @property
    def spad_bytes(self) -> int:
        return self.slots * self.nbytes

    def __str__(self) -> str:
        chip = " from chip" * self.from_chip + " stays" * self.to_chip
        return f"axis {self.axis} in steps of {self.step}{chip}; {self.slots} x {self.nbytes}"


def plan_move(layer: MoveLayer, config: NpuConfig, budget: MemoryBudget) -> MovePlan:
    """The largest tiles that fit twice, in about four pieces if the tensor is large."""
    word = config.word_bytes
    limit = budget.buffer_bytes // 2
    _, shape, _ = layer.target
    size = math.prod(shape) * layer.output.item
    from_chip, to_chip = (x in budget.held for x in (layer.tensor, layer.output.tensor))
    cycles = move_cycles(size, config, from_chip or to_chip)
    if from_chip or to_chip:
        if from_chip and to_chip:
            raise CompileError(
                "a copy from chip to chip goes through memory", node=layer.name, source=layer.source
            )
        return MovePlan(
            axis=0,
            step=-(-shape[0] // PIECES),
            slots=0,
            nbytes=0,
            from_chip=from_chip,
            to_chip=to_chip,
            cycles=cycles,
            traffic=size,
        )
    # From the outermost dimension on: the first that fits leaves the longest runs.
    for axis, length in enumerate(shape):
        inner = layer.output.item
        for s in shape[axis + 1 :]:
            inner *= s
        if inner <= limit - word:
            step = min(length, (limit - word) // inner)
            # All of it fits; in pieces the store of one overlaps the load of the next. For a few
            # bytes the latency of every piece would cost more than that gains.
            if step == length and axis == 0 and inner * length > 4096:
                step = max(1, -(-length // PIECES))
            nbytes = -(-step * inner // word) * word
            return MovePlan(
                axis=axis, step=step, slots=2, nbytes=nbytes, cycles=cycles, traffic=2 * size
            )
    raise CompileError("no tile fits in the scratchpad", node=layer.name, source=layer.source)


def move_tiles(layer: MoveLayer, plan: MovePlan) -> Iterator[Ranges]:
    """Ranges (start, stop) of each dimension of the result."""
    _, shape, _ = layer.target
    axes = [range(size) for size in shape[: plan.axis]]
    for fixed in itertools.product(*axes):
        for at in range(0, shape[plan.axis], plan.step):
            cut = (at, min(at + plan.step, shape[plan.axis]))
            rest = [(0, size) for size in shape[plan.axis + 1 :]]
            yield (*((i, i + 1) for i in fixed), cut, *rest)

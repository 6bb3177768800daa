"""Rows streamed between layers: through tensors too large to stay on chip, read as rows appear.

The reader of such a tensor need not wait for its last row. Where writer and reader work on
different engines, both get a part of the scratchpad, so that their buffers lie side by side; the
reader takes its rows in the writer's order, and list scheduling lets it follow a few rows behind.
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from spec.isa import Engine
from sw.compiler.kernels.base import Layer, LayerProgram
from sw.compiler.kernels.budget import Overlap
from sw.compiler.placement.residency import Cost, Residency

STREAMS = {
    (Engine.MATRIX, Engine.DEPTHWISE),
    (Engine.DEPTHWISE, Engine.MATRIX),
    (Engine.MATRIX, Engine.VECTOR),
}
"""Engines of a writer and a reader that work at the same time."""

LOSS, HIDDEN = 0.05, 0.2
"""How much slower a layer may become by itself in its part of the scratchpad, in parts of its
cycles; or both together, in parts of the faster one's, most of which the other one hides."""


def stream_rows(program: LayerProgram, residency: Residency, cost: Cost) -> Residency:
    """With the budgets of layers that follow one another closely changed."""
    budgets = list(residency.budgets)
    for i, (writer, reader) in enumerate(pairwise(program.layers)):
        # What stays on chip is followed channel by channel anyway.
        if writer.output.tensor in residency.address or not _can_follow(writer, reader):
            continue
        new = (
            replace(budgets[i], overlap=Overlap.ROWS),
            replace(budgets[i + 1], overlap=Overlap.ROWS, row_order=True),
        )
        before, after = (
            [cost(layer, budget) for layer, budget in zip((writer, reader), both, strict=True)]
            for both in (budgets[i : i + 2], new)
        )
        if _pays(before, after):
            budgets[i : i + 2] = new
    return replace(residency, budgets=tuple(budgets))


def _can_follow(writer: Layer, reader: Layer) -> bool:
    """Whether the layers use different engines, and the reader needs nothing but the next rows."""
    # A tensor of one row is complete when its first row is: there is nothing to follow.
    same = writer.output == reader.inputs[0] and writer.output.shape[1] > 1
    return same and reader.follows_rows and (writer.engine, reader.engine) in STREAMS


def _pays(before: Sequence[int | None], after: Sequence[int | None]) -> bool:
    """Whether two layers of so many cycles are worth it to follow one another."""
    pairs = [(b, a) for b, a in zip(before, after, strict=True) if b is not None and a is not None]
    if len(pairs) < 2:
        return False
    lost = sum(max(0, a - b) for b, a in pairs)
    return all(a - b <= LOSS * b for b, a in pairs) or lost <= HIDDEN * min(b for b, _ in pairs)

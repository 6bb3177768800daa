"""Tensors that flow through memory: too large to stay on chip, but read as soon as rows are there.

The reader of such a tensor need not wait for its last row. Where writer and reader work on
different engines, both get a part of the scratchpad, so that their buffers lie side by side; the
reader takes its rows in the writer's order, and `interleave` lets it follow a few rows behind.
"""

from dataclasses import replace
from itertools import pairwise

from sw.compiler.kernels.layers import ConvLayer, DepthwiseLayer, Layer, LayerProgram, PoolLayer
from sw.compiler.placement.residency import Cost, Residency

PARTS = 3
"""A writer, a reader that writes, and its reader."""

LOSS = 1.05
"""How much slower a layer may become by itself in its part of the scratchpad."""


def let_flow(program: LayerProgram, residency: Residency, cost: Cost) -> None:
    """Change the rooms of layers that follow one another closely."""
    rooms = residency.rooms
    for i, (writer, reader) in enumerate(pairwise(program.layers)):
        if writer.output.tensor in residency.address or not _can_follow(writer, reader):
            continue
        new = (
            replace(rooms[i], parts=PARTS),
            replace(rooms[i + 1], parts=PARTS, rowwise=True),
        )
        pairs = zip((writer, reader), rooms[i : i + 2], new, strict=True)
        if all(_close(cost(layer, old), cost(layer, room)) for layer, old, room in pairs):
            rooms[i : i + 2] = new


def _can_follow(writer: Layer, reader: Layer) -> bool:
    """Whether the layers use different engines, and the reader needs nothing but the next rows."""
    engines = {
        (ConvLayer, DepthwiseLayer),
        (DepthwiseLayer, ConvLayer),
        (ConvLayer, PoolLayer),
    }
    same = writer.output == reader.inputs[0]
    return same and writer.output.shape[1] > 1 and (type(writer), type(reader)) in engines


def _close(before: int | None, after: int | None) -> bool:
    return before is not None and after is not None and after <= LOSS * before

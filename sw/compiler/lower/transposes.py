"""Copies that the array does faster than DMA become TransposeLayers."""

import math

from spec.config import NpuConfig
from sw.compiler.errors import CompileError
from sw.compiler.kernels.base import Layer
from sw.compiler.kernels.budget import MemoryBudget
from sw.compiler.kernels.dma import copies
from sw.compiler.kernels.move.layer import MoveLayer
from sw.compiler.kernels.transpose.cost import copy_cycles
from sw.compiler.kernels.transpose.layer import Axis, TransposeLayer
from sw.compiler.kernels.transpose.plan import plan_transpose

LEAST_BYTES = 256
"""Copies of fewer bytes are left as they are."""

SHARE = 2
"""Part of the scratchpad (1/SHARE) in which a TransposeLayer is planned to decide: others may be
on chip."""


def by_array(layer: Layer, config: NpuConfig) -> Layer:
    """`layer`, or what does the same in fewer cycles."""
    if not isinstance(layer, MoveLayer) or not config.transposed_weights:
        return layer
    found = _transposed(layer)
    if found is None:
        return layer
    before = _copied(found, config)
    size = math.prod(axis.size for axis in found.axes) * found.item
    # Whole bus words already.
    if before <= 1.5 * size / config.bus_bytes:
        return layer
    try:
        plan = plan_transpose(found, config, MemoryBudget(config.spad_bytes // SHARE))
    except CompileError:
        return layer
    return found if plan.cycles < before else layer


def _transposed(layer: MoveLayer) -> TransposeLayer | None:
    """The same copy; None if it fills anything, repeats, goes backwards, or is too small."""
    target_offset, shape, strides = layer.target
    if any(layer.before) or tuple(shape) != tuple(layer.source_shape):
        return None
    rows = [
        Axis(size=n, source=s, target=t)
        for n, s, t in zip(shape, layer.source_strides, strides, strict=True)
        if n > 1
    ]
    if any(axis.source <= 0 or axis.target <= 0 for axis in rows):
        return None
    axes = _merged(rows)
    if len(axes) < 2 or math.prod(a.size for a in axes) * layer.output.item < LEAST_BYTES:
        return None
    return TransposeLayer(
        name=layer.name,
        output=layer.output,
        ops=layer.ops,
        source=layer.source,
        input=layer.inputs[0],
        axes=tuple(axes),
        offset=layer.offset,
        target_offset=target_offset,
    )


def _merged(axes: list[Axis]) -> list[Axis]:
    """In the target's order, axes joined that follow one another on both sides."""
    out: list[Axis] = []
    for axis in sorted(axes, key=lambda a: -a.target):
        if out and (out[-1].source, out[-1].target) == (
            axis.size * axis.source,
            axis.size * axis.target,
        ):
            size = out[-1].size * axis.size
            out[-1] = Axis(size=size, source=axis.source, target=axis.target)
        else:
            out.append(axis)
    return out


def _copied(layer: TransposeLayer, config: NpuConfig) -> float:
    """Cycles of LOAD if it gathers the elements in the target's order."""
    chip = layer.item
    box = []
    for axis in reversed(layer.axes):
        box.append((axis.size, axis.source, chip))
        chip *= axis.size
    return copy_cycles(copies(box[::-1], layer.item), config)

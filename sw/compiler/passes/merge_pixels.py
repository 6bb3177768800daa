"""Compute neighbouring output pixels of a convolution as channels of one, where that is faster.

A convolution to few channels leaves most columns of the array idle. Several pixels of a row side by
side fill them: the window then spans the windows of all of them, with weights of 0 where a pixel's
own window does not reach, and moves on by as many pixels. Its result has the same elements in the
same order as before, so a RESHAPE gives it its shape. Windows that overlap pay: 3 columns for one
pixel are 6 for four. In an image of one column, pixels of a column are taken instead.
"""

import math
from dataclasses import replace

import numpy as np

from spec.config import NpuConfig
from sw.compiler.passes.merge_groups import reduction_folds
from sw.compiler.tosa.bound import weight_bytes
from sw.compiler.tosa.graph import Graph, Op, Work
from sw.compiler.tosa.macs import op_macs

ROWS, COLUMNS = 1, 2
"""Axes of an image."""

WORTH = 0.8
"""Share of the cycles from which on pixels are merged: wide windows have more padding to load."""


def merge_pixels(graph: Graph, config: NpuConfig) -> None:
    """As many pixels as take the fewest cycles of the array become one, in every CONV2D."""
    for conv in list(graph.ops):
        if conv.kind == "CONV2D" and all(graph.tensors[t].is_constant for t in conv.inputs[1:]):
            _, oh, ow, _ = graph.tensors[conv.outputs[0]].shape
            axis = ROWS if ow == 1 < oh else COLUMNS
            count = _best(graph, conv, axis, config)
            if count > 1:
                _merge(graph, conv, axis, count)


def _best(graph: Graph, conv: Op, axis: int, config: NpuConfig) -> int:
    """How many pixels to compute as one: those of the fewest cycles, then the fewest pixels."""
    oc, kh, kw, c = graph.tensors[conv.inputs[1]].shape
    shape = graph.tensors[conv.outputs[0]].shape
    stride, dilation = (conv.attributes[name][axis - 1] for name in ("stride", "dilation"))

    def cycles(count: int) -> int:
        more = (count - 1) * stride // dilation
        height, width = (kh + more, kw) if axis == ROWS else (kh, kw + more)
        folds = -(-count * oc // config.cols) * reduction_folds(height, width, c, config.rows)
        # A fold takes as long as the next one's weights are loaded under it.
        return folds * max(math.prod(shape[:3]) // count, config.rows)

    # Windows of all pixels are one dilated window only if their distance is a multiple of it.
    most = shape[axis] if stride % dilation == 0 and oc < config.cols else 1
    counts = [n for n in range(1, most + 1) if shape[axis] % n == 0 and n * oc <= config.cols]
    best = min(counts, key=cycles, default=1)
    return best if cycles(best) <= WORTH * cycles(1) else 1


def _merge(graph: Graph, conv: Op, axis: int, count: int) -> None:
    """`count` pixels along `axis` become one, in `conv` and in a RESCALE that alone reads it."""
    work = Work(macs=op_macs(graph, conv), weight_bytes=weight_bytes(graph, conv))
    _widen(graph, conv, axis, count)
    conv.work = work
    rescale = _rescale(graph, conv)
    last = rescale or conv
    result = graph.tensors[last.outputs[0]]
    _rename(graph, conv, axis, count)
    if rescale is not None:
        rescale.inputs[0] = conv.outputs[0]
        if graph.tensors[rescale.inputs[1]].size == 1:  # the scale of a single channel is of all
            rescale.attributes["per_channel"] = False
        elif rescale.attributes["per_channel"]:
            rescale.inputs[1:3] = [_repeated(graph, name, count) for name in rescale.inputs[1:3]]
        _rename(graph, rescale, axis, count)
    (made,) = last.outputs
    # Readers and outputs of the graph find the pixels under the name that they had.
    reshape = Op(
        kind="RESHAPE",
        name=f"{last.name}_pixels",
        inputs=[made, graph.add_constant(f"{made}_shape", result.shape, "shape")],
        outputs=[result.name],
        source=last.source,
    )
    graph.ops.insert(graph.ops.index(last) + 1, reshape)


def _rescale(graph: Graph, conv: Op) -> Op | None:
    """The RESCALE by constants that alone reads the result of `conv`."""
    readers = [op for op in graph.ops if conv.outputs[0] in op.inputs]
    if len(readers) != 1 or conv.outputs[0] in graph.outputs or readers[0].kind != "RESCALE":
        return None
    constant = all(graph.tensors[name].is_constant for name in readers[0].inputs[1:])
    return readers[0] if constant else None


def _widen(graph: Graph, conv: Op, axis: int, count: int) -> None:
    """Weights, bias and stride of `conv` for `count` pixels."""
    weights, zero = graph.constant(conv.inputs[1]), graph.constant(conv.inputs[4]).item()
    step = conv.attributes["stride"][axis - 1] // conv.attributes["dilation"][axis - 1]
    oc, taps = weights.shape[0], weights.shape[axis]
    shape = list(weights.shape)
    shape[0], shape[axis] = count * oc, taps + (count - 1) * step
    # What equals the weights' zero point counts as 0.
    wide = np.full(shape, zero, weights.dtype)
    for i in range(count):
        reach = slice(i * step, i * step + taps)
        at = (slice(None), reach) if axis == ROWS else (slice(None), slice(None), reach)
        wide[i * oc : (i + 1) * oc][at] = weights
    kind = graph.tensors[conv.inputs[1]].dtype
    conv.inputs[1] = graph.add_constant(f"{conv.inputs[1]}_pixels", wide, kind)
    conv.inputs[2] = _repeated(graph, conv.inputs[2], count)
    stride = list(conv.attributes["stride"])
    stride[axis - 1] *= count
    conv.attributes["stride"] = tuple(stride)


def _repeated(graph: Graph, name: str, count: int) -> str:
    """The constant by channel, once for each pixel; one of a single element is for all channels."""
    values, kind = graph.constant(name), graph.tensors[name].dtype
    if values.size == 1:
        return name
    return graph.add_constant(f"{name}_pixels", np.tile(values.reshape(-1), count), kind)


def _rename(graph: Graph, op: Op, axis: int, count: int) -> None:
    """Give the result of `op` another name, and the shape that has pixels as channels."""
    old = graph.tensors[op.outputs[0]]
    shape = list(old.shape)
    shape[axis] //= count
    shape[3] *= count
    new = replace(old, name=graph.fresh_name(f"{old.name}_merged"), shape=tuple(shape))
    op.outputs[0] = graph.add_tensor(new)

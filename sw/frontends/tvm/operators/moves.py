"""Shapes, parts, concatenations, constants, indices."""

from collections.abc import Callable
from typing import Any

import torch

from sw.frontends.onnx.errors import refused
from sw.frontends.tvm.call import HINT, Call

Row = Callable[[Call], Any]


def _permute(c: Call) -> Any:
    rank = len(c.shape())
    return c.add("Transpose", c.x(), perm=c.axes("axes") or list(range(rank))[::-1])


def _expand_dims(c: Call) -> Any:
    value = c.get("axis")
    return c.add("Unsqueeze", c.x(), c.axes("axis", len(c.shape()) + len(value)))


def _squeeze(c: Call) -> Any:
    axes = c.axes()
    if axes is None:
        axes = [i for i, size in enumerate(c.shape()) if size == 1]
    return c.add("Squeeze", c.x(), axes)


def _concat(c: Call) -> Any:
    return c.add("Concat", *c.all(), axis=c.get("axis", 0))


def _stack(c: Call) -> Any:
    parts = c.all()
    axis = int(c.get("axis", 0)) % (len(c.graph.shape(parts[0])) + 1)
    return c.add("Concat", *(c.add("Unsqueeze", part, [axis]) for part in parts), axis=axis)


def _split(c: Call) -> Any:
    """In equal parts, or behind each of some positions."""
    (axis,) = c.axes() or [0]
    size, where = c.shape()[axis], c.get("indices_or_sections")
    if isinstance(where, int):
        step = -(-size // where)
        ends = [min(step * (i + 1), size) for i in range(where)]
    else:
        ends = [*map(int, where), size]
    sizes = [end - start for start, end in zip([0, *ends], ends, strict=False)]
    if len(sizes) == 1:
        return (c.x(),)
    return c.add("Split", c.x(), sizes, results=len(sizes), axis=axis)


def _slice(c: Call) -> Any:
    steps = c.ints(4) if c.count() > 4 else None
    return c.add("Slice", c.x(), c.ints(2), c.ints(3), c.ints(1), steps)


def _take(c: Call) -> Any:
    c.only("mode", "fast", "clip", "wrap", "nan")
    at, x = c.record.operands[1], c.x()
    index = int(at) if isinstance(at, int) else c.x(1)
    return c.add("Gather", x, index, axis=(c.axes() or [0])[0])


def _pad(c: Call) -> Any:
    """pad_width: before and behind, dimension by dimension."""
    mode = c.only("pad_mode", "constant", "reflect", "replicate", "edge")
    width = [int(v) for v in c.get("pad_width")]
    sides = width[::2] + width[1::2]
    mode = "edge" if mode == "replicate" else mode
    value = c.graph.value(c.x()).new_tensor(c.get("pad_value", 0.0))
    return c.add("Pad", c.x(), sides, value if mode == "constant" else None, mode=mode)


def _pixel_shuffle(c: Call) -> Any:
    return c.add("DepthToSpace", c.x(), blocksize=int(c.get("upscale_factor")), mode="CRD")


def _tile(c: Call) -> Any:
    repeats = [int(r) for r in c.get("repeats")]
    rank = len(c.shape())
    x = c.x()
    if len(repeats) > rank:
        x = c.add("Reshape", x, [*[1] * (len(repeats) - rank), *c.shape()])
    return c.add("Tile", x, [*[1] * (rank - len(repeats)), *repeats])


def _filled(number: float | None) -> Row:
    """A constant of a shape; None: of the number that is operand 1."""

    def row(c: Call) -> Any:
        value = c.number(1) if number is None else number
        dtype = getattr(torch, c.get("dtype", "float32"), None)
        if not isinstance(dtype, torch.dtype):
            raise refused(f"a constant of {c.get('dtype')}", HINT)
        return c.graph.hold(torch.full(c.ints(0), value, dtype=dtype))

    return row


def _filled_like(number: float | None) -> Row:
    def row(c: Call) -> Any:
        value = c.number(1) if number is None else number
        like = c.graph.value(c.x())
        return c.graph.hold(torch.full(tuple(like.shape), value, dtype=like.dtype))

    return row


def _top_k(c: Call) -> Any:
    kind = c.only("ret_type", "both", "values", "indices")
    axis, k = int(c.get("axis", -1)), int(c.get("k", 1))
    largest = int(c.get("largest", True))
    values, at = c.add("TopK", c.x(), [k], results=2, axis=axis, largest=largest)
    if kind == "values":
        return values
    at = c.cast(at, c.get("dtype"))
    return at if kind == "indices" else (values, at)


MOVES: dict[str, Row] = {
    "broadcast_to": lambda c: c.add("Expand", c.x(), c.ints(1)),
    "concat": _concat,
    "expand_dims": _expand_dims,
    "flatten": lambda c: c.add("Reshape", c.x(), [-1]),
    "full": _filled(None),
    "full_like": _filled_like(None),
    "gather_elements": lambda c: c.add("GatherElements", c.x(0), c.x(1), axis=c.get("axis", 0)),
    "nn.batch_flatten": lambda c: c.add("Flatten", c.x(), axis=1),
    "nn.pad": _pad,
    "nn.pixel_shuffle": _pixel_shuffle,
    "ones": _filled(1),
    "ones_like": _filled_like(1),
    "permute_dims": _permute,
    "reshape": lambda c: c.add("Reshape", c.x(), c.ints(1)),
    "split": _split,
    "squeeze": _squeeze,
    "stack": _stack,
    "strided_slice": _slice,
    "take": _take,
    "tile": _tile,
    "topk": _top_k,
    "zeros": _filled(0),
    "zeros_like": _filled_like(0),
}

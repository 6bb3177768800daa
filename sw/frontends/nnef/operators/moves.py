"""Shapes, parts, concatenations, indices."""

from typing import Any

from sw.frontends.nnef.call import HINT, Call
from sw.frontends.onnx.errors import refused


def _reshape(c: Call) -> Any:
    """A part of the dimensions; 0 keeps a size, −1 is what is left."""
    x, wanted = c.x("input"), c.ints("shape")
    shape, start, count = c.shape(x), int(c.get("axis_start")), int(c.get("axis_count"))
    end = len(shape) if count < 0 else start + count
    if not 0 <= start <= end <= len(shape):
        raise refused(f"dimensions {start} to {end} of {list(shape)}", HINT)
    part = shape[start:end]
    if any(n == 0 and i >= len(part) for i, n in enumerate(wanted)):
        raise refused(f"shape {wanted} of {list(part)}", HINT)
    sizes = [part[i] if n == 0 else n for i, n in enumerate(wanted)]
    return c.add("Reshape", x, [*shape[:start], *sizes, *shape[end:]])


def _transpose(c: Call) -> Any:
    x, axes = c.x("input"), c.axes()
    return c.add("Transpose", x, perm=[*axes, *range(len(axes), len(c.shape(x)))])


def _split(c: Call) -> Any:
    x, axis, ratios = c.x("value"), int(c.get("axis")), c.ints("ratios")
    shape = c.shape(x)
    if not 0 <= axis < len(shape) or sum(ratios) < 1 or shape[axis] % sum(ratios):
        raise refused(f"parts {ratios} of dimension {axis} of {list(shape)}", HINT)
    unit = shape[axis] // sum(ratios)
    if len(ratios) == 1:
        return (x,)
    return c.add("Split", x, [r * unit for r in ratios], results=len(ratios), axis=axis)


def _slice(c: Call) -> Any:
    """An end of 0 is the last element, or the first if the stride is negative."""
    x, axes = c.x("input"), c.axes()
    begin, end, stride = c.ints("begin"), c.ints("end"), c.ints("stride") or [1] * len(axes)
    shape = c.shape(x)
    if not len(axes) == len(begin) == len(end) == len(stride) or 0 in stride:
        raise refused(f"begin {begin}, end {end}, stride {stride} of axes {axes}", HINT)
    if any(not 0 <= axis < len(shape) for axis in axes):
        raise refused(f"axes {axes} of {list(shape)}", HINT)
    rows = zip(axes, end, stride, strict=True)
    ends = [e if e or s < 0 else shape[a] for a, e, s in rows]
    pairs = zip(axes, ends, stride, strict=True)
    ends = [-shape[a] - 1 if s < 0 and e == 0 else e for a, e, s in pairs]
    return c.add("Slice", x, begin, ends, axes, stride)


def _unstack(c: Call) -> Any:
    x, axis, count = c.x("value"), int(c.get("axis")), c.count("values")
    shape = c.shape(x)
    if not 0 <= axis < len(shape) or shape[axis] != count:
        raise refused(f"{count} parts of dimension {axis} of {list(shape)}", HINT)
    parts = (x,)
    if count > 1:
        parts = c.add("Split", x, [1] * count, results=count, axis=axis)
    return tuple(c.add("Squeeze", part, [axis]) for part in parts)


def _stack(c: Call) -> Any:
    axis = int(c.get("axis"))
    parts = [c.add("Unsqueeze", part, [axis]) for part in c.xs("values")]
    return c.add("Concat", *parts, axis=axis)


def _pad(c: Call) -> Any:
    x, pairs = c.x("input"), c.pairs()
    sides = [before for before, _ in pairs] + [behind for _, behind in pairs]
    if len(pairs) != len(c.shape(x)):
        raise refused(f"padding of {len(pairs)} dimensions, not {len(c.shape(x))}", HINT)
    border = c.only("border", "constant", "replicate", "reflect")
    if border == "constant":
        value = c.graph.value(x).new_tensor(c.get("value"))
        return c.add("Pad", x, sides, value, mode="constant")
    return c.add("Pad", x, sides, mode="edge" if border == "replicate" else "reflect")


MOVES = {
    "concat": lambda c: c.add("Concat", *c.xs("values"), axis=int(c.get("axis"))),
    "copy_n": lambda c: (c.x(),) * c.count("y"),
    "gather": lambda c: c.add("Gather", c.x("input"), c.x("indices"), axis=int(c.get("axis"))),
    "pad": _pad,
    "reshape": _reshape,
    "slice": _slice,
    "split": _split,
    "squeeze": lambda c: c.add("Squeeze", c.x("input"), c.axes()),
    "stack": _stack,
    "tile": lambda c: c.add("Tile", c.x("input"), c.ints("repeats")),
    "transpose": _transpose,
    "unsqueeze": lambda c: c.add("Unsqueeze", c.x("input"), c.axes()),
    "unstack": _unstack,
}

"""Elements that are written at places known when the file is read."""

from typing import Any

import numpy as np
import torch
from torch import Tensor as T

from sw.frontends.stablehlo.call import Call, Row
from sw.frontends.stablehlo.errors import refused
from sw.frontends.stablehlo.operators.moves import inserted

MOST_WRITES = 1 << 9

_COMBINED: dict[str, Any] = {
    "add": torch.add, "multiply": torch.mul, "maximum": torch.maximum, "minimum": torch.minimum,
}  # fmt: skip


def _scatter(call: Call, x: T, indices: T, updates: T) -> T:
    """scatter: windows of x that begin at constant indices. Those that do not fit are left out."""
    n, how = call.get("scatter_dimension_numbers"), call.get("reducer")
    if n["input_batching_dims"] or (how != "set" and how not in _COMBINED):
        raise refused(f"a scatter by batches, or by {how}", "write it with where")
    starts = _starts(call, indices, n["index_vector_dim"])
    inside = list(n["update_window_dims"])
    outer = [d for d in range(updates.dim()) if d not in inside]
    windows = updates.permute([*outer, *inside])
    windows = windows.reshape(len(starts), *windows.shape[len(outer) :])
    kept = [d for d in range(x.dim()) if d not in n["inserted_window_dims"]]
    sizes = [1] * x.dim()
    for dim, size in zip(kept, windows.shape[1:], strict=True):
        sizes[dim] = size
    writes = []
    for row, window in zip(starts.tolist(), windows, strict=True):
        first = [0] * x.dim()
        for dim, start in zip(n["scattered_dims_to_operand_dims"], row, strict=True):
            first[dim] = start
        if _fits(first, sizes, x):
            writes.append((first, window.reshape(sizes)))
    partial = [d for d in range(x.dim()) if sizes[d] != x.shape[d]]
    if len(partial) == 1 and sizes[partial[0]] == 1:
        return _along(x, partial[0], writes, how)
    for first, window in writes:
        x = inserted(x, _combined(_window(x, first, sizes), window, how), first, 0)
    return x


def _starts(call: Call, indices: T, vector: int) -> np.ndarray[Any, Any]:
    """Where windows begin: [windows, dimensions]. vector: the dimension of the indices that has
    one number for each dimension of the operand.
    """
    places = call.get("places")
    rows = np.array(call.constant(1, indices) if places is None else places, np.int64)
    rows = rows[..., None] if vector == rows.ndim else np.moveaxis(rows, vector, -1)
    starts = rows.reshape(-1, rows.shape[-1])
    if len(starts) > MOST_WRITES:
        raise refused(f"a scatter of {len(starts)} windows, more than {MOST_WRITES}")
    return starts


def _fits(first: list[int], sizes: list[int], x: T) -> bool:
    ends = zip(first, sizes, x.shape, strict=True)
    return all(start >= 0 and start + size <= end for start, size, end in ends)


def _along(x: T, dim: int, writes: list[tuple[list[int], T]], how: str) -> T:
    """Whole rows along one dimension: pieces that are joined once."""
    rows: dict[int, T] = {}
    for first, window in writes:
        at = first[dim]
        rows[at] = _combined(rows[at] if at in rows else x.narrow(dim, at, 1), window, how)
    parts, at = [], 0
    for place in [*sorted(rows), x.shape[dim]]:
        if place > at:
            parts.append(x.narrow(dim, at, place - at))
        if place < x.shape[dim]:
            parts.append(rows[place])
        at = place + 1
    return parts[0] if len(parts) == 1 else torch.cat(parts, dim)


def _window(x: T, first: list[int], sizes: list[int]) -> T:
    for dim, (start, size) in enumerate(zip(first, sizes, strict=True)):
        x = x.narrow(dim, start, size)
    return x


def _combined(old: T, new: T, how: str) -> T:
    return new if how == "set" else _COMBINED[how](old, new)


SCATTERS = {"scatter": Row(function=_scatter)}

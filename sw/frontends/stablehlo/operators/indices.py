"""Indexing."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor as T

from sw.frontends.stablehlo.call import Call, Row
from sw.frontends.stablehlo.errors import refused


def _gather(call: Call, x: T, indices: T) -> T:
    """gather: slices of x that begin at indices, which are in range."""
    n = call.get("dimension_numbers")
    sizes, starts = call.ints("slice_sizes"), n["start_index_map"]
    if call.get("wraps"):
        indices = indices.reshape(call.get("index_shape"))
    vector = n["index_vector_dim"]
    if vector == indices.dim():
        indices = indices.unsqueeze(-1)
    elif vector != indices.dim() - 1:
        indices = indices.movedim(vector, -1)
    batch = n["operand_batching_dims"]
    for d in range(x.dim()):
        if d not in starts and d not in batch and sizes[d] != x.shape[d]:
            x = x.narrow(d, 0, sizes[d])
    if batch:
        return _along(call, x, indices)
    if any(sizes[d] != 1 for d in starts):
        return _slices(call, x, indices)
    outer = indices.shape[:-1]
    rest = [d for d in range(x.dim()) if d not in starts]
    table = x if [*starts, *rest] == list(range(x.dim())) else x.permute(*starts, *rest)
    made = _taken(call, table, [indices.select(-1, i) for i in range(len(starts))])
    # Slices are of size 1 where an index is; those that are kept come back as such.
    kept = [d for d in range(x.dim()) if d not in n["collapsed_slice_dims"]]
    made = made.reshape(*outer, *(sizes[d] for d in kept))
    return _placed(made, n["offset_dims"])


def _taken(call: Call, table: T, indices: list[T]) -> T:
    if len(indices) == 1 and table.dim() == 2 and not call.get("wraps"):
        return F.embedding(indices[0], table)
    return table[tuple(indices)]


def _placed(made: T, offsets: Any) -> T:
    """Dimensions of slices, which are last, at where the file wants them."""
    outer = made.dim() - len(offsets)
    others = iter(range(outer))
    inner = {at: outer + i for i, at in enumerate(offsets)}
    order = [inner[d] if d in inner else next(others) for d in range(made.dim())]
    return made if order == list(range(made.dim())) else made.permute(*order)


def _along(call: Call, x: T, indices: T) -> T:
    """One index for each element of the other dimensions: `take_along_axis`."""
    n, sizes = call.get("dimension_numbers"), call.ints("slice_sizes")
    batch, pairs = n["operand_batching_dims"], n["start_indices_batching_dims"]
    (dim, *others) = n["start_index_map"]
    free = [d for d in range(indices.dim() - 1) if d not in pairs]
    if others or sizes[dim] != 1 or len(batch) != x.dim() - 1 or n["offset_dims"]:
        raise refused("a gather by batches", "use take, take_along_axis or indexing")
    order = [pairs[batch.index(d)] for d in range(x.dim()) if d != dim]
    flat = indices.squeeze(-1).permute(*order, *free)
    outer = [x.shape[d] for d in range(x.dim()) if d != dim]
    found = torch.gather(x.movedim(dim, -1), -1, flat.reshape(*outer, -1).long())
    found = found.reshape(flat.shape)
    back = [*order, *free]
    return found.permute(*sorted(range(len(back)), key=back.__getitem__))


def _slices(call: Call, x: T, indices: T) -> T:
    """Slices longer than one element: their indices, one by one."""
    n, sizes = call.get("dimension_numbers"), call.ints("slice_sizes")
    starts = list(n["start_index_map"])
    if len(starts) != 1:
        raise refused("a gather of slices in several dimensions", "gather one after the other")
    (dim,) = starts
    size = sizes[dim]
    first = indices.squeeze(-1).clamp(0, x.shape[dim] - size)
    wanted = first.unsqueeze(-1) + torch.arange(size, dtype=indices.dtype)
    found = x.movedim(dim, 0)[wanted]  # outer…, size, rest…
    outer = first.dim()
    found = found.movedim(outer, outer + dim)
    gone = n["collapsed_slice_dims"]
    kept = [d for d in range(x.dim()) if d not in gone]
    return _placed(found.reshape(*first.shape, *(sizes[d] for d in kept)), n["offset_dims"])


def _top_k(call: Call, x: T) -> tuple[T, T]:
    values, indices = torch.topk(x, int(call.get("k")), -1)
    return values, indices


INDICES = {"gather": Row(function=_gather), "chlo.top_k": Row(function=_top_k)}

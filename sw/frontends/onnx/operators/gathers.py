"""Elements by index."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor as T

from sw.frontends.onnx.errors import refused
from sw.frontends.onnx.node import Node
from sw.frontends.onnx.operators.operator import op


def _counted(at: T, size: int) -> T:
    """Indices from the end as indices from the start."""
    return torch.where(at < 0, at + size, at).long()


def _gather(node: Node, x: T, at: Any) -> T:
    axis = node.get("axis", 0) % x.dim()
    if isinstance(at, np.ndarray):
        return _fixed_gather(x, axis, at)
    if 0 in node.fixed and x.dim() == 2 and not axis:
        return F.embedding(_counted(at, x.shape[0]), x)
    return _selected(x, axis, _counted(at.reshape(-1), x.shape[axis]), at.shape)


def _fixed_gather(x: T, axis: int, at: np.ndarray[Any, Any]) -> T:
    """Elements whose places are known: one, neighbours, or any."""
    size = x.shape[axis]
    outside = at[(at < -size) | (at >= size)]
    if outside.size:
        raise refused(f"index {outside[0]} of {size} elements", "export the model again")
    index = at.reshape(-1).astype(np.int64) % size
    if index.size == 1:
        one = x.select(axis, int(index[0]))
        return one.reshape(*x.shape[:axis], *at.shape, *x.shape[axis + 1 :]) if at.ndim else one
    if index.size and np.array_equal(index, np.arange(index[0], index[0] + index.size)):
        row = x.narrow(axis, int(index[0]), index.size)
        return row.reshape(*x.shape[:axis], *at.shape, *x.shape[axis + 1 :])
    return _selected(x, axis, torch.tensor(index.tolist()).long(), at.shape)


def _selected(x: T, axis: int, index: T, shape: Sequence[int]) -> T:
    """Elements along an axis, which becomes dimensions of `shape`."""
    # The NPU moves numbers; truth values are moved as such.
    data = x.to(torch.int32) if x.dtype is torch.bool else x
    flat = data.index_select(axis, index).to(x.dtype)
    return flat.reshape(*x.shape[:axis], *shape, *x.shape[axis + 1 :])


def _gather_elements(node: Node, x: T, at: T) -> T:
    axis = node.get("axis", 0) % x.dim()
    return torch.gather(x, axis, _counted(at, x.shape[axis]))


def _split_index(x: T, at: T, batch: int) -> tuple[Any, ...]:
    """Indices of each dimension, as PyTorch's indexing takes them, from rows of indices."""
    lead = [
        torch.arange(x.shape[i]).reshape(*(-1 if i == j else 1 for j in range(at.dim() - 1)))
        for i in range(batch)
    ]
    each = [_counted(at[..., i], x.shape[batch + i]) for i in range(at.shape[-1])]
    return (*lead, *each)


def _gather_nd(node: Node, x: T, at: T) -> T:
    return x[_split_index(x, at, node.get("batch_dims", 0))]


_REDUCE = {"add": "sum", "mul": "prod", "max": "amax", "min": "amin"}


def _scatter_nd(node: Node, x: T, at: T, updates: T) -> T:
    how = node.only("reduction", "none", "add", "mul", "max", "min")
    index = _split_index(x, at, 0)
    if how in ("none", "add"):
        return torch.index_put(x, index, updates, accumulate=how == "add")
    rows, inner = x.shape[: at.shape[-1]], x.shape[at.shape[-1] :]
    flat = torch.zeros_like(index[0])
    for size, each in zip(rows, index, strict=True):
        flat = flat * size + each
    two = x.reshape(int(np.prod(rows)), -1)
    spread = flat.reshape(-1, 1).expand(-1, two.shape[1])
    values = updates.reshape(spread.shape)
    return two.scatter_reduce(0, spread, values, _REDUCE[how]).reshape(*rows, *inner)


def _scatter_elements(node: Node, x: T, at: T, updates: T) -> T:
    axis = node.get("axis", 0) % x.dim()
    how = node.only("reduction", "none", "add", "mul", "max", "min")
    at = _counted(at, x.shape[axis])
    if how == "none":
        return x.scatter(axis, at, updates)
    return x.scatter_reduce(axis, at, updates, _REDUCE[how])


def _one_hot(node: Node, at: T, depth: Any, values: T) -> T:
    size, axis = int(depth.item()), node.get("axis", -1)
    at = _counted(at, size).unsqueeze(axis)
    steps = torch.arange(size).reshape(-1, *[1] * (-axis - 1 if axis < 0 else at.dim() - 1 - axis))
    return torch.where(at == steps, values[1], values[0])


def _compress(node: Node, x: T, condition: Any) -> T:
    axis = node.get("axis")
    if axis is None:
        x, axis = x.reshape(-1), 0
    return x.index_select(axis, torch.tensor(np.flatnonzero(condition).tolist()).long())


def _reverse_sequence(node: Node, x: T, lengths: Any) -> T:
    time, batch = node.get("time_axis", 0), node.get("batch_axis", 1)
    if (time, batch) not in ((0, 1), (1, 0)):
        raise refused(f"time_axis {time}, batch_axis {batch}", "use 0 and 1")
    turned = []
    for i, length in enumerate(lengths.tolist()):
        row = x.select(batch, i)
        turned.append(torch.cat([row[:length].flip([0]), row[length:]]))
    return torch.stack(turned, batch)


GATHERS = {
    "Gather": op(_gather, arrays=(1,)),
    "GatherElements": op(_gather_elements),
    "GatherND": op(_gather_nd),
    "ScatterND": op(_scatter_nd),
    "ScatterElements": op(_scatter_elements),
    "OneHot": op(_one_hot, static=(1,)),
    "Compress": op(_compress, static=(1,)),
    "ReverseSequence": op(_reverse_sequence, static=(1,)),
}

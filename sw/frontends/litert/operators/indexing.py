"""Values by indices that come at run time."""

import torch
from torch import Tensor

from sw.frontends.litert.call import Call


def gather(call: Call, x: Tensor, indices: Tensor) -> Tensor:
    """Slices of a dimension of x; the first `batch_dims` dimensions of both are the same."""
    o = call.options
    axis, batch = call.axis(o.Axis(), x.dim()), int(o.BatchDims())
    if not batch:
        out = x.index_select(axis, indices.reshape(-1))
        return out.reshape(*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :])
    if axis < batch:
        call.fail(f"axis {axis} is one of the {batch} batch dimensions")
    lead, rest = x.shape[batch:axis], x.shape[axis + 1 :]
    count = indices[(0,) * batch].numel()
    at = indices.reshape(*indices.shape[:batch], *[1] * len(lead), count, *[1] * len(rest))
    at = at.expand(*x.shape[:axis], count, *rest)
    out = torch.gather(x, axis, at.long())
    return out.reshape(*x.shape[:axis], *indices.shape[batch:], *rest)


def gather_nd(call: Call, x: Tensor, indices: Tensor) -> Tensor:
    """The last dimension of the indices names one element of the first dimensions of x."""
    return x[tuple(indices.long().unbind(-1))]


def one_hot(call: Call, indices: Tensor) -> Tensor:
    """Operand 1: the number of classes; operands 2 and 3: the values of on and off."""
    classes, axis = call.ints(1)[0], call.options.Axis()
    hot = indices.unsqueeze(-1) == torch.arange(classes)
    on, off = call.real(2), call.real(3)
    out = torch.where(hot, on, off)
    return out if axis == -1 else out.movedim(-1, call.axis(axis, out.dim()))

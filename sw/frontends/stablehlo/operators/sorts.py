"""Sorting along a dimension."""

import torch
from torch import Tensor as T

from sw.frontends.stablehlo.call import Call, Row


def _sort(call: Call, *xs: T) -> tuple[T, ...]:
    """sort: by the first operand; the others go where its elements go.

    One that counts elements along the dimension becomes the order itself.
    """
    dim = int(call.get("dimension", -1)) % xs[0].dim()
    down = call.get("reducer") == "descending"
    if len(xs) == 1:
        return (torch.sort(xs[0], dim, down).values,)
    values, order = torch.sort(xs[0], dim=dim, descending=down, stable=bool(call.get("is_stable")))
    counted = call.get("counted", (False,) * len(xs))
    return values, *(
        order if counts else torch.gather(x, dim, order)
        for x, counts in zip(xs[1:], counted[1:], strict=True)
    )


SORTS = {"sort": Row(function=_sort)}

"""`nn.MaxUnpool2d` by the indices of a pool of windows side by side: each value to the place where
its window had the largest element.

Indices as numbers are not computed: which element of a window is the largest follows from
comparisons, and each of its places takes the value or 0.
"""

import operator
from collections.abc import Callable
from itertools import product
from typing import Any

import torch
from torch import Tensor
from torch.fx import GraphModule, Node
from torch.nn import functional

from sw.compiler.frontend.nodes import arguments, aten, shape
from sw.compiler.frontend.operator_sets import same
from sw.compiler.frontend.rewrites.tracing import inline, traced


def rewrite_unpools(module: GraphModule) -> None:
    """Rewrite such operators in place; others stay as they are."""
    for node in list(module.graph.nodes):
        if node.target is not aten.max_unpool2d.default:
            continue
        values, indices, size = node.args
        pool = _pool(indices)
        if pool is None or tuple(size) != shape(pool.args[0])[-2:]:
            continue
        node.args = (values, pool.args[0], size)
        inline(module, node, traced(node, _places(_pair(pool.args[1])), ()))
    module.graph.eliminate_dead_code()


def _pool(indices: Any) -> Node | None:
    """The pool whose second result they are, if its windows lie side by side."""
    indices = same(indices)
    if indices.target is not operator.getitem or indices.args[1] != 1:
        return None
    (pool, _) = indices.args
    if pool.target is not aten.max_pool2d_with_indices.default:
        return None
    given = arguments(pool)
    kernel = _pair(given["kernel_size"])
    rest = any(n % k for n, k in zip(shape(given["self"])[-2:], kernel, strict=True))
    apart = _pair(given["stride"] or kernel) != kernel or (given["ceil_mode"] and rest)
    padded = any(_pair(given["padding"])) or _pair(given["dilation"]) != (1, 1)
    return None if apart or padded or kernel == (1, 1) else pool


def _pair(value: Any) -> tuple[int, int]:
    rows, *columns = [value] if isinstance(value, int) else value
    return rows, columns[0] if columns else rows


def _places(kernel: tuple[int, int]) -> Callable[..., Tensor]:
    rows, columns = kernel

    def max_unpool2d(values: Tensor, image: Tensor, size: list[int]) -> Tensor:
        high, wide = (n // k * k for n, k in zip(size, kernel, strict=True))
        parts = [
            image[..., i:high:rows, j:wide:columns] for i, j in product(range(rows), range(columns))
        ]
        kept = []
        for p, part in enumerate(parts):
            # The first one of several that are equal.
            others = [part > other for other in parts[:p]]
            others += [part >= other for other in parts[p + 1 :]]
            largest = others[0]
            for other in others[1:]:
                largest = largest & other
            kept.append(torch.where(largest, values, 0.0))
        lines = [torch.stack(kept[i * columns :][:columns], -1).flatten(-2) for i in range(rows)]
        whole = torch.stack(lines, -2).flatten(-3, -2)
        return functional.pad(whole, (0, size[1] - wide, 0, size[0] - high))

    return max_unpool2d

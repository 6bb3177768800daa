"""`nn.EmbeddingBag` on rows of equally many indices: gathers and a reduction.

PyTorch flattens such indices and counts where each bag begins. A bag of any other length is known
at run time only, which no program of fixed shapes can have.
"""

import math
from collections.abc import Callable

import torch
from torch import Tensor
from torch.fx import GraphModule, Node
from torch.nn import functional

from sw.compiler.frontend.nodes import arguments, aten, shape
from sw.compiler.frontend.rewrites.tracing import inline, traced

_BAGS = (aten.embedding_bag.default, aten.embedding_bag.padding_idx)
_REDUCTIONS: tuple[Callable[..., Tensor], ...] = (torch.sum, torch.mean, torch.amax)
"""By the number that stands for the mode."""


def rewrite_bags(module: GraphModule) -> None:
    """Rewrite bags of equal length in place; others stay as they are."""
    for node in list(module.graph.nodes):
        if node.target not in _BAGS:
            continue
        given = arguments(node)
        length = _length(given["offsets"], math.prod(shape(given["indices"])))
        skipped = given.get("padding_idx")
        read = {user.args[1] for user in node.users}
        if length and read == {0} and not given["include_last_offset"] and skipped in (None, -1):
            inline(module, node, traced(node, _reduced(length), ()))


def _length(offsets: Node, indices: int) -> int:
    """Indices of a bag where `offsets` divides all `indices` into equal bags, else 0."""
    if offsets.target is not aten.arange.start_step or offsets.args[0] != 0:
        return 0
    step = offsets.args[2]
    (bags,) = shape(offsets)
    return step if isinstance(step, int) and step * bags == indices else 0


def _reduced(length: int) -> Callable[..., tuple[Tensor, None, None, None]]:
    def embedding_bag(weight: Tensor, indices: Tensor, offsets: Tensor, by_frequency: bool = False,
                      mode: int = 0, sparse: bool = False, factors: Tensor | None = None,
                      *_: object) -> tuple[Tensor, None, None, None]:  # fmt: skip
        rows = functional.embedding(indices.reshape(-1, length), weight)
        if factors is not None:
            rows = rows * factors.reshape(-1, length, 1)
        return _REDUCTIONS[mode](rows, dim=1), None, None, None

    return embedding_bag

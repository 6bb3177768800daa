"""How a logical tensor lies in memory, so that views and permutations cost nothing.

A PyTorch model is NCHW, TOSA is NHWC. Instead of transposing, each value of the importer carries a
`Layout`: the logical dimensions are products of *factors*, and the factors have an order in memory.
`permute` and `reshape` only rearrange factors. The flatten between a pool and a linear layer thus
ends as a permutation of the linear layer's constant weights.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Layout:
    """`sizes`: factors in logical order; `groups`: how many of them each logical dimension has;
    `order`: the factor at each position in memory, outermost first.
    """

    sizes: tuple[int, ...]
    groups: tuple[int, ...]
    order: tuple[int, ...]

    @staticmethod
    def of(shape: Sequence[int], axes: Sequence[int] | None = None) -> "Layout":
        """One factor per dimension; memory holds the dimensions in order `axes` (row-major)."""
        rank = len(shape)
        return Layout(tuple(shape), (1,) * rank, tuple(axes if axes is not None else range(rank)))

    @property
    def dims(self) -> tuple[tuple[int, ...], ...]:
        """The factor indices of each logical dimension."""
        out, at = [], 0
        for count in self.groups:
            out.append(tuple(range(at, at + count)))
            at += count
        return tuple(out)

    @property
    def shape(self) -> tuple[int, ...]:
        """The logical shape."""
        return tuple(math.prod(self.sizes[f] for f in dim) for dim in self.dims)

    @property
    def memory_shape(self) -> tuple[int, ...]:
        """Sizes of the factors in memory order."""
        return tuple(self.sizes[f] for f in self.order)

    def _real(self, factors: Iterable[int]) -> list[int]:
        """Without factors of size 1, whose place does not matter."""
        return [f for f in factors if self.sizes[f] > 1]

    def is_ordered(self, axes: Sequence[int]) -> bool:
        """Whether memory already holds the logical dimensions in order `axes`, each row-major."""
        wanted = [f for axis in axes for f in self.dims[axis]]
        return self._real(self.order) == self._real(wanted)

    @property
    def axes(self) -> tuple[int, ...] | None:
        """The logical dimensions in memory order, those of size 1 first; None where their factors
        interleave.
        """
        dims = self.dims
        first = {
            i: min(self.order.index(f) for f in real)
            for i, dim in enumerate(dims)
            if (real := self._real(dim))
        }
        axes = (
            *(i for i in range(len(dims)) if i not in first),
            *sorted(first, key=lambda i: first[i]),
        )
        return axes if self.is_ordered(axes) else None

    @property
    def some_axes(self) -> tuple[int, ...]:
        """An order of the dimensions to bring memory into: the present one if there is one."""
        return self.axes or tuple(range(len(self.groups)))

    @property
    def own_axes(self) -> tuple[int, ...]:
        """As `some_axes`, but dimensions of size 1 stay where they are: an image of one channel
        remains NHWC.
        """
        single = all(count == 1 for count in self.groups)
        return self.order if single else self.some_axes

    def transposition(self, axes: Sequence[int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """(memory shape, perms) of the TRANSPOSE that brings the dimensions into order `axes`.

        A first dimension of size 1 that stays first is kept: it is the batch.
        """
        current = self._real(self.order)
        wanted = self._real(f for axis in axes for f in self.dims[axis])
        shape, perms = [self.sizes[f] for f in current], [current.index(f) for f in wanted]
        if axes[0] == 0 and self.shape[0] == 1:
            shape, perms = [1, *shape], [0, *(p + 1 for p in perms)]
        return tuple(shape), tuple(perms)

    def permute(self, perm: Sequence[int]) -> "Layout":
        """The layout after the logical dimensions are reordered; memory stays as it is."""
        dims = [self.dims[p] for p in perm]
        flat = [f for dim in dims for f in dim]
        return Layout(
            tuple(self.sizes[f] for f in flat),
            tuple(len(dim) for dim in dims),
            tuple(flat.index(f) for f in self.order),
        )

    def reshape(self, shape: Sequence[int]) -> "Layout | None":
        """The layout under a new logical shape, memory as it is; None where a factor would straddle
        two dimensions (then the value must be made row-major first).
        """
        pieces: list[list[int]] = []  # of each factor, in logical order
        groups: list[int] = []
        factors = self._real(range(len(self.sizes)))
        rest, at = 1, 0  # what is left of the factor being split
        for dim in shape:
            need, count = dim, 0
            while need > 1:
                if rest == 1:
                    rest = self.sizes[factors[at]]
                    pieces.append([])
                    at += 1
                piece = min(need, rest)
                if need % piece or rest % piece:
                    return None
                pieces[-1].append(piece)
                need //= piece
                rest //= piece
                count += 1
            groups.append(count)
        return self._split(factors, pieces, groups)

    def _split(self, factors: list[int], pieces: list[list[int]], groups: list[int]) -> "Layout":
        first: dict[int, list[int]] = {}
        at = 0
        for factor, parts in zip(factors, pieces, strict=True):
            first[factor] = list(range(at, at + len(parts)))
            at += len(parts)
        order = tuple(i for f in self._real(self.order) for i in first[f])
        return Layout(tuple(p for parts in pieces for p in parts), tuple(groups), order)

    def suffix(self, axis: int) -> tuple[int, ...] | None:
        """The factors of dimension `axis` in memory order if they are the innermost ones there."""
        own = self._real(self.dims[axis])
        tail = self._real(self.order)[len(self._real(self.order)) - len(own) :]
        return tuple(tail) if set(tail) == set(own) else None

    def replace_suffix(self, size: int) -> "Layout":
        """The last logical dimension, innermost in memory, becomes one factor of `size`."""
        keep = [f for dim in self.dims[:-1] for f in dim]
        order = [keep.index(f) for f in self.order if f in keep]
        sizes = (*(self.sizes[f] for f in keep), size)
        return Layout(sizes, (*self.groups[:-1], 1), (*order, len(keep)))

    def repeated(self, factor: int) -> "Layout":
        """The layout with `factor` times the first dimension, which must be outermost in memory
        (ValueError).
        """
        own = self.dims[0]
        if not own:  # a dimension of size 1 without a factor
            order = (0, *(f + 1 for f in self.order))
            return Layout((factor, *self.sizes), (1, *self.groups[1:]), order)
        first = own[0]
        rest = tuple(f for f in self.order if f != first)
        if self.sizes[first] > 1 and self._real(self.order)[0] != first:
            raise ValueError(f"dimension 0 of {list(self.shape)} is not outermost in memory")
        sizes = tuple(s * factor if f == first else s for f, s in enumerate(self.sizes))
        return Layout(sizes, self.groups, (first, *rest))

    # Arrays -----------------------------------------------------------------------------------

    def to_memory(self, logical: NDArray[Any]) -> NDArray[Any]:
        """A logical array as it lies in memory, one axis per factor."""
        memory = np.ascontiguousarray(logical.reshape(self.sizes).transpose(self.order))
        return memory.reshape(self.memory_shape)  # a scalar became a vector

    def to_logical(self, memory: NDArray[Any]) -> NDArray[Any]:
        """The inverse of `to_memory`; `memory` may have any shape of the same element order."""
        inverse = [self.order.index(f) for f in range(len(self.order))]
        back = memory.reshape(self.memory_shape).transpose(inverse)
        return back.reshape(self.shape)


def transpose_steps(
    shape: Sequence[int], perms: Sequence[int], most: int
) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """(shape, perms) of TRANSPOSEs of at most `most` dimensions, 4 or more, that do what one does.

    Neighbours that stay neighbours are one dimension. Where that is not enough, dimensions move to
    their places one by one.
    """
    if len(shape) <= most:
        return [(tuple(shape), tuple(perms))]
    steps = []
    sizes, order = _merged(list(shape), list(perms))
    while len(sizes) > most:
        to = int(order[0] == 0)
        at = order[to]
        lists = sizes[:to], sizes[to:at], [sizes[at]], sizes[at + 1 :]
        steps.append((tuple(math.prod(part) for part in lists), (0, 2, 1, 3)))
        moved = [*range(to), at, *range(to, at), *range(at + 1, len(sizes))]
        sizes, order = _merged([sizes[i] for i in moved], [moved.index(i) for i in order])
    return [*steps, (tuple(sizes), tuple(order))]


def _merged(shape: list[int], perms: list[int]) -> tuple[list[int], list[int]]:
    """The same transposition with runs of dimensions that stay together as one each."""
    runs: list[list[int]] = []
    for p in perms:
        if runs and runs[-1][-1] == p - 1:
            runs[-1].append(p)
        else:
            runs.append([p])
    before = sorted(runs)
    sizes = [math.prod(shape[i] for i in run) for run in before]
    return sizes, [before.index(run) for run in runs]

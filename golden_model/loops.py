"""Loop nests as index arrays: which steps there are, in program order, and their offsets."""

import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from golden_model.widths import CHIP_MASK, CHIP_SIGN, POSITION_SIGN
from spec.available import require_memory

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
Loop = Mapping[str, int]
_MANY = 1 << 22
"""Steps from which on the memory for them is worth a look."""


class Steps:
    """Every step of some consecutive loops, in program order.

    index, last: [loops, steps]; the index of each loop and whether it is its last iteration.
    """

    def __init__(self, loops: Sequence[Loop], index: Ints, last: Bools) -> None:
        self.loops = loops
        self.index = index
        self.last = last
        self.size = int(index.shape[1])
        self._offsets: dict[str, Ints] = {}

    def offset(self, stride: str) -> Ints:
        """[steps]: sum of index x loop[stride]; computed once."""
        found = self._offsets.get(stride)
        if found is None:
            found = np.zeros(self.size, np.int64)
            for row, loop in zip(self.index, self.loops, strict=True):
                if loop[stride]:
                    found += row * loop[stride]
            self._offsets[stride] = found
        return found


class Nest:
    """Loops `low` ... `high`-1 of an instruction; at most two shapes, by the loop around them."""

    def __init__(self, loops: Sequence[Loop], low: int, high: int) -> None:
        self.low = low
        self.loops = loops[low:high]
        inner = self.loops[0] if self.loops else None
        self.ragged = low > 0 and inner is not None and inner["count"] != inner["last"]
        self._steps: dict[bool, Steps] = {}

    def steps(self, outer_last: bool) -> Steps:
        """The steps while the loop around the nest is (or is not) in its last iteration."""
        key = bool(outer_last) and self.ragged
        if key not in self._steps:
            count = math.prod(loop["count"] for loop in self.loops)
            if count > _MANY:
                require_memory(24 * len(self.loops) * count, f"a loop nest of {count:,} steps")
            index, last = _enumerate(self.loops, key)
            self._steps[key] = Steps(self.loops, index, last)
        return self._steps[key]


def _enumerate(loops: Sequence[Loop], outer_last: bool) -> tuple[Ints, Bools]:
    if not loops:
        return np.zeros((0, 1), np.int64), np.zeros((0, 1), np.bool_)
    n = loops[0]["last"] if outer_last else loops[0]["count"]
    plain, plain_last = _enumerate(loops[1:], False)
    final, final_last = plain, plain_last
    if len(loops) > 1 and loops[1]["last"] != loops[1]["count"]:
        final, final_last = _enumerate(loops[1:], True)
    sizes = np.full(n, plain.shape[1])
    sizes[-1] = final.shape[1]
    outer = np.repeat(np.arange(n, dtype=np.int64), sizes)
    index = np.vstack([outer, np.hstack([np.tile(plain, n - 1), final])])
    last = np.vstack([outer == n - 1, np.hstack([np.tile(plain_last, n - 1), final_last])])
    return index, last


class Chunks:
    """The iterations of loops 0 ... `level`-1: what an engine executes between two semaphores.

    starts[i]: lowest semaphore level whose iteration begins with chunk i; ends[i]: whose
    iteration ends with it. Waits and posts of that level and deeper ones act there.
    """

    def __init__(self, loops: Sequence[Loop], level: int) -> None:
        self.level = level
        self.steps = Nest(loops, 0, level).steps(False)
        self.size = self.steps.size
        self.starts = _reach(self.steps.index == 0, level)
        self.ends = _reach(self.steps.last, level)
        self.outer_last: list[bool] = self.steps.last[-1].tolist() if level else [False] * self.size
        self._lists: dict[str, list[int]] = {}

    def offset(self, stride: str, chunk: int) -> int:
        found = self._lists.get(stride)
        if found is None:
            found = self._lists[stride] = self.steps.offset(stride).tolist()
        return found[chunk]


def _reach(holds: Bools, level: int) -> list[int]:
    """Per step the lowest l such that `holds` for all loops l ... level-1."""
    run = np.cumprod(holds[::-1].astype(np.int64), axis=0).sum(axis=0)
    out: list[int] = (level - run).tolist()
    return out


def wrapped_position(values: Ints) -> Ints:
    """Input coordinates: the low 16 bits, signed."""
    return ((values + POSITION_SIGN) & (2 * POSITION_SIGN - 1)) - POSITION_SIGN


def signed_chip_address(address: int) -> int:
    """Where a chunk begins: from a wrapped address strides may lead back into the memory."""
    return (address + CHIP_SIGN & CHIP_MASK) - CHIP_SIGN

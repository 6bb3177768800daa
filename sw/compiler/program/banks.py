"""How often operands A and B of a VECTOR are in each other's way in the scratchpad's banks."""

import itertools
from collections import deque
from collections.abc import Iterator, Sequence
from functools import lru_cache

from spec.banks import patience
from spec.config import NpuConfig
from sw.compiler.program.records import Vector

SAMPLE = 256
"""Steps that are looked at."""

QUEUE = 2
"""Reads of an operand that are decoded and wait for their banks (hw_gen/blocks/skid.py)."""

_Loop = tuple[int, int, int]
"""Iterations, and the bytes from one to the next of A and of B."""


def conflict_factor(record: Vector, config: NpuConfig) -> float:
    """Cycles that reading A and B takes, for each that it takes in banks that are free.

    record: A and B lie in one buffer, which begins at a multiple of all banks' words.
    """
    loops = tuple((loop.count, loop.a, loop.b) for loop in record.loop if loop.count > 1)
    sizes = record.lanes * record.a_type.bytes, record.lanes * record.b_type.bytes
    row = config.word_bytes * config.banks
    base = record.a_base % row
    return _factor(base, record.b_base - record.a_base + base, sizes, _inner(loops), config)


def _inner(loops: tuple[_Loop, ...]) -> tuple[_Loop, ...]:
    """The innermost loops, with as many iterations as are looked at."""
    kept: list[_Loop] = []
    left = SAMPLE
    for count, a, b in reversed(loops):
        if left <= 1:
            break
        kept.append((min(count, left), a, b))
        left = -(-left // count)
    return tuple(reversed(kept))


@lru_cache(maxsize=1 << 12)
def _factor(
    a: int, b: int, sizes: tuple[int, int], loops: tuple[_Loop, ...], config: NpuConfig
) -> float:
    steps = [
        (a + sum(i * loop[1] for i, loop in at), b + sum(i * loop[2] for i, loop in at))
        for at in (
            list(zip(index, loops, strict=True))
            for index in itertools.product(*(range(loop[0]) for loop in loops))
        )
    ]
    words = [
        [_beats(start, size, config) for start, size in zip(step, sizes, strict=True)]
        for step in steps
    ]
    free = sum(max(len(beats) for beats in step) for step in words)
    return _cycles(words, patience(config.depthwise)) / free


def _beats(start: int, size: int, config: NpuConfig) -> list[frozenset[int]]:
    """The banks of each read of an operand."""
    word, out = config.word_bytes, []
    for at in range(start, start + size, word):
        end = min(at + word, start + size)
        out.append(frozenset(config.bank_of(w) for w in range(at // word, -(-end // word))))
    return out


def _cycles(steps: Sequence[Sequence[Sequence[frozenset[int]]]], waits: int) -> int:
    """Cycles until all is read: A goes first, and runs ahead of B as far as reads may wait.

    `waits`: cycles after which B goes first.
    """
    todo, ports, cycles = deque(_pairs(steps)), _Ports(waits), 0
    asked: list[frozenset[int]] = []
    while todo or any(asked) or any(ports.waiting):
        # Both reads of a pair are asked for before the next one's.
        if not any(asked) and todo:
            asked = list(todo.popleft())
        room = ports.room()
        ports.serve()
        for i, banks in enumerate(asked):
            if banks and room[i]:
                ports.waiting[i].append(banks)
                asked[i] = frozenset()
        cycles += 1
    # The last reads are served in the cycle after they were asked for.
    return cycles - 1


class _Ports:
    """Reads of A and of B that wait for banks, and for how many cycles B has waited for A."""

    def __init__(self, patience: int) -> None:
        self.patience = patience
        self.waiting: tuple[deque[frozenset[int]], deque[frozenset[int]]] = (deque(), deque())
        self.age = 0

    def room(self) -> list[bool]:
        return [len(queue) < QUEUE for queue in self.waiting]

    def serve(self) -> None:
        """A cycle: what leaves the queues."""
        a, b = self.waiting
        clash = bool(a and b and a[0] & b[0])
        urgent = clash and self.age >= self.patience
        if a and not urgent:
            a.popleft()
        if b and (urgent or not clash):
            b.popleft()
        self.age = self.age + 1 if clash and not urgent else 0


def _pairs(
    steps: Sequence[Sequence[Sequence[frozenset[int]]]],
) -> Iterator[tuple[frozenset[int], frozenset[int]]]:
    """What is asked for together: a read of A and one of B."""
    for a, b in steps:
        yield from itertools.zip_longest(a, b, fillvalue=frozenset())

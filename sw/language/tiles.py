"""The order of tiles: pieces of a dimension, and statements that take turns."""

from collections.abc import Iterator
from itertools import zip_longest

from sw.language.errors import KernelError
from sw.language.source import caller


def tiles(size: int, step: int) -> Iterator[slice]:
    """Slices of `step` elements that cover 0…size; the last one may be shorter."""
    if step < 1 or size < 1:
        raise KernelError(
            f"tiles({size}, {step}): size and step must be 1 or more", source=str(caller())
        )
    for start in range(0, size, step):
        yield slice(start, min(start + step, size))


def interleave(*parts: Iterator[None]) -> None:
    """Run generators in turns, from `yield` to `yield`, to the end of all.

    Engines take statements in the order of the source: what takes turns is computed side by side.
    """
    for _ in zip_longest(*parts):
        pass

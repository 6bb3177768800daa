"""Where program and regions of an image lie in memory, as every run of the simulator has them."""

from collections.abc import Iterable

from spec.program import REGION_CONST, REGION_INPUT, REGION_OUTPUT, REGION_TEMP, Image

PAGE = 4096
"""Bytes to which what lies in memory is aligned; a page between any two stays unused."""

IN_MEMORY = (REGION_CONST, REGION_INPUT, REGION_OUTPUT, REGION_TEMP)
"""The regions in order, behind the program."""


def sizes(image: Image) -> tuple[int, ...]:
    """Bytes of the program and of the regions, in order."""
    return (image.program.size, *map(image.region_bytes, IN_MEMORY))


def spread(sizes: Iterable[int], start: int = 0) -> tuple[tuple[int, ...], int]:
    """Byte offsets of pieces with so many bytes, from `start` on, and where the last one ends."""
    at, offsets = start + PAGE, []
    for size in sizes:
        offsets.append(at)
        at += -(-size // PAGE) * PAGE + PAGE
    return tuple(offsets), at

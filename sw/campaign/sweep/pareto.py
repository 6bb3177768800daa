"""Which points no other beats, and how much of the space of objectives they dominate.

Rows are costs: a tuple of numbers for each point, in each of which smaller is better.
"""

import math
from collections.abc import Sequence

Row = Sequence[float]


def dominates(a: Row, b: Row) -> bool:
    """Whether `a` is nowhere worse than `b`, and somewhere better."""
    return all(x <= y for x, y in zip(a, b, strict=True)) and any(
        x < y for x, y in zip(a, b, strict=True)
    )


def front(rows: Sequence[Row]) -> list[int]:
    """Numbers of the rows that no other dominates, in their order; equal rows stay together."""
    best: list[int] = []
    # In this order a row is dominated by an earlier one only.
    for number in sorted(range(len(rows)), key=lambda n: tuple(rows[n])):
        if not any(dominates(rows[other], rows[number]) for other in best):
            best.append(number)
    return sorted(best)


def hypervolume(rows: Sequence[Row], reference: Row) -> float:
    """Volume between the rows and `reference`: that of all costs which a row dominates.

    Exact in any number of dimensions, by slices of the last one. A row that is not below the
    reference in every dimension counts nothing.
    """
    inside = {tuple(row) for row in rows if all(x < r for x, r in zip(row, reference, strict=True))}
    found = sorted(inside)
    return _volume([found[n] for n in front(found)], tuple(reference)) if found else 0.0


def _volume(rows: Sequence[tuple[float, ...]], reference: tuple[float, ...]) -> float:
    if len(reference) == 1:
        return reference[0] - min(row[0] for row in rows)
    if len(reference) == 2:
        return _area(rows, reference)
    total = 0.0
    ordered = sorted(rows, key=lambda row: row[-1])
    for number, row in enumerate(ordered):
        above = ordered[number + 1][-1] if number + 1 < len(ordered) else reference[-1]
        if above > row[-1]:
            below = [other[:-1] for other in ordered[: number + 1]]
            best = [below[n] for n in front(below)]
            total += (above - row[-1]) * _volume(best, reference[:-1])
    return total


def _area(rows: Sequence[tuple[float, ...]], reference: tuple[float, ...]) -> float:
    total, height = 0.0, reference[1]
    for x, y in sorted(rows):
        if y < height:
            total += (reference[0] - x) * (height - y)
            height = y
    return total


def reference_of(rows: Sequence[Row]) -> tuple[float, ...]:
    """A point that every row is below: a tenth of the range beyond the worst cost in each."""
    worst = [max(column) for column in zip(*rows, strict=True)]
    best = [min(column) for column in zip(*rows, strict=True)]
    return tuple(
        high + (0.1 * (high - low) or 0.1 * abs(high) or 1.0)
        for low, high in zip(best, worst, strict=True)
    )


def normalized_volume(rows: Sequence[Row], ideal: Row, reference: Row) -> float:
    """The hypervolume as a share of the box from `ideal` to `reference`."""
    box = math.prod(r - i for i, r in zip(ideal, reference, strict=True))
    return hypervolume(rows, reference) / box if box else 0.0

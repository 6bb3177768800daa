"""Strided boxes as LOAD and STORE loops: contiguous dimensions merge into longer runs."""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from spec.fields import field_of
from spec.isa import DMA_LOOPS, Opcode
from sw.compiler.program.records import DmaLoop

Box = list[tuple[int, int, int]]
"""(count, stride in memory, stride on chip) per dimension, outermost first, bytes."""

_MAX_RUN = field_of(Opcode.LOAD, "run").maximum
_MAX_COUNT = field_of(Opcode.LOAD, "loop.count").maximum


def load_box(box: Box, run: int, keep_outer: bool = False) -> tuple[int, list[DmaLoop]]:
    """(run, loops) that copy the box; `keep_outer` keeps dimension 0 as loop 0."""
    dims = [d for i, d in enumerate(box) if d[0] > 1 or (i == 0 and keep_outer)]
    floor = 1 if keep_outer else 0
    while len(dims) > floor and dims[-1][1] == dims[-1][2] == run and dims[-1][0] * run <= _MAX_RUN:
        run *= dims.pop()[0]
    merged: Box = []
    for i, (count, mem, chip) in enumerate(dims):
        if merged and not (keep_outer and i == 1):
            outer, outer_mem, outer_chip = merged[-1]
            same = (outer_mem, outer_chip) == (count * mem, count * chip)
            if same and outer * count <= _MAX_COUNT:
                merged[-1] = (outer * count, mem, chip)
                continue
        merged.append((count, mem, chip))
    assert len(merged) <= DMA_LOOPS
    return run, [DmaLoop(count=c, mem=m, chip=k) for c, m, k in merged]


def memory_extent(loops: Sequence[DmaLoop], run: int) -> int:
    """Bytes from the first to the last that is touched in memory (strides not negative)."""
    return run + sum((loop.count - 1) * loop.mem for loop in loops)


def chip_extent(loops: Sequence[DmaLoop], run: int) -> int:
    """The same on chip."""
    return run + sum((loop.count - 1) * loop.chip for loop in loops)


@dataclass(frozen=True, slots=True, kw_only=True)
class Copy:
    """One LOAD or STORE of a box: where it begins in memory and on chip, its runs and loops."""

    mem: int
    chip: int
    run: int
    loops: list[DmaLoop]

    def memory_span(self) -> tuple[int, int]:
        """First byte and end of what is touched in memory; strides of any sign."""
        return _span(self.mem, self.run, [(loop.count - 1) * loop.mem for loop in self.loops])

    def chip_span(self) -> tuple[int, int]:
        """The same on chip."""
        return _span(self.chip, self.run, [(loop.count - 1) * loop.chip for loop in self.loops])


def _span(base: int, run: int, steps: Sequence[int]) -> tuple[int, int]:
    low = base + sum(min(0, s) for s in steps)
    return low, base + sum(max(0, s) for s in steps) + run


def copies(box: Box, run: int) -> Iterator[Copy]:
    """The instructions that copy a box of any number of dimensions and any counts.

    What four loops do not hold becomes several instructions, over the shortest dimensions.
    """
    dims = _merged([d for d in box if d[0] > 1])
    while dims and dims[-1][1] == dims[-1][2] == run and dims[-1][0] * run <= _MAX_RUN:
        run *= dims.pop()[0]
    if any(count > _MAX_COUNT for count, _, _ in dims):
        # A loop that cannot count so far is cut, and each piece copied by itself.
        for parts in itertools.product(*map(_counted, dims)):
            start = [at for at, _ in parts]
            inner = [(n, mem, chip) for (_, n), (_, mem, chip) in zip(parts, dims, strict=True)]
            offsets = [sum(a * d[k] for a, d in zip(start, dims, strict=True)) for k in (1, 2)]
            for part in copies(inner, run):
                yield Copy(
                    mem=offsets[0] + part.mem,
                    chip=offsets[1] + part.chip,
                    run=part.run,
                    loops=part.loops,
                )
        return
    # The shortest dimensions become instructions of their own: fewest of them.
    by_size = sorted(range(len(dims)), key=lambda i: dims[i][0])
    apart = sorted(by_size[: max(0, len(dims) - DMA_LOOPS)])
    loops = [DmaLoop(count=c, mem=m, chip=k) for i, (c, m, k) in enumerate(dims) if i not in apart]
    for index in itertools.product(*(range(dims[i][0]) for i in apart)):
        yield Copy(
            mem=sum(n * dims[i][1] for n, i in zip(index, apart, strict=True)),
            chip=sum(n * dims[i][2] for n, i in zip(index, apart, strict=True)),
            run=run,
            loops=loops,
        )


def _merged(box: Box) -> Box:
    """The box with dimensions joined that follow one another on both sides."""
    out: Box = []
    for count, mem, chip in box:
        if out and out[-1][1:] == (count * mem, count * chip):
            out[-1] = (out[-1][0] * count, mem, chip)
        else:
            out.append((count, mem, chip))
    return out


def _counted(dim: tuple[int, int, int]) -> list[tuple[int, int]]:
    """(start, count) of pieces of a dimension that a loop can count."""
    count = dim[0]
    return [(at, min(_MAX_COUNT, count - at)) for at in range(0, count, _MAX_COUNT)]

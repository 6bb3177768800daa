"""Strided boxes as LOAD and STORE loops: contiguous dimensions merge into longer runs."""

from spec.isa import DMA_LOOPS, Opcode
from sw.compiler.draft import Access, Buffer, Node

Box = list[tuple[int, int, int]]
"""(count, stride in memory, stride on chip) per dimension, outermost first, bytes."""

_MAX_RUN = (1 << 24) - 1
_MAX_COUNT = (1 << 16) - 1


def load_box(box: Box, run: int, keep_outer: bool = False) -> tuple[int, list[dict[str, int]]]:
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
    return run, [{"count": c, "mem": m, "chip": k} for c, m, k in merged]


def bounding(loops: list[dict[str, int]], key: str, run: int) -> int:
    """Bytes from the first to the last that the loops touch (strides not negative)."""
    return run + sum((loop["count"] - 1) * loop.get(key, 0) for loop in loops)


def store_box(
    target: Buffer, mem: int, source: Buffer, box: Box, run: int, slices: int = 1
) -> Node:
    """A STORE of a box that lies at the start of `source`.

    With `slices` > 1 dimension 0 of the box has that many steps, and each waits for its own data.
    """
    run, loops = load_box(box, run, keep_outer=slices > 1)
    span = bounding(loops, "chip", run)
    if slices > 1:
        step = loops[0]["chip"]
        reads = [
            Access(
                buffer=source,
                start=i * step,
                stop=i * step + span - (slices - 1) * step,
                write=False,
                level=1,
                iteration=i,
            )
            for i in range(slices)
        ]
    else:
        reads = [Access(buffer=source, start=0, stop=span, write=False)]
    stop = mem + bounding(loops, "mem", run)
    return Node(
        opcode=Opcode.STORE,
        values={"mem_base": mem, "chip_base": 0, "run": run, "loop": loops},
        bases={"mem_base": target, "chip_base": source},
        accesses=[*reads, Access(buffer=target, start=mem, stop=stop, write=True)],
        layer=0,
    )

"""Tiles of layers that only the vector engine computes: boxes of output pixels and channels."""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

from spec.config import NpuConfig
from sw.compiler.errors import CompileError
from sw.compiler.kernels.base import Layer
from sw.compiler.kernels.boxes import Box, halvings
from sw.compiler.kernels.budget import MemoryBudget
from sw.compiler.kernels.vector.work import VectorWork

OVERLAP = 6
"""Tiles that a layer is cut into, if not too small, so that load, compute and store overlap."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VectorPlan:
    """Tiles of th x tw pixels and tc channels; bytes of each operand's and the result's slots.

    `between_bytes`: of the buffer between rows and columns of windows.
    `flat`: the layer's tensors are taken as one row of elements. `row_order`: see `boxes`. Operands
    and results that lie on chip have no slots. `cycles`, `traffic`: estimates, the latter in bytes.
    """

    th: int
    tw: int
    tc: int
    flat: bool
    slots: int
    in_bytes: tuple[int, ...]
    out_bytes: int
    between_bytes: int = 0
    row_order: bool = False
    cycles: int = 0
    traffic: int = 0

    @property
    def spad_bytes(self) -> int:
        return self.slots * (sum(self.in_bytes) + self.out_bytes) + self.between_bytes

    def __str__(self) -> str:
        return (
            f"tile {self.th}x{self.tw}x{self.tc}{' flat' if self.flat else ''}; "
            f"{self.slots} x ({'+'.join(map(str, self.in_bytes))} in, {self.out_bytes} out); "
            f"{self.cycles} cycles {self.traffic} bytes"
        )


def boxes(work: VectorWork, plan: VectorPlan) -> Iterator[Box]:
    """Output boxes as computed: row by row, or channels outermost, so that parameters stay."""
    n, h, w, c = work.out.shape
    corners = itertools.product(range(0, c, plan.tc), range(n), range(0, h, plan.th))
    # Behind a writer that makes row after row, all channels of a row come before the next.
    for c0, b, y0 in sorted(corners, key=_rows_first) if plan.row_order else corners:
        for x0 in range(0, w, plan.tw):
            yield Box(
                batch=b,
                y0=y0,
                y1=min(y0 + plan.th, h),
                x0=x0,
                x1=min(x0 + plan.tw, w),
                c0=c0,
                c1=min(c0 + plan.tc, c),
            )


def tile_count(work: VectorWork, plan: VectorPlan) -> int:
    """How many tiles there are."""
    n, h, w, c = work.out.shape
    return n * -(-h // plan.th) * -(-w // plan.tw) * -(-c // plan.tc)


def _rows_first(corner: tuple[int, int, int]) -> tuple[int, int]:
    _, batch, y0 = corner
    return batch, y0


def fitting(work: VectorWork, config: NpuConfig, budget: MemoryBudget) -> VectorPlan | None:
    """The largest tiles that fit twice, yet several per layer; None if none fits even once."""
    _, h, w, c = work.out.shape
    # Of a tile of fewer vectors the fixed cycles of an instruction would be too large a part.
    target = max(h * w * c // OVERLAP, 64 * config.cols)
    # Whole rows of all channels first; then narrower, which makes shorter runs on the bus.
    fallback: VectorPlan | None = None
    # With one buffer nothing overlaps: it is for layers that would not fit otherwise.
    for slots in (2, 1):
        for tc in halvings(c, config.cols) if c > 1 else [1]:
            # Entries of the next channels, if there are any, are loaded while these are in use.
            if work.per_channel and -(-tc // config.cols) > config.param_entries // (
                1 if tc == c else 2
            ):
                continue
            for tw in halvings(w, config.cols if work.flat else 1):
                for th in range(h, 0, -1) if tw == w else [1]:
                    plan = sized(work, config, budget, (th, tw, tc), slots)
                    if plan.spad_bytes > budget.buffer_bytes:
                        continue
                    # It fits: smaller ones are looked at only to have several tiles.
                    fallback = plan
                    if th * tw * tc <= target:
                        return plan
                if fallback is not None and th == 1 and not work.flat and tw * tc <= target:
                    return fallback
        if fallback is not None:
            return fallback
    return None


def sized(
    work: VectorWork,
    config: NpuConfig,
    budget: MemoryBudget,
    tile: tuple[int, int, int],
    slots: int,
) -> VectorPlan:
    """The plan of a tile (rows, columns, channels) with so many buffers in rotation."""
    th, tw, tc = tile
    ins, out, pixels = work.ins, work.out, work.pixels(th, tw)
    word = config.word_bytes
    return VectorPlan(
        th=th,
        tw=tw,
        tc=tc,
        flat=work.flat,
        slots=slots,
        in_bytes=tuple(
            0 if v.tensor in budget.held else -(-pixels * tc * v.item // word) * word for v in ins
        ),
        between_bytes=work.separate * th * work.columns(tw) * aligned(tc * ins[0].item, config),
        out_bytes=0 if out.tensor in budget.held else -(-th * tw * tc * out.item // word) * word,
    )


def aligned(size: int, config: NpuConfig) -> int:
    """Bytes of a pixel between rows and columns of windows: whole words, so that neighbours that a
    step reads as A and B lie in different banks.
    """
    return -(-size // config.word_bytes) * config.word_bytes


def no_tile_fits(layer: Layer, budget: MemoryBudget) -> CompileError:
    """The error for a layer of which not even the smallest tile fits."""
    return CompileError(
        f"no tile of this layer fits in {budget.buffer_bytes} bytes of scratchpad",
        node=layer.name,
        source=layer.source,
        hint="use a configuration with a larger scratchpad, or a smaller window",
    )

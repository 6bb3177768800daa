"""Tensors in memory: parameters of a kernel, of which `load` and `store` move pieces."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from spec.config import NpuConfig
from sw.language.layout import Index, Layout
from sw.language.memory import Piece
from sw.language.source import caller
from sw.language.steps import CopyStep, Semaphore, Sync
from sw.language.types import Spec, item_bytes
from sw.language.values import Tile, Values, write

if TYPE_CHECKING:
    from sw.language.trace import Trace


class Tensor:
    """A tensor in memory, or a piece of one: `shape`, `dtype`; slices are pieces."""

    def __init__(
        self, trace: "Trace", name: str, dtype: str, layout: Layout, text: str = ""
    ) -> None:
        self.trace, self.name, self.dtype, self.layout = trace, name, dtype, layout
        self.text = text or name

    @property
    def shape(self) -> tuple[int, ...]:
        return self.layout.shape

    @property
    def config(self) -> NpuConfig:
        """The configuration that the kernel is traced for."""
        return self.trace.config

    def __getitem__(self, index: Index | tuple[Index, ...]) -> "Tensor":
        layout = self.layout.at(index, self.text)
        return Tensor(self.trace, self.name, self.dtype, layout, f"{self.text}[{_text(index)}]")

    def reshape(self, *shape: int) -> "Tensor":
        """The same elements in the same order in another shape."""
        layout = self.layout.reshaped(shape, item_bytes(self.dtype), self.text)
        return Tensor(self.trace, self.name, self.dtype, layout, self.text)


def _text(index: Index | tuple[Index, ...]) -> str:
    parts = index if isinstance(index, tuple) else (index,)
    shown = []
    for part in parts:
        if isinstance(part, slice):
            ends = ["" if x is None else str(x) for x in (part.start, part.stop)]
            shown.append(":".join(ends))
        else:
            shown.append("..." if part is Ellipsis else str(part))
    return ", ".join(shown)


def load(
    source: Tensor,
    *,
    buffers: int | None = None,
    at: int | None = None,
    wait: Sequence[Semaphore] = (),
    post: Sequence[Semaphore] = (),
) -> Tile:
    """Copy a piece of a tensor to a tile in the scratchpad, row after row.

    `buffers`: how many tiles of this line of source there may be at once; 2 loads the next while
    one is read. Left out, there are as many as are in use at once, and one more if there is room.
    `at`: byte in the part of the scratchpad that the kernel arranges itself. `wait`, `post`: in a
    kernel with `sync="manual"`, semaphores that it takes from before it starts, and adds to when
    the tile can be read.
    """
    trace, line = source.trace, caller()
    if source.name in trace.stored:
        raise trace.error(
            f"{source.text}: is loaded after it was stored: a kernel's tensors are read or written",
            line,
            hint="keep what is needed again on chip",
        )
    trace.loaded.add(source.name)
    piece = trace.scratchpad(source.dtype, source.shape, source.text, line, buffers, at)
    _copy(source, piece, f"load {source.text}", False, Sync(wait=tuple(wait), post=tuple(post)))
    return Tile(trace, piece)


def empty(like: Tensor | Tile, spec: Spec, *, buffers: int | None = None) -> Tile:
    """A tile in the scratchpad that nothing is in yet: `keep(…, into=tile[…])` fills it.

    `like`: a tensor or tile of the kernel. `buffers`: see `load`.
    """
    label = f"{spec.dtype} tile"
    piece = like.trace.scratchpad(spec.dtype, spec.shape, label, caller(), buffers)
    piece.memory.filled = np.zeros(piece.memory.size, np.bool_)
    return Tile(like.trace, piece)


def store(
    target: Tensor,
    values: Values,
    *,
    buffers: int | None = None,
    wait: Sequence[Semaphore] = (),
    post: Sequence[Semaphore] = (),
    read: Sequence[Semaphore] = (),
) -> None:
    """Copy a tile to a piece of a tensor; an expression is computed into the scratchpad first.

    `buffers`: of that tile. `wait`, `post`: as for `load`. `read`: semaphores that it adds to when
    the tile has been read.
    """
    trace, line = target.trace, caller()
    if target.name in trace.loaded:
        raise trace.error(f"{target.text}: is stored after it was loaded", line)
    if values.shape != target.shape:
        raise trace.error(
            f"store: {target.text} is {target.dtype}{list(target.shape)}, the tile "
            f"{values.dtype}{list(values.shape)}",
            line,
            hint="slice the tensor as the tile is cut",
        )
    if values.dtype != target.dtype:
        raise trace.error(
            f"store: {target.text} is {target.dtype}, the tile {values.dtype}",
            line,
            hint=f"requantize(scale, dtype={target.dtype!r}) makes it so",
        )
    if isinstance(values, Tile) and not values.piece.in_acc:
        piece = values.piece
    else:
        piece = write(values, "scratchpad", buffers=buffers).piece
    trace.stored.setdefault(target.name, []).append(target.layout)
    sync = Sync(wait=tuple(wait), post=tuple(post), read=tuple(read))
    _copy(target, piece, f"store {target.text}", True, sync)


def _copy(tensor: Tensor, chip: Piece, label: str, stores: bool, sync: Sync) -> None:
    tensor.trace.add(
        CopyStep(
            line=caller(),
            label=label,
            sync=sync,
            tensor=tensor.name,
            outside=tensor.layout,
            chip=chip,
            stores=stores,
        )
    )

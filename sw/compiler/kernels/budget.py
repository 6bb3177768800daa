"""What a layer may use of the on-chip memories, and how it overlaps with its neighbours."""

import enum
from dataclasses import dataclass

from spec.config import NpuConfig
from sw.compiler.kernels.views import View
from sw.compiler.machine.costs import weight_cycles


class Overlap(enum.Enum):
    """How a layer runs at the same time as its neighbours, on another engine.

    NONE: not at all, or through tensors that stay on chip. ROWS: writer and reader of a tensor in
    memory, the reader a few rows behind. TILES: a product and a fused elementwise layer, of which
    one reads the other's result, a tile behind. CONCURRENT: a product and a fused elementwise layer
    that do not need one another. BESIDE: a product and a depthwise layer that do not. TURNS: layers
    of which each computes another part of the batch.
    """

    NONE = "none"
    ROWS = "rows"
    TILES = "tiles"
    CONCURRENT = "concurrent"
    BESIDE = "beside"
    TURNS = "turns"

    @property
    def parts(self) -> int:
        """Into how many parts the scratchpad is cut, so that such neighbours lie side by side.

        ROWS, TILES: a writer, a reader that writes, and its reader.
        """
        # Allocation lays the buffers of successive layers into a ring: where each takes at most
        # such a part, those of layers that run together lie apart, and none waits for another's.
        return _PARTS[self]


_PARTS = {
    Overlap.NONE: 1,
    Overlap.ROWS: 3,
    Overlap.TILES: 3,
    Overlap.CONCURRENT: 2,
    Overlap.BESIDE: 2,
    Overlap.TURNS: 4,
}

FOLLOWED_TILES = (4, 2)
"""Tiles of a product that another layer follows, or goes before: as many or more."""

LONG_FOLD = 2
"""But none is of fewer vectors than so many times the cycles that a fold's weights take: the array
would read weights all the time, and keep the other layer from the scratchpad."""


def followed_tile(vectors: int, tiles: int, config: NpuConfig) -> int:
    """Most vectors in a tile of such a product of so many `vectors` in `tiles`."""
    return max(LONG_FOLD * weight_cycles(config), vectors // tiles)


@dataclass(frozen=True, slots=True)
class MemoryBudget:
    """What a layer may use: scratchpad bytes from address 0, and the tensors that lie on chip.

    `channelwise`: tensors that only depthwise layers read, which want one channel after another.
    `shares_acc`: the layer and a neighbour take turns in the banks of the accumulator; a product
    has the first and third, or with `other_banks` the second and fourth, or the lower half.
    `row_order`: the layer reads its input row by row behind its writer. `tiles`: into how many the
    product of Overlap.TILES is cut.
    """

    spad_bytes: int
    held: frozenset[str] = frozenset()
    channelwise: frozenset[str] = frozenset()
    shares_acc: bool = False
    other_banks: bool = False
    overlap: Overlap = Overlap.NONE
    row_order: bool = False
    tiles: int = 1

    @property
    def buffer_bytes(self) -> int:
        """Bytes that the buffers of the layer may take."""
        return self.spad_bytes // self.overlap.parts

    def param_entries(self, config: NpuConfig, product: bool) -> int:
        """Entries of the parameter memory that the layer may have, a `product` or one beside it.

        They lie in a ring, too: a product, a layer that follows it and a product that follows that
        one find room side by side.
        """
        parts = {Overlap.TILES: 4 if product else 2, Overlap.CONCURRENT: 2, Overlap.BESIDE: 2}
        return config.param_entries // parts.get(self.overlap, 1)

    @property
    def lower_half(self) -> bool:
        """Whether a product and a fused layer run side by side: of the accumulator the product has
        the lower half, the other the upper one.
        """
        return self.overlap in (Overlap.TILES, Overlap.CONCURRENT)

    @property
    def concurrent(self) -> bool:
        """Whether the layer runs at the same time as its neighbours, on another engine."""
        return self.shares_acc or self.overlap is not Overlap.NONE

    @staticmethod
    def whole(config: NpuConfig) -> "MemoryBudget":
        """All of the scratchpad, nothing on chip."""
        return MemoryBudget(config.spad_bytes)

    def streams(self, view: View, config: NpuConfig) -> bool:
        """Whether the depthwise engine follows the writer of a tensor channel by channel.

        Then both accumulate whole images.
        """
        n, h, w, _ = view.shape
        kept = view.tensor in self.held and view.tensor in self.channelwise
        # With fewer pixels than a fold takes cycles all column blocks are one instruction, and
        # there is no first channel to follow. More than a bank holds, the two engines cannot take
        # in turns.
        return kept and weight_cycles(config) <= n * h * w <= config.acc_bank

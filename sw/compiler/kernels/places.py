"""Places of column blocks in the accumulator."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from spec.config import NpuConfig
from sw.compiler.kernels.conv.geometry import KTile
from sw.compiler.machine.costs import weight_cycles

MAX_UNROLL = 32
"""Most column blocks of one instruction: keeps semaphore counts far from their maximum."""

IN_STEP = 8
"""Places of `Places.in_step`, if as many are there and no more are needed."""


@dataclass(frozen=True, slots=True)
class Places:
    """Accumulator places of column blocks in rotation: `lanes` of `depth`, `pitch` vectors apart.

    Neighbouring blocks lie in different lanes, which are banks of the accumulator, so that VECTOR
    empties one while MATRIX fills another. Tiles so small that MATRIX hardly writes need no lanes.
    Every other bank is left to the depthwise engine where that runs beside (`shared`), or with
    `lower` the upper half to a fused layer.
    """

    lanes: int
    lane: int
    depth: int
    pitch: int

    @staticmethod
    def of(
        vectors: int, needed: int, config: NpuConfig, shared: bool = False, lower: bool = False
    ) -> "Places":
        """Places for tiles of `vectors`, of which `needed` blocks live at once."""
        lane = config.acc_bank if lower else config.acc_half
        halves = Places(2, lane, config.acc_bank // vectors, vectors)
        if shared and halves.count >= max(2, needed):
            return halves
        pitch = 1 << (vectors - 1).bit_length()
        tiny = Places(1, config.acc_vectors, config.acc_vectors // pitch, pitch)
        # So few vectors that loading weights takes longer: VECTOR finds time in any bank.
        if vectors < weight_cycles(config) and tiny.count >= max(2, needed):
            return tiny
        # Four banks in turn: MATRIX fills one, VECTOR empties another.
        banks = Places(4, config.acc_bank, config.acc_bank // vectors, vectors)
        if banks.count >= max(4, needed):
            return banks
        return Places(2, config.acc_half, config.acc_half // vectors, vectors)

    def in_step(self, needed: int) -> "Places":
        """Fewer places, a power of two, that come around within few tiles: the program of a sample
        is then that of the sample before.
        """
        depth = 1 << (self.depth.bit_length() - 1)
        while depth > 1 and self.lanes * depth // 2 >= max(IN_STEP, needed):
            depth //= 2
        fits = self.lanes > 1 and self.lanes * depth >= max(min(self.count, IN_STEP), needed)
        return replace(self, depth=depth) if fits else self

    @property
    def count(self) -> int:
        """How many there are."""
        return self.lanes * self.depth

    def skips(self, config: NpuConfig) -> bool:
        """Whether every other bank stays free."""
        return self.lane == config.acc_half and self.depth * self.pitch <= config.acc_bank

    @property
    def step(self) -> int:
        """From one block to the next of a unit."""
        return self.pitch if self.lanes == 1 else self.lane

    @property
    def unroll(self) -> int:
        """Most column blocks of a unit: the next unit begins before this one's epilogue is done."""
        return max(1, min(MAX_UNROLL if self.lanes == 1 else self.lanes, self.count // 2))

    def vector(self, number: int) -> int:
        """The first vector of a place."""
        number %= self.count
        return number % self.lanes * self.lane + number // self.lanes * self.pitch

    def room(self, number: int) -> int:
        """How many places from `number` on lie regularly."""
        regular = self.count if self.lanes == 1 else self.lanes
        return regular - number % regular


def together(k_tiles: Sequence[KTile], prologue: Sequence[int], tile_n: int) -> int:
    """Places that the blocks of an N tile need at once if it accumulates piecemeal, else 0."""
    if len(k_tiles) > 1 and tile_n > 1:
        # The next N tile begins before this one's epilogue is done.
        return 2 * tile_n
    return tile_n if prologue else 0

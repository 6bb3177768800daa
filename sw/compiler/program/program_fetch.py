"""When fetch hands each instruction to its engine (`hw_gen/blocks/fetch.py`)."""

from dataclasses import dataclass, field
from typing import Protocol

from spec.config import NpuConfig
from spec.isa import GRANULE_BYTES
from sw.compiler.machine.costs import (
    DECODE,
    FETCH_BURSTS_AHEAD,
    FETCH_GRANULE,
    FETCH_MOST_BEATS,
)


class ProgramMemory(Protocol):
    """Where the program is read."""

    def read_program(self, at: float, beats: int) -> float:
        """When the first of the bus words that are asked for `at` that cycle is there."""


@dataclass(slots=True)
class ProgramFetch:
    """Reads bursts of the program ahead, and takes an instruction as soon as its granules are
    there, the one before it has been handed on, and its queue has room. ahead: memory takes a
    request as soon as it is known; else when it is made, in order with those of LOADs (`answer`).
    """

    config: NpuConfig
    memory: ProgramMemory
    ahead: bool = True
    _asked: list[float] = field(default_factory=list)
    _arrival: list[float] = field(default_factory=list)
    _taken: int = 0
    _free: float = 0.0
    _handed: tuple[float, float] = (0.0, 0.0)

    def __post_init__(self) -> None:
        for _ in range(self._ahead):
            self._request(0.0)

    @property
    def _ahead(self) -> int:
        """Bursts that are requested before the first of them has been used up."""
        burst = self.config.max_burst
        beats = max(2 * burst, min(FETCH_BURSTS_AHEAD * burst, FETCH_MOST_BEATS))
        return beats // burst

    def _request(self, at: float) -> None:
        self._asked.append(at)
        if self.ahead:
            self.answer(at)

    def answer(self, now: float) -> None:
        """Memory takes the requests that are made until `now`."""
        for at in self._asked[len(self._arrival) :]:
            if at > now:
                break
            # The bus is shared: bursts come one after another.
            self._arrival.append(self.memory.read_program(at, self.config.max_burst))

    @property
    def begins(self) -> float:
        """When the next instruction is begun."""
        return max(self._free, self._handed[0])

    def take(self, granules: int, room: float) -> float:
        """When the next instruction, of so many granules, is handed to its queue, which has room
        from then on.
        """
        bus = self.config.bus_bytes
        beat = GRANULE_BYTES / bus
        each = max(FETCH_GRANULE, beat)
        burst = max(1, self.config.max_burst * bus // GRANULE_BYTES)
        now, end = self.begins, self._taken + granules
        while self._taken < end:
            number = self._taken // burst
            count = min(end, (number + 1) * burst) - self._taken
            self._taken += count
            if number >= len(self._arrival):
                self.answer(self._asked[number])
            there = self._arrival[number] + (self._taken - number * burst) * beat
            now = max(now + count * each, there)
            if self._taken == (number + 1) * burst:
                self._request(now)
        # A cycle in which the instruction is complete, and takes no more granules.
        self._free = now + 1
        handed = max(now + DECODE, self._handed[1] + 2, room)
        self._handed = (self._handed[1], handed)
        return handed

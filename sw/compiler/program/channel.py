"""How long a memory takes for what LOADs and STOREs ask of it: the timeline's view of it.

The ideal memory has a latency and, in each direction, a bus word a cycle, which is the engines' own
rate. A DRAM has one data bus for both directions, moves whole accesses, and stands still now and
then: its rules are those of `rtl/dram.h`, averaged.
"""

from dataclasses import dataclass
from functools import cached_property

from spec.dram import Dram, dram_named
from sw.compiler.machine.costs import MEMORY_LATENCY
from sw.compiler.program.cycles import pieces
from sw.compiler.program.records import Load
from sw.compiler.program.transfers import BLOCK_BYTES, Transfer


@dataclass(frozen=True)
class MemoryChannel:
    """A memory behind an NPU at `clock_mhz` (None: at the DRAM's own clock). All results are
    cycles of the NPU. dram: None for the ideal memory.
    """

    dram: Dram | None = None
    clock_mhz: float | None = None

    @staticmethod
    def of(memory: str, clock_mhz: float | None = None) -> "MemoryChannel":
        """The memory of that name; `MemoryNameError` if there is none."""
        return MemoryChannel(dram_named(memory), clock_mhz)

    @cached_property
    def latency(self) -> float:
        """From a request to its data: a row is closed, and one is opened."""
        if self.dram is None:
            return MEMORY_LATENCY
        dram, clock = self.dram, self._clock
        core = dram.controller_ns + dram.precharge + dram.activate
        return core * self._per_ns + (dram.read_latency + dram.burst / 2) * clock

    @cached_property
    def flight(self) -> float:
        """The same where the row is open."""
        if self.dram is None:
            return MEMORY_LATENCY
        dram = self.dram
        clocks = dram.read_latency + dram.burst / 2
        return dram.controller_ns * self._per_ns + clocks * self._clock

    def stream(self, size: float, *, alone: bool = False) -> float:
        """For `size` bytes in a row; alone: between accesses to other places."""
        if self.dram is None:
            return 0.0
        accesses = size / self.dram.access_bytes
        if alone and accesses < 1:
            # All of an access for a part of it, and half of the time another one anew whose parts
            # it comes between.
            accesses = 1.5
        return accesses * self._access(1)

    def work(self, record: Load, moved: Transfer) -> float:
        """In which the data bus is taken by a LOAD; 0 where memory is as fast as the engines."""
        if self.dram is None or record.fill:
            return 0.0
        size = self.dram.access_bytes
        run, _, pitch = pieces(record)
        step = 1 if pitch < size or run > size else pitch // size
        return moved.blocks * BLOCK_BYTES / size * self._access(step)

    @cached_property
    def write_alone(self) -> float:
        """From a write to the next while nobody reads: each is begun when the data bus is free."""
        assert self.dram is not None
        return (self.dram.write_latency + self.dram.burst / 2) * self._clock

    def forced(self, writes: float) -> float:
        """For writes that reads wait for, since many do."""
        return writes * self._access(1) + self._turn

    @cached_property
    def _clock(self) -> float:
        """Cycles of the NPU in a clock of the DRAM."""
        assert self.dram is not None
        return (self.clock_mhz or self.dram.clock_mhz) / self.dram.clock_mhz

    @cached_property
    def _per_ns(self) -> float:
        assert self.dram is not None
        return (self.clock_mhz or self.dram.clock_mhz) / 1e3

    def _access(self, step: int) -> float:
        """From an access to one `step` accesses further, refresh included."""
        dram = self.dram
        assert dram is not None
        clocks = max(dram.burst / 2, dram.next_other if step % dram.groups else dram.next_group)
        time = clocks * self._clock
        if step * dram.access_bytes >= dram.groups * dram.page_bytes:
            time = max(time, dram.four_activates / 4 * self._per_ns)
        return time / (1 - dram.refresh / dram.refresh_every)

    @cached_property
    def _turn(self) -> float:
        """From reads to writes and back, beyond the data."""
        dram = self.dram
        assert dram is not None
        clocks = dram.read_latency + 2 + dram.burst / 2
        return clocks * self._clock + dram.turn_group * self._per_ns

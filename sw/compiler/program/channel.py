"""How long a memory takes for what LOADs and STOREs ask of it: the timeline's view of it.

The ideal memory has a latency and, in each direction, a bus word a cycle, which is the engines' own
rate. A DRAM has one data bus for both directions, moves whole accesses, and stands still now and
then: its rules are those of `rtl/dram.h`, averaged here; `dram/` has those that depend on where
things lie.
"""

from dataclasses import dataclass
from functools import cached_property

from spec.dram import Dram, dram_named
from sw.compiler.machine.costs import MEMORY_LATENCY
from sw.compiler.program.cycles import pieces
from sw.compiler.program.dram.addresses import NOWHERE, Addresses
from sw.compiler.program.dram.paths import BLOCK_BYTES
from sw.compiler.program.records import Load
from sw.compiler.program.transfers import Transfer


@dataclass(frozen=True)
class MemoryChannel:
    """A memory behind an NPU at `clock_mhz` (None: at the DRAM's own clock). All results are
    cycles of the NPU. dram: None for the ideal memory. addresses: where the program lies in it.
    """

    dram: Dram | None = None
    clock_mhz: float | None = None
    addresses: Addresses = NOWHERE

    @staticmethod
    def of(
        memory: str, clock_mhz: float | None = None, addresses: Addresses = NOWHERE
    ) -> "MemoryChannel":
        """The memory of that name; `MemoryNameError` if there is none."""
        return MemoryChannel(dram_named(memory), clock_mhz, addresses)

    @cached_property
    def flight(self) -> float:
        """From a request to its data, where the row is open."""
        if self.dram is None:
            return MEMORY_LATENCY
        dram = self.dram
        clocks = dram.read_latency + dram.burst / 2
        return dram.controller_ns * self._per_ns + clocks * self._clock

    def stream(self, size: float) -> float:
        """For `size` bytes in a row."""
        return 0.0 if self.dram is None else size / self.dram.access_bytes * self._access(1)

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

    @cached_property
    def cycle(self) -> float:
        """Picoseconds of a cycle."""
        assert self.dram is not None
        return 1e6 / (self.clock_mhz or self.dram.clock_mhz)

    def block(self, place: int) -> int:
        """The number of a DRAM's access at a place, which is that of a block of a region."""
        return self.addresses.place(place * BLOCK_BYTES) // BLOCK_BYTES

    @cached_property
    def drive(self) -> float:
        """From the command of a read to its data on the bus."""
        assert self.dram is not None
        return self.dram.read_latency * self._clock

    @cached_property
    def to_read(self) -> float:
        """From written data to the command of a read, in another bank group."""
        assert self.dram is not None
        return self.dram.turn_other * self._per_ns

    @cached_property
    def to_read_near(self) -> float:
        """The same in that bank group."""
        assert self.dram is not None
        return self.dram.turn_group * self._per_ns

    @cached_property
    def access(self) -> float:
        """From an access to the next one in a row."""
        assert self.dram is not None
        return self.dram.burst / 2 * self._clock

    @cached_property
    def there(self) -> float:
        """From a request to the DRAM's command."""
        assert self.dram is not None
        return self.dram.controller_ns / 2 * self._per_ns

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
        """From an access to one `step` accesses further."""
        dram = self.dram
        assert dram is not None
        clocks = max(dram.burst / 2, dram.next_other if step % dram.groups else dram.next_group)
        time = clocks * self._clock
        if step * dram.access_bytes >= dram.groups * dram.page_bytes:
            time = max(time, dram.four_activates / 4 * self._per_ns)
        return time

    @cached_property
    def refresh(self) -> float:
        """Without accesses for each refresh: those under way end, rows are closed, and one is
        opened.
        """
        dram = self.dram
        assert dram is not None
        clock = 1e3 / dram.clock_mhz
        ends = (dram.read_latency + dram.burst / 2) * clock
        closes = dram.read_to_precharge + dram.precharge
        begins = dram.refresh + dram.activate
        return (max(ends, closes) + begins - dram.burst / 2 * clock) * self._per_ns

    @cached_property
    def turn(self) -> float:
        """From reads to writes and back, beyond the data."""
        dram = self.dram
        assert dram is not None
        return 2 * self._clock + self.to_read + self.drive

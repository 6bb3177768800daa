"""The memories that a program can be run with: parameters of DRAMs and the sources they are from.

`ideal` is no DRAM: a fixed latency, and a bus word a cycle and direction. The others are one
channel behind a controller that keeps rows open. Times are those of data sheets; one in clocks of
the DRAM is rounded up to whole clocks, as the standards ask for.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from spec.errors import SystolaError
from spec.names import did_you_mean

IDEAL = "ideal"


class MemoryNameError(SystolaError, ValueError):
    """No memory has that name; the message has those that there are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dram:
    """One channel of a DRAM.

    source: where the figures are from. clock_mhz: of its interface; data move on both edges.
    width: bits of the data bus. burst: transfers of an access. groups, banks: bank groups, and
    banks in each. page_bytes: of an open row, over the whole width. read_latency, write_latency,
    next_other, next_group: clocks from command to data, and from one access to the next, of another
    and of the same bank group. All others are nanoseconds. controller_ns: of the controller, there
    and back: no data sheet has it.
    """

    source: str
    clock_mhz: float
    width: int
    burst: int
    groups: int
    banks: int
    page_bytes: int
    read_latency: int
    write_latency: int
    next_other: int
    next_group: int
    activate: float
    precharge: float
    active: float
    activate_other: float
    activate_group: float
    four_activates: float
    turn_other: float
    turn_group: float
    write_recovery: float
    read_to_precharge: float
    refresh: float
    refresh_every: float
    controller_ns: float = 20.0

    @property
    def access_bytes(self) -> int:
        """Bytes of an access."""
        return self.width // 8 * self.burst

    @property
    def bytes_per_s(self) -> float:
        """The most that the data bus moves."""
        return 2e6 * self.clock_mhz * self.width / 8

    def bytes_per_cycle(self, clock_mhz: float | None = None) -> float:
        """The same in a cycle of an NPU at `clock_mhz`; None: at the DRAM's clock."""
        return self.bytes_per_s / (1e6 * (clock_mhz or self.clock_mhz))

    def picoseconds(self, clock_mhz: float | None = None) -> dict[str, int]:
        """What the simulated memory takes (`DramTiming` in rtl/dram.h), for an NPU at `clock_mhz`;
        None: at the DRAM's clock.
        """
        clock = 1e6 / self.clock_mhz

        def clocks(count: float) -> int:
            return round(count * clock)

        def ns(time: float) -> int:
            return clocks(math.ceil(time * 1e3 / clock - 1e-9))

        transfer = self.burst / 2
        return {
            "present": 1,
            "cycle": round(1e6 / (clock_mhz or self.clock_mhz)),
            "controller": round(self.controller_ns * 1e3),
            "access_bytes": self.access_bytes,
            "data": clocks(transfer),
            "groups": self.groups,
            "banks": self.banks,
            "page_bytes": self.page_bytes,
            "read_latency": clocks(self.read_latency),
            "write_latency": clocks(self.write_latency),
            "activate": ns(self.activate),
            "precharge": ns(self.precharge),
            "active": ns(self.active),
            "activate_other": ns(self.activate_other),
            "activate_group": ns(self.activate_group),
            "four_activates": ns(self.four_activates),
            "next_other": clocks(self.next_other),
            "next_group": clocks(self.next_group),
            "turn_other": ns(self.turn_other),
            "turn_group": ns(self.turn_group),
            # The bus has to be free of read data, and its driver off, for two clocks.
            "read_to_write": clocks(self.read_latency + transfer + 2 - self.write_latency),
            "write_recovery": ns(self.write_recovery),
            "read_to_precharge": ns(self.read_to_precharge),
            "refresh": ns(self.refresh),
            "refresh_every": ns(self.refresh_every),
        }


DDR4_2400 = Dram(
    source="JEDEC JESD79-4 and Micron's data sheet of the 8 Gb DDR4 SDRAM (MT40A1G8, -083E: "
    "DDR4-2400, 17-17-17), eight devices of 8 bits",
    clock_mhz=1200,
    width=64,
    burst=8,
    groups=4,
    banks=4,
    page_bytes=8192,
    read_latency=17,
    write_latency=12,
    next_other=4,
    next_group=6,
    activate=14.16,
    precharge=14.16,
    active=32,
    activate_other=3.3,
    activate_group=4.9,
    four_activates=21,
    turn_other=2.5,
    turn_group=7.5,
    write_recovery=15,
    read_to_precharge=7.5,
    refresh=350,
    refresh_every=7800,
)

LPDDR4_3200 = Dram(
    source="JEDEC JESD209-4 and Micron's data sheet of the LPDDR4 SDRAM with 8 Gb a channel "
    "(3200 Mb/s), two channels of 16 bits that work as one",
    clock_mhz=1600,
    width=32,
    burst=16,
    groups=1,
    banks=8,
    page_bytes=4096,
    read_latency=28,
    write_latency=14,
    next_other=8,
    next_group=8,
    activate=18,
    precharge=18,
    active=42,
    activate_other=10,
    activate_group=10,
    four_activates=40,
    turn_other=10,
    turn_group=10,
    write_recovery=18,
    read_to_precharge=7.5,
    refresh=280,
    refresh_every=3904,
)

MEMORIES: Mapping[str, Dram | None] = {
    IDEAL: None,
    "ddr4": DDR4_2400,
    "lpddr4": LPDDR4_3200,
}
"""By the name that `--memory` takes."""


def dram_named(name: str) -> Dram | None:
    """The DRAM of that name, None for `ideal`; `MemoryNameError` if there is none."""
    if name not in MEMORIES:
        near = did_you_mean(name, MEMORIES)
        raise MemoryNameError(f"--memory {name}: must be one of {', '.join(MEMORIES)}{near}")
    return MEMORIES[name]

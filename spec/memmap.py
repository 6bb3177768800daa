"""The register map: 32-bit registers behind the AXI4-Lite port, one table."""

import enum
from dataclasses import dataclass

from spec.isa import REGIONS, Engine

ID_VALUE = 0x5359_5354
REGION_ALIGN = 64
"""Bytes that the base of a region is a multiple of: the widest bus word."""
WATCHDOG_CYCLES = 1 << 20
"""What the watchdog waits for if nobody says anything."""
LIMIT_BITS = 32
"""Width of a region's limit: its size in bytes."""
ADDR_BITS = 12


class Stall(enum.IntEnum):
    """What an engine did in a cycle; the six counters of an engine sum to the run's cycles."""

    BUSY = 0
    SEMAPHORE = 1
    MEMORY = 2
    BANK = 3
    PIPELINE = 4
    IDLE = 5


class Fault(enum.IntEnum):
    NONE = 0
    ILLEGAL_INSTRUCTION = 1
    CHIP_ADDRESS = 2
    AXI_ERROR = 3
    SEMAPHORE_OVERFLOW = 4
    DIGEST_MISMATCH = 5
    WATCHDOG = 6
    OUTSIDE_REGION = 7
    TIME_LIMIT = 8


class Control(enum.IntFlag):
    START = 1
    RESET = 2


class Status(enum.IntFlag):
    BUSY = 1
    DONE = 2
    FAULT = 4


@dataclass(frozen=True, slots=True)
class Register:
    name: str
    offset: int
    access: str
    doc: str
    reset: int = 0
    region: int | None = None
    """Whose base or limit it is."""


def _counters() -> list[Register]:
    out = []
    for engine in Engine:
        for stall in Stall:
            base = 0x200 + 8 * (engine * 8 + stall)
            what = f"cycles in which {engine.name.lower()} was {stall.name.lower()}"
            name = f"COUNT_{engine.name}_{stall.name}"
            out.append(Register(f"{name}_LO", base, "ro", what + ", low word"))
            out.append(Register(f"{name}_HI", base + 4, "ro", what + ", high word"))
    return out


REGISTERS: tuple[Register, ...] = (
    Register("ID", 0x000, "ro", f"{ID_VALUE:#x}"),
    Register("ISA_VERSION", 0x004, "ro", "major << 16 | minor"),
    Register("ISA_DIGEST_LO", 0x008, "ro", "digest of the instruction table, low word"),
    Register("ISA_DIGEST_HI", 0x00C, "ro", "high word"),
    Register("CONFIG_DIGEST_LO", 0x010, "ro", "digest of the configuration, low word"),
    Register("CONFIG_DIGEST_HI", 0x014, "ro", "high word"),
    Register("CONTROL", 0x018, "wo", "bit 0 START, bit 1 RESET (soft: everything but regions)"),
    Register("STATUS", 0x01C, "ro", "bit 0 BUSY, bit 1 DONE, bit 2 FAULT"),
    Register("IRQ_ENABLE", 0x020, "rw", "bit 0: raise the interrupt on DONE or FAULT"),
    Register("IRQ_STATUS", 0x024, "rw1c", "bit 0: DONE or FAULT happened"),
    Register("FAULT_CAUSE", 0x028, "ro", "first fault's cause"),
    Register("FAULT_ENGINE", 0x02C, "ro", "the engine that faulted"),
    Register("FAULT_INSTRUCTION", 0x030, "ro", "index of its instruction, BEGIN being 0"),
    Register("FAULT_REGION", 0x034, "ro", "OUTSIDE_REGION: the region; else 0"),
    Register("PROGRAM_LO", 0x038, "rw", "program address in memory, low word; 16-byte aligned"),
    Register("PROGRAM_HI", 0x03C, "rw", "high word"),
    Register("PROGRAM_BYTES", 0x040, "rw", "program size; fetch never reads past it"),
    Register(
        "WATCHDOG",
        0x044,
        "rw",
        f"cycles without progress before a fault; 0: off; after a reset {WATCHDOG_CYCLES}",
        reset=WATCHDOG_CYCLES,
    ),
    Register("CYCLES_LO", 0x048, "ro", "cycles from START to DONE, low word"),
    Register("CYCLES_HI", 0x04C, "ro", "high word"),
    Register("VECTORS_LO", 0x050, "ro", "activation vectors issued to the array, low word"),
    Register("VECTORS_HI", 0x054, "ro", "high word"),
    Register("READ_BYTES_LO", 0x058, "ro", "bytes read on AXI (beats x bus), low word"),
    Register("READ_BYTES_HI", 0x05C, "ro", "high word"),
    Register("WRITE_BYTES_LO", 0x060, "ro", "bytes written on AXI (strobed), low word"),
    Register("WRITE_BYTES_HI", 0x064, "ro", "high word"),
    Register("TIME_LIMIT", 0x070, "rw", "cycles from START before a fault; 0: off"),
    Register("FAULT_OFFSET_LO", 0x068, "ro", "OUTSIDE_REGION: first byte, from the base; low word"),
    Register("FAULT_OFFSET_HI", 0x06C, "ro", "high word: bits 39…32"),
    *(
        Register(
            f"BASE{i}_{half}",
            0x080 + 8 * i + 4 * j,
            "rw",
            f"base of region {i}, {'multiple of 64' if half == 'LO' else 'high word'}",
            region=i,
        )
        for i in range(REGIONS)
        for j, half in enumerate(("LO", "HI"))
    ),
    *(
        Register(f"LIMIT{i}", 0x100 + 4 * i, "rw", f"bytes of region {i}; 0: no access", region=i)
        for i in range(REGIONS)
    ),
    *(
        Register(
            f"PC_{e.name}", 0x0E0 + 4 * e, "ro", f"instruction index that {e.name.lower()} is at"
        )
        for e in Engine
    ),
    *_counters(),
)

OFFSETS: dict[str, int] = {r.name: r.offset for r in REGISTERS}

"""Addresses of the register port of several NPUs: rtl/npus has the same numbers."""

PAGE = 1 << 12
"""Bytes of a page: page 0 has doorbells and runners, page i + 1 the registers of NPU i."""
ID, ID_VALUE = 0x000, 0x53594E50
NPUS = 0x004
GO = 0x008
"""Write: a bit for each runner that is to begin. Read: runners that are active."""
STOP = 0x00C
"""Write: every runner rests. Read: runners that ended with an error."""
IRQ = 0x010
"""Read: whether the interrupt is up. Write: it falls."""
BAD_BELL = 0x014
CYCLES = 0x018
"""From GO until every runner rests, 64 bits."""
MEMORY_READS, MEMORY_WRITES = 0x020, 0x024
BAD = 1 << 31
"""Of BAD_BELL: there was one; its address is in the low 12 bits. Of BELL0, BELL1: ring it."""

SEMAPHORES = 4
MOST_RINGS = 255
"""What a semaphore holds at most."""
RUNNER = (
    *("RUNS", "IN_LO", "IN_HI", "IN_STRIDE", "IN_BUFFERS"),
    *("OUT_LO", "OUT_HI", "OUT_STRIDE", "OUT_BUFFERS"),
    *("WAIT", "BELL0", "BELL1", "COMPLETED", "BUSY", "WAITED", "ERROR"),
)
"""Registers of a runner, in order."""
RUNNER_ERRORS = {1: "its NPU stopped with a fault", 2: "it rang a doorbell that is not there"}
COUNTERS = ("READS", "WRITES", "READ_WAITS", "WRITE_WAITS")
"""Counters of an NPU's bus, in order: words, and cycles in which one waited for its turn."""


def npu_page(npu: int, offset: int = 0) -> int:
    """Address of a register of NPU `npu`."""
    return PAGE * (npu + 1) + offset


def doorbell(npu: int, semaphore: int) -> int:
    """Address of a doorbell."""
    return 0x800 + 16 * npu + 4 * semaphore


def runner(npu: int, name: str) -> int:
    """Address of a register of `RUNNER`."""
    return 0x400 + 64 * npu + 4 * RUNNER.index(name)


def counter(npu: int, name: str) -> int:
    """Address of a counter of `COUNTERS`."""
    return 0xC00 + 32 * npu + 4 * COUNTERS.index(name)

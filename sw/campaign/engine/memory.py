"""Memory that a process holds with everything below it."""

import contextlib

import psutil


def tree_bytes(pid: int) -> int:
    """Bytes of process `pid` and of all below it; pages that several share count once.

    Where the system does not tell shared pages apart they count for each process.
    """
    total = 0
    with contextlib.suppress(psutil.Error):
        process = psutil.Process(pid)
        for one in (process, *process.children(recursive=True)):
            with contextlib.suppress(psutil.Error):
                facts = one.memory_full_info()
                total += getattr(facts, "pss", facts.rss)
    return total

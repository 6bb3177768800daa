"""How much memory this process may still take: what cannot fit is refused before it is made."""

import contextlib
import resource
from collections.abc import Iterator
from pathlib import Path

from spec.errors import SystolaError


class MemoryLimitError(SystolaError):
    """Something that would take more memory than there is; the message has both figures."""


def require_memory(wanted: int, what: str) -> None:
    """`MemoryLimitError` if `wanted` bytes for `what` are more than `available_memory()`."""
    free = available_memory()
    if free is not None and wanted > free:
        raise MemoryLimitError(
            f"{what} needs about {wanted:,} bytes of memory, this process can have {free:,}; use "
            "smaller shapes or a machine with more memory"
        )


def available_memory() -> int | None:
    """Bytes that this process may still take: the machine's, the container's, its own limit."""
    return min(_limits(), default=None)


def _limits() -> Iterator[int]:
    with contextlib.suppress(OSError, ValueError, StopIteration):
        lines = Path("/proc/meminfo").read_text().splitlines()
        yield 1024 * int(next(x for x in lines if x.startswith("MemAvailable")).split()[1])
    with contextlib.suppress(OSError, ValueError):
        group = Path("/sys/fs/cgroup")
        most = int((group / "memory.max").read_text())
        yield max(0, most - int((group / "memory.current").read_text()))
    soft, _ = resource.getrlimit(resource.RLIMIT_AS)
    if soft != resource.RLIM_INFINITY:
        with contextlib.suppress(OSError, ValueError):
            pages = int(Path("/proc/self/statm").read_text().split()[0])
            yield max(0, soft - pages * resource.getpagesize())

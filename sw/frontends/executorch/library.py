"""The shared library that ExecuTorch calls: built once from `delegate.cpp`, then loaded.

It is built against the headers and the library of the installed package, whose C++ interface
changes with every release: the entry of the build cache is named by that package, the source, and
the compiler.
"""

import ctypes
import hashlib
import subprocess
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

from sw.frontends.executorch.errors import MISSING, ExecuTorchError
from sw.runtime.simulator.cache import BuildCache
from sw.runtime.simulator.verilator import find_compiler

PREFIX = "executorch"
"""What the names of these entries begin with."""

_SOURCE = Path(__file__).with_name("delegate.cpp")
_LIBRARY = "libsystola_delegate.so"
_PORTABLE = "executorch/runtime/core/portable_type/c10"


def load_library() -> ctypes.CDLL:
    """The library, built if need be. `ExecuTorchError` has the compiler's message."""
    package = _package()
    compiler, compiler_version = find_compiler()
    facts = (version("executorch"), str(package), compiler_version, _SOURCE.read_text())
    key = f"{PREFIX}-{hashlib.sha256(repr(facts).encode()).hexdigest()[:32]}"
    with BuildCache().obtain(key, lambda folder: _build(folder, package, compiler)) as entry:
        try:
            return ctypes.CDLL(str(entry.path / _LIBRARY))
        except OSError as error:
            raise ExecuTorchError(f"{entry.path / _LIBRARY}: cannot be loaded: {error}") from None


def _package() -> Path:
    """The folder of the package, which has the headers and the library of the runtime."""
    spec = find_spec("executorch")
    if spec is None or not spec.submodule_search_locations:
        raise ExecuTorchError(MISSING)
    folder = Path(next(iter(spec.submodule_search_locations)))
    if not (folder / "lib" / "libexecutorch.so").is_file():
        raise ExecuTorchError(
            f"{folder}: has no lib/libexecutorch.so, which the wheels of executorch 1.5 for Linux "
            "have; reinstall it"
        )
    return folder


def _build(folder: Path, package: Path, compiler: str) -> None:
    include, libraries = package / "include", package / "lib"
    flags = ["-std=c++17", "-O2", "-shared", "-fPIC", "-DC10_USING_CUSTOM_GENERATED_MACROS"]
    headers = ["-isystem", str(include), "-isystem", str(include / _PORTABLE)]
    linked = [f"-L{libraries}", "-lexecutorch", f"-Wl,-rpath,{libraries}"]
    output = ["-o", str(folder / _LIBRARY)]
    command = [compiler, *flags, *headers, str(_SOURCE), *output, *linked]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        lines = done.stderr.strip().splitlines()
        first = next((line for line in lines if "error" in line), "".join(lines[:1]))
        raise ExecuTorchError(
            f"{_SOURCE.name}: cannot be built against executorch {version('executorch')}: {first}"
        )

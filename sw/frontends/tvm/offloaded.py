"""`Offloaded`: a module with programs of the NPU, machines that run it, its file; `load`."""

import re
import weakref
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sw.frontends.delegates.options import run_options
from sw.frontends.delegates.report import DelegateReport, make_report
from sw.frontends.tvm.errors import TvmError, first_line, tvm
from sw.frontends.tvm.host import PREFIX, Host
from sw.frontends.tvm.values import built, open_machine

_SESSION = re.compile(re.escape(PREFIX) + r"[0-9a-f]{12}")


class Offloaded:
    """`module` is the IRModule in which each region on the NPU is a call of its program.

    `machine()` runs it. `relax.build(offloaded.module, target)` and `relax.VirtualMachine` do as
    well, as long as this object lives while the machine is made.
    """

    def __init__(
        self,
        *,
        module: Any,
        name: str,
        host: Host,
        rows: Sequence[Mapping[str, str]],
    ) -> None:
        self.module, self.name = module, name
        self._host, self._rows = host, rows
        self._found = weakref.finalize(self, host.found().close)

    def machine(self, target: Any = "llvm") -> Any:
        """A `relax.VirtualMachine` on the CPU. target: what TVM compiles the rest for."""
        executable = self._built(target)
        with self._host.found():
            return open_machine(executable)

    def save(self, path: str | Path, target: Any = "llvm") -> None:
        """Write what TVM compiled, with the programs in it, as a library for `load`.

        TVM links it with the C compiler of the machine.
        """
        executable = self._built(target)
        try:
            executable.export_library(str(path))
        except Exception as error:  # TVM's, of its linker, of the file system
            raise TvmError(f"{path}: cannot be written: {first_line(error)}") from error

    def report(self) -> DelegateReport:
        """Where each call runs and why, and what the programs have done so far."""
        return make_report(self.name, self._host.options.device, self._host.delegates, self._rows)

    def _built(self, target: Any) -> Any:
        try:
            return built(self.module, target)
        except Exception as error:
            raise TvmError(f"{self.name}: TVM cannot build it: {first_line(error)}") from error


class Library:
    """A library that `Offloaded.save` wrote: `machine()` runs it, `report()` tells of programs."""

    def __init__(self, *, library: Any, name: str, host: Host) -> None:
        self.library, self.name, self._host = library, name, host

    def machine(self) -> Any:
        """A `relax.VirtualMachine` on the CPU, whose programs have the options of `load`."""
        with self._host.found():
            return open_machine(self.library)

    def report(self) -> DelegateReport:
        """What the programs that were called have done so far."""
        return make_report(self.name, self._host.options.device, self._host.delegates)


def load(path: str | Path, **options: Any) -> Library:
    """A library that `Offloaded.save` wrote. It is code of the machine: load what you trust.

    options: device, latency, stall, seed, clock_mhz, memory, check; verify compares the RTL of each
    run with the golden model. `TvmError` for a file that is no such library.
    """
    chosen = run_options(options)
    package = tvm()
    if not Path(path).is_file():
        raise TvmError(f"{path}: no such file")
    try:
        library = package.runtime.load_module(str(path))
        text = str(library["stats"]())
    except Exception as error:  # whatever the system says of the file
        raise TvmError(f"{path}: no library of TVM: {first_line(error)}") from error
    found = sorted(set(_SESSION.findall(text)))
    if len(found) != 1:
        raise TvmError(f"{path}: no library that systola.tvm.offload(…).save wrote")
    return Library(library=library, name=str(path), host=Host(chosen, name=found[0]))

"""One Verilator build: Verilog and C++ in, a program out."""

import os
import shutil
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from sw.runtime.simulator.cache import BuildCache
from sw.runtime.simulator.counts import counts_of
from sw.runtime.simulator.errors import BuildError
from sw.runtime.simulator.guarded import Guarded
from sw.runtime.simulator.verilator import (
    cocotb_libs,
    digest,
    find_compiler,
    find_verilator,
)

JOBS = 2
SPLIT = 20000
"""Size at which Verilator starts another C++ file, so that all cores have work."""
SPLIT_FUNCTIONS = 2000
"""Size at which Verilator starts another C++ function: time to compile grows faster than size."""

LIBRARY = ("verilated", "verilated_dpi", "verilated_threads", "verilated_timing", "verilated_vpi")
"""Files of Verilator's own library that are compiled once for all simulators.

What they compile to depends on no option of Verilator. Coroutines need a flag (`VM_TIMING`).
"""
_LIBRARY_MAKE = (
    *("VM_TIMING=1", "VM_COVERAGE=0", "VM_TRACE=0", "VM_TRACE_FST=0", "VM_TRACE_SAIF=0"),
    *("VM_TRACE_VCD=0", "OPT_GLOBAL=-O2 -march=native", f"VM_GLOBAL_FAST={' '.join(LIBRARY)}"),
)

QUICK = "SYSTOLA_QUICK_BUILD"
"""Set to 1: C++ is compiled as one file and optimized less, for runs as short as those of tests."""

ONE_FILE = "VM_PARALLEL_BUILDS=0"
"""Headers are read once: half the compiler's time, but on one core."""

Say = Callable[[str], None]


def environment_flag(name: str) -> bool:
    """Whether the environment sets `name` to 1; `BuildError` says what it may be."""
    value = os.environ.get(name, "0")
    if value not in ("0", "1", ""):
        raise BuildError(f"{name}={value}: must be 0 or 1")
    return value == "1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """What to build and how.

    title: for messages. verilog: sources, packages first. controls: `.vlt` files. cpp: C++
    sources, the one with `main` among them. flags: of Verilator. make: variables of its makefile.
    vpi: link cocotb. parameters: of the top module.
    """

    title: str
    top: str
    verilog: Sequence[Path]
    cpp: Sequence[Path]
    controls: Sequence[Path] = ()
    flags: Sequence[str] = ()
    make: Sequence[str] = ()
    vpi: bool = True
    parameters: Mapping[str, int] = field(default_factory=dict)

    def settings(self) -> str:
        """What a key needs to hold beside the digests of the files."""
        parameters = sorted(self.parameters.items())
        return repr((self.top, self.flags, self._options(), parameters, SPLIT, SPLIT_FUNCTIONS))

    def _options(self) -> tuple[str, ...]:
        """Variables of the makefile."""
        if not environment_flag(QUICK):
            return tuple(self.make)
        return (*(text.replace("-O2 -march=native", "-O1") for text in self.make), ONE_FILE)

    def verilate(self, objects: Path) -> list[str]:
        """The Verilator call that writes C++ into `objects`."""
        link = ("-LDFLAGS", f"-L{cocotb_libs()} -lcocotbvpi_verilator") if self.vpi else ()
        folders = dict.fromkeys(p.parent for p in self.cpp)
        return [
            str(find_verilator().command),
            *("--cc", "--exe", "--prefix", "Vtop", "--top-module", self.top),
            *("-Mdir", str(objects), *self.flags, *(("--vpi",) if self.vpi else ())),
            *("-Wno-fatal", "--timescale", "1ns/1ns", "--output-split", str(SPLIT)),
            *("--output-split-cfuncs", str(SPLIT_FUNCTIONS)),
            *(f"-G{name}={value}" for name, value in self.parameters.items()),
            *("-CFLAGS", " ".join(f"-I{folder}" for folder in folders), *link),
            *map(str, (*self.controls, *self.verilog, *self.cpp)),
        ]

    def compile(self, objects: Path, extra: Sequence[str] = (), link: str = "") -> list[str]:
        """The call of `make` that turns that C++ into `objects`/Vtop.

        extra, link: more options of the compiler and of the linker.
        """
        make = ["make", "-C", str(objects), "-f", "Vtop.mk", "-j", str(JOBS)]
        options = self._options()
        compiler = find_compiler()[0]
        make += [f"CXX={compiler}", f"LINK={compiler}", *find_verilator().make_vars, *options]
        if extra:
            last = next(text for text in reversed(options) if text.startswith("OPT_FAST="))
            make += [" ".join((last, *extra)), f"LOADLIBES={link}"]
        return [*make, "Vtop"]


def cook(
    recipe: Recipe,
    folder: Path,
    cache: BuildCache,
    say: Say,
    train: Callable[[Path], None] | None = None,
) -> dict[str, float]:
    """Build `folder`/simulator; returns the seconds of each step.

    Verilator's own library is compiled once per `cache`. `BuildError` with the tail of the tools'
    output, which is all in `folder`/build.log. train: runs a program that counts what it executes;
    the simulator is then compiled again with these counts.
    """
    objects = folder / "obj"
    start = time.monotonic()
    run = _Runner(recipe.title, folder / "build.log", say)
    run(recipe.verilate(objects))
    verilated = time.monotonic()
    names = [f"{name}.o" for name in LIBRARY]

    def build_library(target: Path) -> None:
        run([*recipe.compile(objects)[:-1], *_LIBRARY_MAKE, *names])
        for name in names:
            shutil.copy(objects / name, target)

    with cache.obtain(f"library-{digest([*_LIBRARY_MAKE, *names], [])}", build_library) as library:
        for name in names:
            # The time of the copy is now: make takes it for up to date.
            shutil.copyfile(library.path / name, objects / name)
    if train is None:
        run(recipe.compile(objects))
    else:
        counts = counts_of(*find_compiler(), objects)
        run(recipe.compile(objects, counts.counting, counts.link))
        train(objects / "Vtop")
        counts.merge(run)
        for path in objects.iterdir():
            if path.suffix in (".o", ".a") and path.name not in names:
                path.unlink()
        (objects / "Vtop").unlink()
        run(recipe.compile(objects, counts.counted))
    (objects / "Vtop").rename(folder / "simulator")
    shutil.rmtree(objects)
    return {"verilate": verilated - start, "compile": time.monotonic() - verilated}


class _Runner:
    """Runs tools into one log, says every now and then that it is still at it."""

    def __init__(self, title: str, log: Path, say: Say) -> None:
        self._title, self._log, self._say = title, log, say
        self._start = time.monotonic()

    def __call__(self, command: Sequence[str]) -> None:
        env = {**os.environ, **find_verilator().env}
        # make's settings would leak into the build when `make sim` started us.
        for name in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS", "CXXFLAGS", "LDFLAGS", "CPPFLAGS"):
            env.pop(name, None)
        with self._log.open("ab") as log:
            log.write((" ".join(command) + "\n").encode())
            log.flush()
            # A compiler must not go on for minutes when whoever wanted the build is gone.
            tool = Guarded(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=env)
            try:
                code = self._wait(tool)
            finally:
                tool.kill()
        if code:
            tail = "\n".join(self._log.read_text(errors="replace").splitlines()[-40:])
            raise BuildError(f"{self._title}: {Path(command[0]).name} failed:\n{tail}")

    def _wait(self, tool: Guarded) -> int:
        while True:
            try:
                return tool.wait(timeout=15)
            except subprocess.TimeoutExpired:
                self._say(f"{self._title}… {time.monotonic() - self._start:.0f} s")

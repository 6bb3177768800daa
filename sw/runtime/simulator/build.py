"""From a configuration to a simulator program: generate, Verilate, compile, cache."""

import enum
import hashlib
import json
import os
import platform
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from spec import NpuConfig
from sw.runtime.simulator.cache import BuildCache, Entry
from sw.runtime.simulator.errors import BuildError
from sw.runtime.simulator.verilator import (
    cocotb_libs,
    find_compiler,
    find_verilator,
    machine_digest,
)

ROOT = Path(__file__).resolve().parents[3]
RTL = ROOT / "rtl"
JOBS = 2
SPLIT = 20000
"""Size at which Verilator starts another C++ file, so that all cores have work."""

Say = Callable[[str], None]


class Kind(enum.Enum):
    """perf: for cocotb, fast. debug: waves and assertions. bare: a C++ loop, no cocotb."""

    PERF = "performance"
    DEBUG = "debug"
    BARE = "bare"


# The performance and the bare build share these, or their comparison would mean nothing.
_FAST = ("-O3", "--x-assign", "fast", "--x-initial", "fast")
_FAST_MAKE = ("OPT_FAST=-O3 -march=native", "OPT_SLOW=-O1", "OPT_GLOBAL=-O3 -march=native")
_COCOTB = ("--vpi", "--timing")
_VERILATE: dict[Kind, tuple[str, ...]] = {
    Kind.PERF: (*_FAST, *_COCOTB),
    Kind.BARE: (*_FAST, "--no-timing"),
    Kind.DEBUG: ("-O2", *_COCOTB, "--assert", "--trace-vcd", "--trace-structs"),
}
_MAKE: dict[Kind, tuple[str, ...]] = {
    Kind.PERF: _FAST_MAKE,
    Kind.BARE: _FAST_MAKE,
    Kind.DEBUG: ("OPT_FAST=-O1", "OPT_SLOW=-O0", "OPT_GLOBAL=-O1"),
}
_BENCH: dict[Kind, tuple[str, ...]] = {
    Kind.PERF: ("public.vlt", "dpi_memory.sv", "systola_tb.sv", "systola_sim.sv"),
    Kind.DEBUG: ("public.vlt", "dpi_memory.sv", "systola_tb.sv", "systola_sim.sv"),
    Kind.BARE: ("dpi_memory.sv", "systola_tb.sv"),
}
_CPP: dict[Kind, tuple[str, ...]] = {
    Kind.PERF: ("sim_main.cpp", "dpi_memory.cpp"),
    Kind.DEBUG: ("sim_main.cpp", "dpi_memory.cpp"),
    Kind.BARE: ("bare_main.cpp", "dpi_memory.cpp"),
}


@dataclass(frozen=True, kw_only=True)
class Build:
    """A simulator program that stays in the cache until `release()`."""

    program: Path
    rtl: Path
    entry: Entry

    def release(self) -> None:
        self.entry.release()


def build_simulator(
    config: NpuConfig,
    kind: Kind = Kind.PERF,
    *,
    verilog: Sequence[Path] | None = None,
    cache: BuildCache | None = None,
    say: Say | None = None,
) -> Build:
    """The simulator of `config`, from the cache or built now (`say` hears about it).

    verilog: files that hold module `systola_npu`, instead of the generated ones.
    `BuildError` has the tail of the tools' output.
    """
    say = say or _print
    key = build_key(config, kind, verilog)

    def build(folder: Path) -> None:
        _build(config, kind, verilog, folder, say)

    entry = (cache or BuildCache()).obtain(key, build)
    return Build(program=entry.path / "simulator", rtl=entry.path / "rtl", entry=entry)


def build_key(config: NpuConfig, kind: Kind, verilog: Sequence[Path] | None = None) -> str:
    """Digest of everything that the program depends on."""
    parts = [config.digest_hex, repr(_VERILATE[kind]), repr(_MAKE[kind]), repr(SPLIT)]
    parts += [find_verilator().version, find_compiler()[1], machine_digest()]
    parts += [platform.python_version(), metadata.version("cocotb")]
    files = [RTL / name for name in (*_BENCH[kind], *_CPP[kind], "dpi_memory.h", "waivers.vlt")]
    if verilog is None:
        parts.append(metadata.version("amaranth"))
        for folder in ("hw_gen", "spec"):
            files += sorted((ROOT / folder).rglob("*.py"))
        files.append(RTL / "systola_array.sv")
    else:
        files += verilog
    digest = hashlib.sha256("\n".join(parts).encode())
    for path in files:
        digest.update(path.name.encode() + b"\0")
        digest.update(path.read_bytes() if path.exists() else b"absent")
    return f"{kind.value}-{config.digest_hex}-{digest.hexdigest()[:24]}"


def _print(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _build(
    config: NpuConfig, kind: Kind, verilog: Sequence[Path] | None, folder: Path, say: Say
) -> None:
    title = f"building simulator for {config.name} ({kind.value})"
    start = time.monotonic()
    say(f"{title}…")
    rtl = folder / "rtl"
    rtl.mkdir()
    if verilog is None:
        sources = generate_rtl(config, rtl)
    else:
        sources = [Path(shutil.copy(path, rtl)) for path in verilog]
    seconds = {"generate": time.monotonic() - start}
    objects = folder / "obj"
    run = _Runner(title, folder / "build.log", say, start)
    run(verilate_command(config, kind, sources, objects))
    seconds["verilate"] = time.monotonic() - start - seconds["generate"]
    run(_make_command(kind, objects))
    seconds["total"] = time.monotonic() - start
    (objects / "Vtop").rename(folder / "simulator")
    shutil.rmtree(objects)
    info = {"config": config.to_dict(), "kind": kind.value, "seconds": seconds}
    (folder / "info.json").write_text(json.dumps(info, indent=1))
    say(f"{title}: done in {seconds['total']:.0f} s")


def generate_rtl(config: NpuConfig, folder: Path) -> list[Path]:
    """Generated Verilog of `config` in `folder`, packages first."""
    from hw_gen.generate import generate

    files = [p for p in generate(config, folder) if p.suffix in (".v", ".sv")]
    return sorted(files, key=lambda p: (not p.stem.endswith("_pkg"), p.name))


def verilate_command(
    config: NpuConfig, kind: Kind, sources: Sequence[Path], objects: Path
) -> list[str]:
    """The Verilator call that writes C++ for `kind` into `objects`."""
    top = "systola_tb" if kind is Kind.BARE else "systola_sim"
    link = ""
    if kind is not Kind.BARE:
        link = f"-L{cocotb_libs()} -lcocotbvpi_verilator"
    bench = [RTL / name for name in _BENCH[kind]]
    controls = [p for p in (RTL / "waivers.vlt", *bench) if p.suffix == ".vlt"]
    verilog = [p for p in bench if p.suffix != ".vlt"]
    return [
        str(find_verilator().command),
        *("--cc", "--exe", "--prefix", "Vtop", "--top-module", top, "-Mdir", str(objects)),
        *_VERILATE[kind],
        *("-Wno-fatal", "--output-split", str(SPLIT)),
        f"-GADDR_BITS={config.axi_addr_bits}",
        f"-GBUS_BYTES={config.bus_bytes}",
        *("-CFLAGS", f"-I{RTL}", *(("-LDFLAGS", link) if link else ())),
        *map(str, controls),
        *map(str, sources),
        *map(str, verilog),
        *(str(RTL / name) for name in _CPP[kind]),
    ]


def _make_command(kind: Kind, objects: Path) -> list[str]:
    make = ["make", "-C", str(objects), "-f", "Vtop.mk", "-j", str(JOBS), "Vtop"]
    return [*make, f"CXX={find_compiler()[0]}", *find_verilator().make_vars, *_MAKE[kind]]


class _Runner:
    """Runs tools into one log, says every now and then that it is still at it."""

    def __init__(self, title: str, log: Path, say: Say, start: float) -> None:
        self._title, self._log, self._say, self._start = title, log, say, start

    def __call__(self, command: Sequence[str]) -> None:
        env = {**os.environ, **find_verilator().env}
        # make's settings would leak into the build when `make sim` started us.
        for name in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS", "CXXFLAGS", "LDFLAGS", "CPPFLAGS"):
            env.pop(name, None)
        with self._log.open("ab") as log:
            log.write((" ".join(command) + "\n").encode())
            log.flush()
            process = subprocess.Popen(
                command, stdout=log, stderr=log, env=env, start_new_session=True
            )
            try:
                self._wait(process)
            except BaseException:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                raise
        if process.returncode:
            tail = "\n".join(self._log.read_text(errors="replace").splitlines()[-40:])
            raise BuildError(f"{self._title}: {Path(command[0]).name} failed:\n{tail}")

    def _wait(self, process: "subprocess.Popen[bytes]") -> None:
        while True:
            try:
                process.wait(timeout=15)
                return
            except subprocess.TimeoutExpired:
                self._say(f"{self._title}… {time.monotonic() - self._start:.0f} s")

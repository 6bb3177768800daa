"""From a configuration to a simulator program: generate, Verilate, compile, cache."""

import enum
import json
import shutil
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from importlib import metadata
from pathlib import Path

from spec.config import NpuConfig
from sw.runtime.simulator.cache import BuildCache, Entry
from sw.runtime.simulator.generated import RTL, generate_rtl, generator_sources
from sw.runtime.simulator.recipe import Recipe, Say, cook
from sw.runtime.simulator.training import profile_wanted, train
from sw.runtime.simulator.verilator import digest


class Kind(enum.Enum):
    """perf: for cocotb, fast. debug: waves and assertions. bare: a C++ loop, no cocotb.

    activity: waves of sampled cycles, of the hardware as it is synthesized with clock gates: the
    array of elements, and pipelines with enables.
    """

    PERF = "performance"
    DEBUG = "debug"
    BARE = "bare"
    ACTIVITY = "activity"


# The performance and the bare build share these, or their comparison would mean nothing. The C++
# compiler's -O3 gains nothing over -O2 (286 kHz both, default preset) and takes 15% longer.
# Reordering the statements of the array takes half of Verilator's time for a large one (17 of 37 s,
# preset large) and gains nothing: its loops are written in the order that needs no copies.
FAST = ("-O3", "-fno-reorder", "--x-assign", "fast", "--x-initial", "fast")
FAST_MAKE = ("OPT_FAST=-O2 -march=native", "OPT_SLOW=-O0", "OPT_GLOBAL=-O2 -march=native")
_CLOCK = ("-CFLAGS", "-DSYSTOLA_CLOCK")
"""rtl/sim_main.cpp makes the clock."""
_FLAGS: dict[Kind, tuple[str, ...]] = {
    Kind.PERF: (*FAST, "--no-timing", *_CLOCK),
    Kind.BARE: (*FAST, "--no-timing"),
    Kind.DEBUG: ("-O2", "--no-timing", *_CLOCK, "--assert", "--trace-vcd", "--trace-structs"),
    Kind.ACTIVITY: (*FAST, "--no-timing", *_CLOCK, "--trace-vcd"),
}
_MAKE: dict[Kind, tuple[str, ...]] = {
    Kind.PERF: FAST_MAKE,
    Kind.BARE: FAST_MAKE,
    Kind.DEBUG: ("OPT_FAST=-O0", "OPT_SLOW=-O0", "OPT_GLOBAL=-O0"),
    Kind.ACTIVITY: FAST_MAKE,
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
    hear = say or print_message
    cache = cache or BuildCache()

    def build(folder: Path) -> None:
        _build(config, kind, verilog, folder, cache, hear)

    entry = cache.obtain(build_key(config, kind, verilog), build)
    return Build(program=entry.path / "simulator", rtl=entry.path / "rtl", entry=entry)


def build_key(config: NpuConfig, kind: Kind, verilog: Sequence[Path] | None = None) -> str:
    """Digest of everything that the program depends on."""
    recipe = npu_recipe(config, kind, [])
    bare = ("bench.h",) if kind is Kind.BARE else ()
    headers = [RTL / name for name in ("dpi_memory.h", "dram.h", *bare)]
    files = [*recipe.controls, *recipe.verilog, *recipe.cpp, *headers]
    parts = [config.digest_hex, recipe.settings(), str(_trains(kind))]
    if verilog is None:
        texts, generator = rtl_parts()
        parts += texts
        files += generator
    return f"{kind.value}-{config.digest_hex}-{digest(parts, [*files, *(verilog or ())])}"


def rtl_parts() -> tuple[list[str], list[Path]]:
    """Texts and files that generated RTL depends on, beside its configuration."""
    return [metadata.version("amaranth")], generator_sources()


def kind_options(kind: Kind) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Flags of Verilator and variables of its makefile."""
    return _FLAGS[kind], _MAKE[kind]


def _trains(kind: Kind) -> bool:
    """Whether a profile of the simulator guides its compiler: the one that networks run on."""
    return kind is Kind.PERF and profile_wanted()


def print_message(text: str) -> None:
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


def npu_recipe(config: NpuConfig, kind: Kind, sources: Sequence[Path]) -> Recipe:
    """How to build `kind` from Verilog that holds module `systola_npu`."""
    bare = kind is Kind.BARE
    # The rules of the ports cost time: they are compiled into the debug build only.
    debug = kind is Kind.DEBUG
    checks = (f"+define+SYSTOLA_MAX_BURST={config.max_burst}",) if debug else ()
    bench = [
        *(["axi_checks.sv"] if debug else []),
        "dpi_memory.sv",
        "stream_slice.sv",
        "systola_tb.sv",
        *([] if bare else ["event_trace.sv", "systola_sim.sv"]),
    ]
    main = ["bare_main.cpp"] if bare else ["sim_main.cpp", "dpi_events.cpp"]
    return Recipe(
        title=f"building simulator for {config.name} ({kind.value})",
        top="systola_tb" if bare else "systola_sim",
        verilog=[*sources, *(RTL / name for name in bench)],
        controls=[RTL / "waivers.vlt", *([] if bare else [RTL / "public.vlt"])],
        cpp=[RTL / name for name in (*main, "dpi_memory.cpp")],
        flags=(*_FLAGS[kind], *checks),
        make=_MAKE[kind],
        vpi=not bare,
        parameters={"ADDR_BITS": config.axi_addr_bits, "BUS_BYTES": config.bus_bytes},
    )


def _build(
    config: NpuConfig,
    kind: Kind,
    verilog: Sequence[Path] | None,
    folder: Path,
    cache: BuildCache,
    say: Say,
) -> None:
    start = time.monotonic()
    rtl = folder / "rtl"
    rtl.mkdir()
    title = npu_recipe(config, kind, []).title
    say(f"{title}…")
    if verilog is None:
        synthesized = kind is Kind.ACTIVITY
        sources = generate_rtl(
            config,
            rtl,
            assertions=kind is Kind.DEBUG,
            loops=not synthesized,
            clock_enables=synthesized,
            cache=cache,
        )
    else:
        sources = [Path(shutil.copy(path, rtl)) for path in verilog]
    seconds = {"generate": time.monotonic() - start}
    trainer = partial(train, config=config) if _trains(kind) else None
    seconds |= cook(npu_recipe(config, kind, sources), folder, cache, say, trainer)
    info = {"config": config.to_dict(), "kind": kind.value, "seconds": seconds}
    (folder / "info.json").write_text(json.dumps(info, indent=1))
    say(f"{title}: done in {time.monotonic() - start:.0f} s")

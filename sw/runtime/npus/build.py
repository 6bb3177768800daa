"""The simulator of several NPUs: the Verilog of one, rtl/npus around it, and one memory."""

import time
from pathlib import Path

from sw.runtime.npus.system import NpuSystem
from sw.runtime.simulator.build import Build, Kind, kind_options, print_message, rtl_parts
from sw.runtime.simulator.cache import BuildCache
from sw.runtime.simulator.generated import RTL, generate_rtl
from sw.runtime.simulator.recipe import Recipe, Say, cook
from sw.runtime.simulator.verilator import digest

TOP = "systola_npus_sim"


def build_npus(
    system: NpuSystem,
    kind: Kind = Kind.PERF,
    *,
    cache: BuildCache | None = None,
    say: Say | None = None,
) -> Build:
    """The simulator of `system`, from the cache or built now; `BuildError` as `build_simulator`."""
    hear = say or print_message
    cache = cache or BuildCache()

    def build(folder: Path) -> None:
        start = time.monotonic()
        recipe = npus_recipe(system, kind, [])
        hear(f"{recipe.title}…")
        (folder / "rtl").mkdir()
        sources = generate_rtl(
            system.config,
            folder / "rtl",
            assertions=kind is Kind.DEBUG,
            loops=True,
            cache=cache,
        )
        cook(npus_recipe(system, kind, sources), folder, cache, hear)
        hear(f"{recipe.title}: done in {time.monotonic() - start:.0f} s")

    entry = cache.obtain(npus_key(system, kind), build)
    return Build(program=entry.path / "simulator", rtl=entry.path / "rtl", entry=entry)


def npus_key(system: NpuSystem, kind: Kind) -> str:
    """Digest of everything that the program depends on."""
    recipe = npus_recipe(system, kind, [])
    headers = [RTL / name for name in ("dpi_memory.h", "dram.h")]
    texts, files = rtl_parts()
    files = [*files, *recipe.controls, *recipe.verilog, *recipe.cpp, *headers]
    parts = [system.config.digest_hex, recipe.settings(), *texts]
    return f"npus-{system.config.digest_hex}-{digest(parts, files)}"


def npus_recipe(system: NpuSystem, kind: Kind, sources: list[Path]) -> Recipe:
    """How to build `kind` from Verilog that holds module `systola_npu`."""
    flags, make = kind_options(kind)
    memory = f"{system.words} bus words"
    return Recipe(
        title=f"building simulator for {system.npus} x {system.config.name}, memory of {memory}",
        top=TOP,
        verilog=[
            *sources,
            *(RTL / name for name in ("dpi_memory.sv", "stream_slice.sv")),
            *sorted((RTL / "npus").glob("*.sv")),
        ],
        controls=[RTL / "waivers.vlt", RTL / "npus" / "public.vlt"],
        cpp=[RTL / name for name in ("sim_main.cpp", "dpi_memory.cpp")],
        flags=flags,
        make=make,
        parameters=system.parameters(),
    )

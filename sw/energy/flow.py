"""The energy of a run: netlist, sampled simulation, and the account of both."""

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from spec.config import NpuConfig
from spec.program import Image
from sw.energy.account import Activity, Sources, measure, source_nets
from sw.energy.cells import read_energies
from sw.energy.errors import EnergyError
from sw.energy.parameters import DRAM_PJ_PER_BYTE, MemoryEnergy, scaled_to
from sw.energy.report import EnergyReport, make_report
from sw.energy.states import States, read_states
from sw.measure.profile.layers import Profile, analyse
from sw.measure.profile.trace_records import read_recording
from sw.runtime.progress import Say
from sw.runtime.scratch import Scratch
from sw.runtime.simulator.build import Kind, build_simulator
from sw.runtime.simulator.cache import BuildCache
from sw.runtime.simulator.generated import generator_sources
from sw.synth import recipe, rtl
from sw.synth.flow import SRAM_FILE, Cells, map_netlist, read_netlist
from sw.synth.flow import analyse as analyse_timing
from sw.synth.gating import gated_clocks
from sw.synth.liberty import parse
from sw.synth.netlist import Netlist
from sw.synth.recipe import Effort
from sw.synth.tools import find_yosys

if TYPE_CHECKING:
    from sw.models.supplied import Supplied
    from sw.runtime.session import Arrays

PREFIX = "systola_sim.tb.dut"
WINDOW = 4
"""Cycles of a sample. The last two are compared; registers that the waves do not have, which
stand between others in a pipeline, have their values after the first ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """samples: windows in a run. mhz: the clock, for leakage; None: the netlist's longest path.

    seed: of samples and stalls. gating: with clock gates; None: if the library has one. The last
    two: None for those of `sw.energy.parameters`.
    """

    samples: int = 512
    mhz: float | None = None
    seed: int = 0
    latency: int = 100
    stall: float = 0.0
    gating: bool | None = None
    sram_pj_per_bit: float | None = None
    dram_pj_per_byte: float | None = None


def energy_of(
    target: str,
    shape: str | None,
    supplied: "Supplied",
    config: NpuConfig,
    cells: Cells,
    effort: Effort,
    settings: Settings,
    say: Say,
) -> EnergyReport:
    """The energy of a kernel, or of a model on its first sample."""
    from sw.compiler.pipeline import run_stages
    from sw.measure.profile.run import target_graph

    graph, inputs, _ = target_graph(target, shape, settings.seed, supplied)
    image = run_stages(graph, config, name=target).image
    return measure_energy(image, inputs, target, config, cells, effort, settings, say)


def measure_energy(
    image: Image,
    inputs: "Arrays",
    name: str,
    config: NpuConfig,
    cells: Cells,
    effort: Effort,
    settings: Settings,
    say: Say,
) -> EnergyReport:
    """Run `image` on RTL with sampled waves and tell its energy by block and by layer."""
    energies = read_energies(parse(cells.text, cells.library.name), cells.library)
    reference = scaled_to(cells.library, energies)
    sram, dram = settings.sram_pj_per_bit, settings.dram_pj_per_byte
    memory = MemoryEnergy(
        sram_pj_per_bit=reference if sram is None else sram,
        dram_pj_per_byte=DRAM_PJ_PER_BYTE if dram is None else dram,
    )
    netlist = netlist_of(config, cells, effort, _gates(cells, settings.gating), say)
    sources = source_nets(netlist, cells.library, PREFIX)
    profile, states = sample(image, inputs, config, sources, settings, say)
    say("playing the samples on the netlist …")
    activity = measure(netlist, cells.library, energies, memory, sources, states)
    check_states(activity)
    gated = gated_clocks(netlist, cells.library)
    mhz = settings.mhz
    if mhz is None:
        say("timing …")
        mhz = 1000 / analyse_timing(netlist, cells.library)[0][0].ns
    return make_report(name, config, cells, profile, states.cycle, activity, memory, mhz, gated)


def prepare(config: NpuConfig, cells: Cells, effort: Effort, say: Say) -> None:
    """Put the netlist and the simulator into the cache that `Settings()` asks for."""
    netlist_of(config, cells, effort, _gates(cells, None), say)
    build_simulator(config, Kind.ACTIVITY, say=say).release()


def _gates(cells: Cells, wanted: bool | None) -> bool:
    return cells.library.clock_gate is not None if wanted is None else wanted


def check_states(activity: Activity) -> None:
    """`EnergyError` if the netlist's next states are not the RTL's, or none could be compared."""
    if not activity.checked:
        raise EnergyError(
            "no register of the netlist has the name of a signal in the RTL's waves: nothing tells "
            "whether netlist and simulator are of the same sources"
        )
    if activity.wrong:
        raise EnergyError(
            f"{activity.wrong:,} of {activity.checked:,} bits of next states that the netlist "
            "gives are not those of the RTL: netlist and simulator are not of the same sources"
        )


def netlist_of(config: NpuConfig, cells: Cells, effort: Effort, gating: bool, say: Say) -> Netlist:
    """The mapped netlist of a configuration, from the cache or synthesized now."""
    settings = (config.digest_hex, effort, gating, find_yosys().version)
    found = hashlib.sha256(repr(settings).encode())
    found.update(cells.text.encode())
    for path in [*generator_sources(), Path(recipe.__file__)]:
        found.update(path.read_bytes())

    def build(folder: Path) -> None:
        with Scratch("energy") as scratch:
            say(f"synthesizing {config.name}, once for these cells …")
            # As the simulator of kind ACTIVITY has it.
            files = rtl.generate(config, scratch.path, clock_enables=True)
            sources = [p for p in files if p.name != SRAM_FILE]
            map_netlist(sources, rtl.TOP, cells, effort, scratch.path, say, gating)
            (scratch.path / "netlist.json").rename(folder / "netlist.json")

    key = f"netlist-{config.digest_hex}-{found.hexdigest()[:24]}"
    with BuildCache().obtain(key, build) as entry:
        return read_netlist(entry.path / "netlist.json", cells.library, rtl.TOP)


def sample(
    image: Image,
    inputs: "Arrays",
    config: NpuConfig,
    sources: Sources,
    settings: Settings,
    say: Say,
) -> tuple[Profile, States]:
    """Run with waves of sampled windows; where the cycles went, and the states."""
    from sw.runtime.rtl import RtlDevice
    from sw.runtime.session import run_image

    predicted = sum(layer["predicted_cycles"] for layer in image.info["layers"])
    period = max(WINDOW, int(predicted / settings.samples))
    with Scratch("energy") as scratch:
        waves, events = scratch.path / "sampled.vcd", scratch.path / "events.bin"
        say(f"simulating, {WINDOW} of {period:,} cycles recorded …")
        with RtlDevice(
            config,
            latency=settings.latency,
            stall=settings.stall,
            seed=settings.seed,
            waves=waves,
            events=events,
            sampled=(period, WINDOW, settings.seed),
        ) as device:
            _, result = run_image(image, inputs, device)
        profile = analyse(image, result, read_recording(events))
        say("reading the waves …")
        states = read_states(waves, sources.signals(), WINDOW)
    if not np.all(states.cycle <= profile.cycles):
        raise EnergyError("the waves have cycles behind the end of the run")
    return profile, states

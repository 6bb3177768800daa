"""A synthesis for a library of cells, from the configuration to the report."""

import time
from dataclasses import dataclass
from pathlib import Path

from spec.config import NpuConfig
from sw.runtime.progress import Say
from sw.synth import area, paths, recipe, rtl, timing
from sw.synth.gating import gated_clocks
from sw.synth.generic import generic_library
from sw.synth.graph import build_graph
from sw.synth.liberty import parse, read_text
from sw.synth.library import Library, make_library
from sw.synth.netlist import Netlist, load_netlist
from sw.synth.recipe import Effort, MapFiles
from sw.synth.report import Report
from sw.synth.tools import find_yosys
from sw.synth.yosys import run_yosys, warnings

MACROS = Path(__file__).parent / "macros.v"
SRAM_FILE = "systola_sram.sv"
PATHS = 60
"""Pairs of blocks in a report."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cells:
    """A library to map to, and its text, which Yosys reads too."""

    target: str
    text: str
    library: Library


def generic_cells() -> Cells:
    """Our own library, which stands for no process."""
    text = generic_library()
    library = make_library(parse(text, "generic library"), "generic library")
    return Cells(target="generic", text=text, library=library)


def liberty_cells(path: Path, nand2: str = "", wires: str = "") -> Cells:
    """The library of a Liberty file; see `make_library`."""
    text = read_text(path)
    library = make_library(parse(text, str(path)), str(path), nand2, wires)
    return Cells(target="liberty", text=text, library=library)


def synthesize(
    cells: Cells, gating: bool, config: NpuConfig, effort: Effort, folder: Path, say: Say
) -> Report:
    """Area and timing of a configuration. Files go to `folder` and stay there."""
    began = time.monotonic()
    yosys = find_yosys()
    say(f"generating the RTL of {config.name} …")
    files = rtl.generate(config, folder, clock_enables=gating)
    sources = [p for p in files if p.name != SRAM_FILE]
    netlist, log = map_netlist(sources, rtl.TOP, cells, effort, folder, say, gating)
    say("timing …")
    longest, ports = analyse(netlist, cells.library)
    return Report(
        config=config.name,
        config_digest=config.digest_hex,
        macs=config.rows * config.cols,
        target=cells.target,
        effort=effort,
        clock_gates=gated_clocks(netlist, cells.library) if gating else None,
        library=cells.library,
        tool=yosys.version,
        blocks=area.blocks(netlist, cells.library),
        memories=netlist.macros,
        paths=longest,
        port_paths=ports,
        warnings=warnings(log),
        seconds=time.monotonic() - began,
    )


def map_netlist(
    sources: list[Path],
    top: str,
    cells: Cells,
    effort: Effort,
    folder: Path,
    say: Say,
    gating: bool = False,
) -> tuple[Netlist, Path]:
    """The netlist of Verilog files in gates of a library, and Yosys's log."""
    files = MapFiles(folder)
    files.write(cells.text, cells.library, effort)
    steps = [recipe.read(sources, top, [MACROS])]
    steps += recipe.map_to_gates(cells.library, files, effort, gating)
    log = run_yosys(find_yosys(), recipe.script(steps), folder, say)
    return read_netlist(files.netlist, cells.library, top), log


def read_netlist(path: Path, library: Library, top: str) -> Netlist:
    """A netlist that `map_netlist` has left."""
    pins = {name: cell.inputs + cell.outputs for name, cell in library.cells.items()}
    return load_netlist(path, pins, top)


def analyse(netlist: Netlist, library: Library) -> tuple[list[paths.Path], dict[str, float]]:
    """The longest path by pair of blocks, and the longest ones from and to pins."""
    graph = build_graph(netlist, library)
    levels = timing.levelize(graph, netlist)
    arrivals = timing.propagate(graph, levels, graph.clocks)
    longest = paths.longest_by_blocks(netlist, graph, levels, arrivals, PATHS)
    return longest, timing.port_paths(netlist, graph, levels, arrivals)

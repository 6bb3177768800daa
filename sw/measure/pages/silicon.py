"""`docs/silicon.md`: how to synthesize, and what was measured, from records of `systola synth`.

A file of records in docs/data/ is `{"title", "note", "records"}`; each record is what
`systola synth --json` wrote.
"""

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from sw.measure.pages.markdown import WIDTH, bullets, code, document, heading, prose, table
from sw.runtime.report import ReportError, read_json

Record = Mapping[str, Any]

_INTRO = """
`systola synth` synthesizes the RTL of a configuration here, with open tools: area by block, bits of
memory, the longest paths with the lines that they come from, and the resources of an FPGA. In a
checkout `make synth` is the same and installs what it lacks.
"""
_COMMANDS = """
systola synth -c tiny                                        cells of no process
systola synth -c tiny --target liberty --liberty cells.lib   your library (.lib, .lib.gz)
systola synth -c tiny --target ecp5                          an FPGA: resources and clock
systola synth -c small --set banks=16 --effort quick --json small.json
"""
_TARGETS = (
    "**generic**: twenty cells, a flip-flop and a clock gate whose area and delays come from "
    "logical effort (`sw/synth/generic.py` has the table and the derivation). They stand for no "
    "process. Use it to compare configurations, and changes of the hardware. One FO4, the delay of "
    "an inverter that drives four of its size, is set to 25 ps: nanoseconds and megahertz follow "
    "from that.",
    "**liberty**: your cells. A gate equivalent (GE) is the smallest NAND2 that the library has by "
    "function; `--nand2 CELL` takes another cell. Latches, tri-states, clock gates, delay cells "
    "and what the library marks `dont_use` are not used for logic.",
    "**ecp5**: Yosys maps all blocks as one and names each cell after a wire, by which it counts "
    "for a block. Then nextpnr places and routes the whole for the largest ECP5 (LFE5U-85, speed "
    "grade 6). Where there is room, cells that do nothing keep rows of tables free for "
    "the router. Registers around the NPU stand for the pins that no package has. A configuration "
    "that does not fit has resources, but no clock.",
)
_EFFORT = """
`--effort quick` is for a first look. It maps gates as they are, where `full` first restructures the
logic (ABC's `fraig`, `scorr`, `dc2`, `dch`); an FPGA is not placed and routed. Both size gates for
a delay of 16 FO4, which long paths do not reach. With IHP's cells and effort full, `tiny` takes 2.6
minutes of processor time, `small` 4.3 and `default` 7.8.

`--clock-gating` puts one clock gate before registers that share an enable, where there are three or
more, in place of a multiplexer a bit. It takes the smallest cell of the library that is a gate for
rising edges (`clock_gating_integrated_cell : latch_posedge`) and has no pin for tests. The gate's
enable ends a path; the clock stays ideal behind it. The vector engine's and the depthwise engine's
lanes then have an enable too, which is 0 while nothing is in them
([decision 44](decisions/0044-clock-gates.md)); `python -m hw_gen --clock-enables` writes that RTL.

`--max-fo4 90` fails, with the names of the paths, if a stage is longer or if an input leads to an
output without a register. `make stages` does so for every preset with cells of no process, mapped
quickly.
"""
_FIGURES = (
    "**Area** is that of cells, without wires. Memories are not in it: neither `systola_sram`, "
    "which a memory compiler's macro replaces, nor the others (arrays of registers), whose bits "
    "are a column of their own.",
    "**Timing** is static, at one corner, with an ideal clock: registers and memories to "
    "registers and memories. The reset is no path. Delays are the library's tables (NLDM) over "
    "transition and load.",
    "**Wires** have the capacitance of the library's default wire-load model, if it has one, or of "
    "`--wire-load NAME`; `--wire-load none` leaves them out. They have no resistance. Figures "
    "whose records name no model are without wires.",
    "**Memories** have delays that no library says. In FO4: `systola_sram` gives data 10 + 2 · "
    "log2(words) after the clock and needs its inputs 5 before; other memories need 2 + 2 · "
    "log2(words) from address to data and their inputs 2 before the clock.",
    "**Hierarchy** stays: logic is not optimized across blocks, so that every gate belongs to one.",
    "**Initial values** are dropped: every register that needs one has a reset.",
)
_NOT = """
So the clock is an upper bound of what a chip would have, and good for comparisons. Placed wires,
clock tree, scan chains, power and the macros' own area are not in any figure.
"""
_CHECK = """
The timing analysis is our own (`sw/synth/timing.py`), because no tool that pip installs has one.
OpenSTA 2.0.17 finds the same path in the same netlist of `tiny` in IHP's cells without memories
and wires, with the same delay to four digits: 16.5445 ns and 0.1178 ns of setup.
"""


def render(files: Sequence[Path]) -> str:
    """The page of the records in `files`; `ReportError` if one cannot be read."""
    measured = [block for path in files for block in _measured(read_records(path))]
    return document(
        "systola pages silicon",
        "docs/data/ and sw/measure/pages/silicon.py",
        heading(1, "Synthesis"),
        prose(_INTRO),
        code(_COMMANDS),
        heading(2, "Targets"),
        bullets(map(wrapped, _TARGETS)),
        prose(_EFFORT),
        heading(2, "What the figures mean"),
        bullets(map(wrapped, _FIGURES)),
        prose(_NOT),
        prose(_CHECK),
        *measured,
    )


def read_records(path: Path) -> Record:
    """A file of records."""
    found = read_json(path)
    if not isinstance(found, dict) or not {"title", "note", "records"} <= found.keys():
        raise ReportError(f"{path}: must be an object with title, note and records")
    return found


def wrapped(text: str) -> str:
    """The text of a bullet: two columns narrower than other text, lines indented by two."""
    lines = textwrap.wrap(text, WIDTH - 2, break_long_words=False, break_on_hyphens=False)
    return "\n  ".join(lines)


def _measured(found: Record) -> Iterator[str]:
    records = found["records"]
    yield heading(2, found["title"])
    yield prose(found["note"])
    if records[0]["target"] == "ecp5":
        yield _resources(records)
        return
    yield _totals(records)
    yield heading(3, f"Area by block, kGE: {_process(records)}")
    yield _blocks(records)
    yield heading(3, f"Longest paths: {_process(records)}")
    yield _paths(records)


def _process(records: Sequence[Record]) -> str:
    return f"`{records[0]['library']}`"


def _totals(records: Sequence[Record]) -> str:
    head = (
        *("configuration", "kGE", "GE per MAC", "flip-flops", "bits in `systola_sram`"),
        *("bits in other memories", "longest path, ns", "FO4", "MHz"),
    )
    rows = [
        (
            f"`{r['config']}`",
            f"{r['area_ge'] / 1000:,.0f}",
            f"{r['ge_per_mac']:,}",
            f"{r['ffs']:,}",
            f"{r['sram_bits']:,}",
            f"{r['other_bits']:,}",
            f"{r['critical_ns']:.2f}",
            f"{r['critical_fo4']:.0f}",
            f"{r['fmax_mhz']:.0f}",
        )
        for r in records
    ]
    return table(head, rows, "lr")


def _blocks(records: Sequence[Record]) -> str:
    every = dict.fromkeys(name for r in records for name in r["blocks"])
    names = [n for n in every if "." not in n or n in _PARTS]
    largest = records[-1]["blocks"]
    names.sort(key=lambda name: -largest.get(name, {"area_ge": 0})["area_ge"])
    rows = [(f"`{name}`", *(_kge(r["blocks"].get(name)) for r in records)) for name in names]
    return table(("block", *(f"`{r['config']}`" for r in records)), rows, "lr")


def _kge(block: Mapping[str, Any] | None) -> str:
    return "" if block is None else f"{block['area_ge'] / 1000:,.1f}"


_PARTS = ("vector.lanes", "matrix.array")
"""Parts of blocks that have a row of their own."""


def _paths(records: Sequence[Record]) -> str:
    head = ("configuration", "ns", "gates", "from", "to", "through (gates, ns)")
    rows = []
    for r in records:
        path = r["critical_path"]
        stages = " → ".join(
            f"{s['block'] or 'top'} ({s['gates']}, {s['ns']:.2f})" for s in path["stages"]
        )
        ends = (f"`{path[end]}` {path[f'{end}_source']}".strip() for end in ("start", "end"))
        rows.append((f"`{r['config']}`", f"{path['ns']:.2f}", path["gates"], *ends, stages))
    return table(head, rows, "lrrl")


def _resources(records: Sequence[Record]) -> str:
    head = (
        *("configuration", "LUTs", "flip-flops", "multipliers", "block RAMs"),
        *("small memories", "MHz", "remark"),
    )
    rows = [
        (
            f"`{r['config']}`",
            *(f"{r[key]:,}" for key in ("luts", "ffs", "dsps", "brams", "lutram")),
            f"{r['fmax_mhz']:.1f}" if r["fmax_mhz"] else "",
            r["problem"],
        )
        for r in records
    ]
    return table(head, rows, "lrrrrrrl")

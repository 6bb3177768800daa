"""`docs/energy.md`: how energy is measured, and that of networks, from `systola energy --json`.

A file of records in docs/data/ is `{"title", "note", "records"}`.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from sw.measure.pages.markdown import bullets, code, document, heading, prose, table
from sw.measure.pages.silicon import read_records, wrapped

Record = Mapping[str, Any]

_INTRO = """
`systola energy` runs a network on the RTL and tells the energy of an inference, by block of the
hardware and by layer of the network.
"""
_COMMANDS = """
systola energy resnet8                                   cells of no process
systola energy resnet8 -c small --liberty cells.lib      your library (.lib, .lib.gz)
systola energy matmul --shape 64x64x64 -c tiny --samples 2000 --json matmul.json
"""
_HOW = """
The whole run is simulated. In sampled cycles the simulator writes the state of every register, and
the mapped netlist is worked out from it, gate by gate: so the changes of every net are those of the
network's own numbers. In each sample the netlist's next state must be that of the RTL, bit for bit;
if it is not, there is an error instead of a figure. A configuration is synthesized once for a
library, then its netlist is in the cache.
"""
_GATING = """
Registers that share an enable have one clock gate, as in every chip that is to save energy, if the
library has such a cell. `--no-clock-gating` gives each bit a multiplexer in its place, whose
flip-flop is clocked in every cycle. The cell may be marked `dont_use`, which keeps it out of logic.
The RTL is that with enables for pipelines that rest
([decision 44](decisions/0044-clock-gates.md)).
"""
_PARTS = (
    "**switching**: half the capacitance of the inputs that a net drives, times the square of the "
    "supply, for each change.",
    "**cells**: the library's internal energy of a gate whose output changes, by its load.",
    "**clock**: the clock pins of flip-flops and clock gates. A flip-flop behind a gate counts in "
    "the cycles in which its gate is open, the gate itself in every cycle. The clock tree is not "
    "in it.",
    "**memories**: reads and writes of `systola_sram`, by a parameter. An access costs in "
    "proportion to its bits and to the square root of the memory's size.",
    "**leakage**: that of all gates over the time of the run, at the clock of `--mhz`. Without it, "
    "that is the clock that the netlist's longest path allows.",
    "**DRAM**: bytes read and written, times a parameter.",
)
_SOURCES = """
The two parameters are Horowitz's figures (*Computing's Energy Problem*, ISSCC 2014): 10 pJ for 64
bits of a memory of 8 KiB in 45 nm, and 162.5 pJ for a byte of DRAM. Memories are scaled to the
library as the energy of a NAND2's input is, capacitance times the square of the supply. `--sram`
and `--dram` set others.
"""
_NOT = """
Glitches, wires, the clock tree and the inputs and outputs of the chip are not in any figure. So
they are a lower bound, and good for comparisons. The standard error of the samples is printed;
`--samples` makes it smaller.
"""

_LARGEST = """
The accumulator's memories take the most in every network but `ad`, which has one vector. The clock
of the array's elements, their cells and the scratchpad's memories come next.
"""
_DONE = (
    "**The accumulator's memories.** A sum that replaces what was there reads nothing. All other "
    "sums are read and written once for each fold of the weights.",
    "**The clock of the array's elements.** Registers of weights have an enable, so that they have "
    "gates. The others are clocked in every cycle, for an element has no enable from outside. So a "
    "network of fewer cycles takes less.",
    "**The array's cells.** The sums of an element have 18 bits and one more for each doubling of "
    "the rows, not 32.",
    "**The scratchpad's memories.** Rows of weights that enter together, and columns that the "
    "depthwise engine pairs, are one read where they lie in one word.",
)


def render(files: Sequence[Path]) -> str:
    """The page of the records in `files`; `ReportError` if one cannot be read."""
    measured = [block for path in files for block in _measured(read_records(path))]
    return document(
        "systola pages energy",
        "docs/data/ and sw/measure/pages/energy.py",
        heading(1, "Energy"),
        prose(_INTRO),
        code(_COMMANDS),
        prose(_HOW),
        prose(_GATING),
        heading(2, "What the parts are"),
        bullets(map(wrapped, _PARTS)),
        prose(_SOURCES),
        prose(_NOT),
        *measured,
        heading(2, "What takes the most, and what was done about it"),
        prose(_LARGEST),
        bullets(map(wrapped, _DONE)),
    )


def _measured(found: Record) -> Iterator[str]:
    records = found["records"]
    yield heading(2, found["title"])
    yield prose(found["note"])
    yield _totals(records)
    yield heading(3, f"By block, share of the energy on the chip of `{records[0]['config']}`")
    yield _blocks(records)
    yield heading(3, f"By part, share of the energy on the chip of `{records[0]['config']}`")
    yield _parts(records)


def _ordered(record: Record) -> list[tuple[float, str, str]]:
    """(pJ, block, part), the largest first."""
    every = [(pj, b, part) for b, parts in record["blocks"].items() for part, pj in parts.items()]
    return sorted(every, reverse=True)


def _totals(records: Sequence[Record]) -> str:
    head = (
        *("network", "cycles", "µJ", "on the chip", "in DRAM", "inferences/J", "pJ/MAC on chip"),
        *("standard error", "largest three"),
    )
    rows = [
        (
            f"`{r['name']}`",
            f"{r['cycles']:,}",
            f"{r['total_pj'] / 1e6:,.1f}",
            f"{r['chip_pj'] / 1e6:,.1f}",
            f"{r['dram_pj'] / 1e6:,.1f}",
            f"{1e12 / r['total_pj']:,.0f}",
            f"{r['chip_pj'] / r['macs']:.2f}",
            f"{r['error']:.1%}",
            _largest(r),
        )
        for r in records
    ]
    return table(head, rows, "lrrrrrrrl")


def _largest(record: Record) -> str:
    largest = _ordered(record)[:3]
    return ", ".join(f"{block} {part} {pj / record['chip_pj']:.0%}" for pj, block, part in largest)


def _blocks(records: Sequence[Record]) -> str:
    sums = [{block: sum(parts.values()) for block, parts in r["blocks"].items()} for r in records]
    names = sorted(sums[0], key=lambda name: -sum(found.get(name, 0.0) for found in sums))
    rows = [
        (
            f"`{name}`",
            *(f"{s.get(name, 0.0) / r['chip_pj']:.1%}" for s, r in zip(sums, records, strict=True)),
        )
        for name in names
    ]
    return table(("block", *(f"`{r['name']}`" for r in records)), rows, "lr")


def _parts(records: Sequence[Record]) -> str:
    names = next(iter(records[0]["blocks"].values()))
    rows = [
        (
            name,
            *(
                f"{sum(parts[name] for parts in r['blocks'].values()) / r['chip_pj']:.1%}"
                for r in records
            ),
        )
        for name in names
    ]
    return table(("part", *(f"`{r['name']}`" for r in records)), rows, "lr")

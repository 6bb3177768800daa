"""An ECP5 FPGA: resources by block from Yosys, the clock from nextpnr."""

import json
import re
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from spec.config import NpuConfig
from sw.runtime.progress import Say
from sw.synth import recipe, rtl
from sw.synth.errors import SynthError
from sw.synth.fpga.block_ram import Memory, into_blocks, memories
from sw.synth.fpga.report import FpgaReport, Resources
from sw.synth.fpga.spread import spread
from sw.synth.fpga.wrapper import wrapper
from sw.synth.netlist import read_modules
from sw.synth.recipe import Effort, Step
from sw.synth.tools import Tool, find_nextpnr, find_yosys, run_logged
from sw.synth.yosys import run_yosys, warnings

WRAPPER = "systola_wrapped"
WAYS = ("--placer", "static", "--router", "router2")
"""How nextpnr places and routes. The other placer's wires are a third longer. The default router,
router1, does not come to an end, and router2 with its other weights stays at 40 shared wires."""
TABLE = "TRELLIS_COMB"
"""What nextpnr calls a look-up table."""
OPERATORS, MAPPED, FLAT = "operators.il", "mapped.json", "flat.json"
MULTIPLY = "SYSTOLA_MULTIPLY"
"""What has `rtl/systola_multiplier.sv` use the device's multipliers instead of adders."""
NEXTPNR_OPTIONS = (
    *("--85k", "--package", "CABGA756", "--speed", "6", "--freq", "50", "--seed", "1"),
    "--timing-allow-fail",
)
"""The largest ECP5 in its largest package. The frequency is a wish, and no result."""

SCOPE = "$scopeinfo"
"""The cell that stands for a block after flattening, with its path as a name."""

_AREA = (
    *("&get -n", "&synch2", "&if -K 4 -a", "&mfs", "&put"),
    *("mfs2 -a -e", "lutpack -S 1", "strash"),
)
"""ABC's way to few tables, however many levels of them: the device is small."""

_LEVELS = ("&get -n", "&synch2", "&put", "if -K 4", "mfs2", "lutpack -S 1")
"""And then to few levels of almost as few tables: a level is a wire, and wires take the time."""

_ABC = ";".join(("strash", "ifraig", "scorr", "dc2", "dc2", *_AREA, *_LEVELS))

_SYNTH = "synth_ecp5 -cmp2softlogic -top {top} -run"
"""Comparisons with constants are smaller without the device's carries."""

CELLS = (
    f"{_SYNTH} begin:coarse",  # reads the cells of the device
    f"{_SYNTH} map_ram:map_luts",
    # No multiplexers behind tables: as tables of five and six inputs they cost more than they save.
    f"abc -lut 4 -script +{_ABC.replace(' ', ',')}",
    "clean",
    f"{_SYNTH} map_cells:",
)

_NAMED_AFTER = re.compile(r"_(?=(?:LUT4|CCU2C|TRELLIS_\w+|DP16KD|PDPW16KD|MULT18X18D)_)")
"""Where the name that Yosys makes for a cell goes on after that of a wire."""

LUTS = {"LUT4": 1, "CCU2C": 2, "TRELLIS_DPR16X4": 4}
"""Look-up tables that a cell takes: a carry cell is two, a small memory four."""


def resources(cells: Counter[str]) -> Resources:
    """LUTs, flip-flops, multipliers and block RAMs of cells by type."""
    return Resources(
        luts=sum(count * cells[kind] for kind, count in LUTS.items()),
        ffs=cells["TRELLIS_FF"],
        dsps=cells["MULT18X18D"],
        brams=cells["DP16KD"],
        lutram=cells["TRELLIS_DPR16X4"],
    )


def by_block(netlist: Path, top: str) -> dict[str, Resources]:
    """Resources of every block with what is below it, by path; the top is ''.

    Yosys maps all blocks as one, so that logic crosses their borders: a cell belongs to the block
    of the wire that it is named after.
    """
    module = next((data for name, data in read_modules(netlist) if name == top), None)
    if module is None:
        raise SynthError(f"netlist {netlist}: it has no module {top}")
    owner = _owners(module["netnames"])
    cells = module["cells"]
    found = {name: Counter[str]() for name, cell in cells.items() if cell["type"] == SCOPE}
    found[""] = Counter()
    for name, cell in cells.items():
        if cell["type"] == SCOPE:
            continue
        path = owner.get(_NAMED_AFTER.split(name, maxsplit=1)[0], name)
        while path:
            path = path.rpartition(".")[0]
            if path in found:
                found[path][cell["type"]] += 1
    return {path: resources(kinds) for path, kinds in sorted(found.items())}


def _owners(wires: Mapping[str, Any]) -> dict[str, str]:
    """For each wire, its name in the innermost block that has a name for it.

    Bits that are constant (texts, where others are numbers) belong to no block.
    """
    first = {
        name: next((bit for bit in wire["bits"] if isinstance(bit, int)), None)
        for name, wire in wires.items()
    }
    innermost: dict[int | None, str] = {}
    for name, bit in first.items():
        if name.count(".") >= innermost.setdefault(bit, name).count("."):
            innermost[bit] = name
    return {name: name if bit is None else innermost[bit] for name, bit in first.items()}


_SHARED = re.compile(r"iter=(\d+) wires=\d+ overused=(\d+)")
"""What router2 says after each step: it has ended when no two nets share a wire."""


@dataclass(frozen=True, slots=True)
class Fitted:
    """What nextpnr says: the clock in MHz, and what the whole design takes of the device."""

    fmax_mhz: float | None
    used: dict[str, tuple[int, int]]
    problem: str
    critical_path: dict[str, Any] | None = None


def synthesize_ecp5(config: NpuConfig, effort: Effort, folder: Path, say: Say) -> FpgaReport:
    """Resources of a configuration on an ECP5-85 and, with effort full, its clock."""
    began = time.monotonic()
    yosys = find_yosys()
    nextpnr = find_nextpnr() if effort is Effort.FULL else None
    say(f"generating the RTL of {config.name} …")
    sources = rtl.generate(config, folder, for_fpga=True)
    blocks, warned = map_to_ecp5(sources, rtl.TOP, folder, say)
    luts = blocks[""].luts
    fitted = place_and_route(nextpnr, rtl.TOP, luts, folder, say) if nextpnr else None
    return FpgaReport(
        config=config.name,
        config_digest=config.digest_hex,
        effort=effort,
        tools=(yosys.version, *([nextpnr.version] if nextpnr else [])),
        blocks=blocks,
        fmax_mhz=fitted.fmax_mhz if fitted else None,
        used=fitted.used if fitted else {},
        problem=fitted.problem if fitted else "not placed: --effort quick",
        critical_path=fitted.critical_path if fitted else None,
        warnings=warned,
        seconds=time.monotonic() - began,
    )


def map_to_ecp5(
    sources: Iterable[Path], top: str, folder: Path, say: Say
) -> tuple[dict[str, Resources], dict[str, list[str]]]:
    """Map Verilog to cells of an ECP5, all blocks as one; resources by block, and warnings."""
    netlist = folder / MAPPED
    found, warned = _operators(sources, top, folder, say)
    in_blocks = [f'setattr -set ram_style "block" c:{name}' for name in into_blocks(found)]
    steps = [
        Step("reading the operators", (f'read_rtlil "{folder / OPERATORS}"', *in_blocks)),
        Step("cells of the ECP5", tuple(line.format(top=top) for line in CELLS)),
        Step("writing the netlist", (f'write_json "{netlist}"',)),
    ]
    for kind, texts in warnings(run_yosys(find_yosys(), recipe.script(steps), folder, say)).items():
        warned[kind] = list(dict.fromkeys([*warned.get(kind, []), *texts]))
    return by_block(netlist, top), warned


def _operators(
    sources: Iterable[Path], top: str, folder: Path, say: Say
) -> tuple[list[Memory], dict[str, list[str]]]:
    """Write the design as operators and memories to `folder`; the memories, and warnings."""
    read = tuple(f'read_verilog -sv -D {MULTIPLY} "{path}"' for path in sources)
    written = folder / OPERATORS, folder / "memories.json"
    steps = [
        Step("reading the RTL", read),
        Step("finding operators and memories", (_SYNTH.format(top=top) + " begin:map_ram",)),
        Step(
            "writing the operators",
            (
                f"select {top}",
                *(f'write_rtlil -selected "{written[0]}"', f'write_json -selected "{written[1]}"'),
            ),
        ),
    ]
    log = run_yosys(find_yosys(), recipe.script(steps), folder, say)
    found = [memory for _, module in read_modules(written[1]) for memory in memories(module)]
    return found, warnings(log)


def place_and_route(nextpnr: Tool, top: str, luts: int, folder: Path, say: Say) -> Fitted:
    """Place and route what `map_to_ecp5` left in `folder`, between registers at its pins."""
    ports = next(data["ports"] for name, data in read_modules(folder / MAPPED) if name == top)
    verilog = folder / "wrapper.v"
    verilog.write_text(wrapper(top, WRAPPER, ports))
    free = flatten(WRAPPER, [verilog], luts, folder, say)
    return run_nextpnr(nextpnr, NEXTPNR_OPTIONS, free, folder, say)


def flatten(top: str, verilog: Iterable[Path], luts: int, folder: Path, say: Say) -> int:
    """Make one module of the netlist that `map_to_ecp5` left, and of `verilog` around it.

    luts : its look-up tables; the fewer they are, the farther apart they will lie. 0: as they come.
    Returns how many more keep places free.
    """
    steps = [
        Step(
            "flattening",
            (
                f'read_json "{folder / MAPPED}"',
                "read_verilog -lib -specify +/ecp5/cells_sim.v +/ecp5/cells_bb.v",
                *(f'read_verilog "{path}"' for path in verilog),
                *(f"hierarchy -top {top}", "flatten", f"delete t:{SCOPE}", "opt_clean"),
                *("blackbox =A:whitebox", f'write_json "{folder / FLAT}"'),
            ),
        )
    ]
    run_yosys(find_yosys(), recipe.script(steps), folder, say)
    return spread(folder / FLAT, top, luts)


def run_nextpnr(nextpnr: Tool, options: Sequence[str], free: int, folder: Path, say: Say) -> Fitted:
    """Place and route what `flatten` left, with so many tables to keep places free."""
    say("placing and routing …")
    report, log = folder / "nextpnr.json", folder / "nextpnr.log"
    report.unlink(missing_ok=True)  # of a run before, where the folder was kept
    # nextpnr in WebAssembly sees the current folder only.
    files = ("--json", FLAT, "--report", report.name)
    command = [*nextpnr.command, *options, *WAYS, *files]
    run_logged(command, log, _routing, say, cwd=folder)
    return read_result(report, log, free)


def _routing(line: str) -> str:
    """What to show for a line of nextpnr's log, or nothing."""
    shared = _SHARED.search(line)
    return f"routing: {int(shared[2]):,} wires are shared after step {shared[1]}" if shared else ""


def read_result(report: Path, log: Path, free: int = 0) -> Fitted:
    """What nextpnr found; a design that does not fit has a problem and no clock.

    free : tables that only keep places free: no design has them.
    """
    text = log.read_text()
    if report.exists():
        facts: dict[str, Any] = json.loads(report.read_text())
        counts = {n: (int(u["used"]), int(u["available"])) for n, u in facts["utilization"].items()}
        used, available = counts.get(TABLE, (0, 0))
        counts[TABLE] = (max(used - free, 0), available)
        kinds = {name: pair for name, pair in counts.items() if pair[0]}
        clocks = [round(float(clock["achieved"]), 2) for clock in facts["fmax"].values()]
        return Fitted(min(clocks, default=None), kinds, "", _critical_path(facts))
    kinds = {}
    for line in text.splitlines():
        words = line.replace("Info:", "").replace("/", " ").replace(":", " ").split()
        if len(words) == 4 and words[3].endswith("%") and words[1].isdigit():
            kinds[words[0]] = (int(words[1]), int(words[2]))
    over = [f"{name} {u:,} of {n:,}" for name, (u, n) in kinds.items() if u > n]
    if over:
        return Fitted(None, kinds, f"does not fit: {', '.join(over)}")
    tail = "\n".join(text.splitlines()[-8:])
    raise SynthError(f"nextpnr-ecp5 ended without a result:\n{tail}")


def _critical_path(facts: Mapping[str, Any]) -> dict[str, Any] | None:
    """The path from register to register that takes longest: its ends, and delays by kind."""
    inside = [p["path"] for p in facts["critical_paths"] if "<async>" not in (p["from"], p["to"])]
    if not inside:
        return None
    path = max(inside, key=lambda steps: sum(float(step["delay"]) for step in steps))
    routing = sum(float(step["delay"]) for step in path if step["type"] == "routing")
    total = sum(float(step["delay"]) for step in path)
    return {
        "start": path[0]["from"]["cell"].removeprefix("inner."),
        "end": path[-1]["to"]["cell"].removeprefix("inner."),
        "ns": round(total, 3),
        "routing_ns": round(routing, 3),
        "steps": sum(step["type"] == "logic" for step in path),
    }

"""An ECP5 FPGA: resources by block from Yosys, the clock from nextpnr."""

import re
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from hw_gen.blocks.soft_reset import RESETS
from spec.config import NpuConfig
from sw.runtime.progress import Say
from sw.synth import recipe, rtl
from sw.synth.errors import SynthError
from sw.synth.fpga.block_ram import Memory, into_blocks, memories
from sw.synth.fpga.carries import absorb
from sw.synth.fpga.nextpnr import (
    CLOCK_PIN,
    GRADES,
    Fitted,
    add_settings,
    largest,
    run_nextpnr,
)
from sw.synth.fpga.placement import FLAT
from sw.synth.fpga.report import FpgaReport, Resources
from sw.synth.fpga.short_memories import repeat_address_bits
from sw.synth.fpga.spread import spread
from sw.synth.fpga.wrapper import wrapper
from sw.synth.netlist import read_modules
from sw.synth.recipe import Effort, Step
from sw.synth.tools import Tool, find_nextpnr, find_yosys
from sw.synth.yosys import run_yosys, warnings

WRAPPER = "systola_wrapped"
OPERATORS, MAPPED = "operators.il", "mapped.json"
MULTIPLY = "SYSTOLA_MULTIPLY"
"""What has `rtl/systola_multiplier.sv` use the device's multipliers instead of adders."""
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


def synthesize_ecp5(
    config: NpuConfig, effort: Effort, folder: Path, say: Say, *, grade: str = GRADES[0]
) -> FpgaReport:
    """Resources of a configuration on an ECP5-85 and, with effort full, its clock.

    grade : one of `GRADES`.
    """
    began, device = time.monotonic(), largest(grade)
    yosys = find_yosys()
    nextpnr = find_nextpnr() if effort is Effort.FULL else None
    say(f"generating the RTL of {config.name} …")
    sources = rtl.generate(config, folder, for_fpga=True)
    blocks, warned = map_to_ecp5(sources, rtl.TOP, folder, say)
    luts = blocks[""].luts
    fitted = place_and_route(nextpnr, device, rtl.TOP, luts, folder, say) if nextpnr else None
    return FpgaReport(
        config=config.name,
        config_digest=config.digest_hex,
        effort=effort,
        grade=grade,
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
    netlist, sources = folder / MAPPED, list(sources)
    resets = _resets(sources)
    found, warned = _operators(sources, resets, top, folder, say)
    in_blocks = [f'setattr -set ram_style "block" c:{name}' for name in into_blocks(found)]
    steps = [
        Step("reading the operators", (f'read_rtlil "{folder / OPERATORS}"', *in_blocks)),
        Step("cells of the ECP5", tuple(line.format(top=top) for line in CELLS)),
        Step(
            "writing the netlist",
            (*_apart(resets, "-unset keep_hierarchy"), "flatten", f'write_json "{netlist}"'),
        ),
    ]
    for kind, texts in warnings(run_yosys(find_yosys(), recipe.script(steps), folder, say)).items():
        warned[kind] = list(dict.fromkeys([*warned.get(kind, []), *texts]))
    absorb(netlist)
    repeat_address_bits(netlist)
    return by_block(netlist, top), warned


def _resets(sources: Iterable[Path]) -> list[str]:
    """Which modules have the register that resets a block, as Yosys selects them.

    Each lies next to its block. Yosys would make one register of all, if it saw them as one design.
    """
    has = any(re.search(rf"^module .*{RESETS}", path.read_text(), re.M) for path in sources)
    return [f"*{RESETS}*"] if has else []


def _apart(modules: Iterable[str], how: str) -> list[str]:
    """Keep modules apart from the rest (`-set keep_hierarchy 1`), or no longer."""
    return [f"setattr -mod {how} {each}" for each in modules]


def _operators(
    sources: Iterable[Path], resets: list[str], top: str, folder: Path, say: Say
) -> tuple[list[Memory], dict[str, list[str]]]:
    """Write the design as operators and memories to `folder`; the memories, and warnings."""
    read = tuple(f'read_verilog -sv -D {MULTIPLY} "{path}"' for path in sources)
    written = folder / OPERATORS, folder / "memories.json"
    steps = [
        Step("reading the RTL", read),
        Step(
            "finding operators and memories",
            (*_apart(resets, "-set keep_hierarchy 1"), _SYNTH.format(top=top) + " begin:map_ram"),
        ),
        Step(
            "writing the operators",
            (
                " ".join(["select", top, *resets]),
                *(f'write_rtlil -selected "{written[0]}"', f'write_json -selected "{written[1]}"'),
            ),
        ),
    ]
    log = run_yosys(find_yosys(), recipe.script(steps), folder, say)
    found = [memory for _, module in read_modules(written[1]) for memory in memories(module)]
    return found, warnings(log)


def place_and_route(
    nextpnr: Tool, device: Sequence[str], top: str, luts: int, folder: Path, say: Say
) -> Fitted:
    """Place and route what `map_to_ecp5` left in `folder`, between registers at its pins."""
    ports = next(data["ports"] for name, data in read_modules(folder / MAPPED) if name == top)
    verilog = folder / "wrapper.v"
    verilog.write_text(wrapper(top, WRAPPER, ports))
    free = flatten(WRAPPER, [verilog], luts, folder, say)
    return run_nextpnr(nextpnr, device, CLOCK_PIN, free, folder, say)


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
    add_settings(folder / FLAT, top)
    return spread(folder / FLAT, top, luts)

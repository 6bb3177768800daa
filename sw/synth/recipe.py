"""The Yosys scripts: from the RTL to gates of a library, or to the cells of an ECP5."""

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sw.synth.errors import SynthError
from sw.synth.library import Library

MARK = "@@ "
"""What the log has before the name of each step."""


class Effort(enum.StrEnum):
    """quick: gates are mapped once. full: logic is restructured before, as long as it pays."""

    QUICK = "quick"
    FULL = "full"


def effort_named(name: str) -> Effort:
    """The effort of that name; `SynthError` for another."""
    try:
        return Effort(name)
    except ValueError:
        known = ", ".join(Effort)
        raise SynthError(f"--effort {name}: no such effort; there are {known}") from None


DELAY_TARGET_FO4 = 16
"""Delay that gates are sized for; less than any long path has, so that those are made fast."""

_MAP = {
    Effort.QUICK: "strash; &get -n; &nf; &put; buffer; upsize {D}; dnsize {D}",
    Effort.FULL: (
        "strash; &get -n; &fraig -x; &put; scorr; dc2; dretime; strash; &get -n; &dch -f; "
        "&nf {D}; &put; buffer; upsize {D}; dnsize {D}"
    ),
}
"""What ABC does: `full` is Yosys's own script for a library, without the retiming of `-D`."""


@dataclass(frozen=True, slots=True)
class Step:
    """Commands of Yosys under one name, which progress and log show."""

    title: str
    commands: tuple[str, ...]


def script(steps: Sequence[Step]) -> str:
    """The text of a script."""
    lines = []
    for step in steps:
        lines += [f"log {MARK}{step.title}", *step.commands]
    return "\n".join(lines) + "\n"


def read(sources: Sequence[Path], top: str, boxes: Sequence[Path] = ()) -> Step:
    """Read the RTL; modules of `boxes` stay empty."""
    commands = [f'read_verilog -sv -lib "{path}"' for path in boxes]
    commands += [f'read_verilog -sv "{path}"' for path in sources]
    commands += [f"hierarchy -check -top {top}", "proc", "opt_expr", "opt_clean", "check"]
    return Step("reading the RTL", tuple(commands))


GATED_REGISTERS = 3
"""Least number of flip-flops behind a clock gate. Fewer take less than the gate does."""


def gate_clocks(library: Library) -> Step:
    """Registers that share an enable get one clock gate in place of a multiplexer a bit."""
    cell = library.clock_gate
    if cell is None or cell.clock_gate is None:
        raise SynthError(
            f"library {library.name}: it has no clock gate (clock_gating_integrated_cell : "
            "latch_posedge, without a pin for tests); synthesize without --clock-gating"
        )
    pins = cell.clock_gate
    ports = f"{pins.enable}:{pins.clock}:{pins.output}"
    return Step(
        "clock gates",
        (
            "setattr -unset init w:*",
            # A synchronous reset becomes a part of the enable and of the data.
            *("opt_dff -nosdff", "opt_clean"),
            "simplemap t:$dffe",  # a set is counted in flip-flops of one bit
            f"clockgate -pos {cell.name} {ports} -min_net_size {GATED_REGISTERS}",
            "opt_clean",
        ),
    )


def map_to_gates(
    library: Library, files: "MapFiles", effort: Effort, gating: bool = False
) -> list[Step]:
    """Gates of a library. Hierarchy stays; memories stay cells (`$mem_v2`, `systola_sram`).

    gating: with clock gates.
    """
    unused = " ".join(f"-dont_use {name}" for name in library.unusable)
    target_ps = round(DELAY_TARGET_FO4 * library.fo4_ns * 1000)
    return [
        Step(
            "finding operators and memories",
            (
                *("wreduce", "opt_clean", "booth", "alumacc"),
                *("memory -nomap", "memory_map -rom-only"),
                # Where nothing is written, address and data of a write do not matter.
                *("opt_expr -mux_undef", "opt_clean"),
            ),
        ),
        *([gate_clocks(library)] if gating else []),
        Step(
            "operators to gates",
            (
                "techmap",
                # Every register has a reset: what it holds before that does not matter.
                "setattr -unset init w:*",
                *("opt_expr", "opt_merge", "opt_clean"),
                *("dfflegalize -cell $_DFF_P_ x", "simplemap", "opt_expr", "opt_clean"),
            ),
        ),
        Step(
            "gates of the library",
            (
                f'dfflibmap {unused} -liberty "{files.library}"',
                f'abc -liberty "{files.library}" {unused} -D {target_ps} '
                f'-constr "{files.constraints}" -script "{files.abc}"',
                "opt_clean -purge",
            ),
        ),
        Step("writing the netlist", (f'write_json "{files.netlist}"',)),
    ]


@dataclass(frozen=True, slots=True)
class MapFiles:
    """The files of a mapping, all in one folder."""

    folder: Path

    @property
    def library(self) -> Path:
        return self.folder / "library.lib"

    @property
    def constraints(self) -> Path:
        return self.folder / "abc.constr"

    @property
    def abc(self) -> Path:
        return self.folder / "map.abc"

    @property
    def netlist(self) -> Path:
        return self.folder / "netlist.json"

    def write(self, text: str, library: Library, effort: Effort) -> None:
        """Write what the script reads. text: the library's."""
        load = 2000 * max(library.nand2.capacitance[library.nand2.inputs[0]])
        self.library.write_text(text)
        self.constraints.write_text(
            f"set_driving_cell {library.inverter.name}\nset_load {load:.4f} [all_outputs]\n"
        )
        self.abc.write_text(_MAP[effort].replace("; ", "\n") + "\n")

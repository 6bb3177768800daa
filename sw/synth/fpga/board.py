"""A bitstream for a board: the NPU with block RAM as memory and a serial line to the host."""

import time
from dataclasses import dataclass
from pathlib import Path

from spec.config import NpuConfig
from spec.names import did_you_mean
from sw.runtime.progress import Say
from sw.runtime.simulator.guarded import run_guarded
from sw.synth import rtl
from sw.synth.errors import SynthError
from sw.synth.fpga.ecp5 import flatten, map_to_ecp5
from sw.synth.fpga.nextpnr import run_nextpnr
from sw.synth.fpga.placement import CONFIG
from sw.synth.fpga.report import FpgaReport
from sw.synth.fpga.spread import LARGEST
from sw.synth.recipe import Effort
from sw.synth.tools import find_ecppack, find_nextpnr, find_yosys

TOP = "systola_fpga"
BITSTREAM = "npu.bit"


@dataclass(frozen=True, slots=True, kw_only=True)
class Board:
    """A board. device: nextpnr's options for it but for the speed grade. mhz: of its clock. pins:
    site of each port."""

    name: str
    device: tuple[str, ...]
    grade: str
    mhz: float
    pins: dict[str, str]

    def constraints(self) -> str:
        """The pins and the clock, as nextpnr reads them (LPF)."""
        lines = [
            f'LOCATE COMP "{port}" SITE "{site}";\nIOBUF PORT "{port}" IO_TYPE=LVCMOS33;'
            for port, site in self.pins.items()
        ]
        return "\n".join([*lines, f'FREQUENCY PORT "clk" {self.mhz:g} MHZ;', ""])


BOARDS = {
    board.name: board
    for board in (
        Board(
            name="ulx3s",
            device=("--85k", "--package", "CABGA381"),
            grade="6",
            mhz=25.0,
            pins={"clk": "G2", "rx": "M1", "tx": "L4", "busy": "B2", "irq": "C2"},
        ),
    )
}
"""Radiona's ULX3S with an LFE5U-85F."""


def board_named(name: str) -> Board:
    """The board; `SynthError` for another."""
    if name not in BOARDS:
        near = did_you_mean(name, BOARDS)
        raise SynthError(f"--board {name}: no such board{near}; there are {', '.join(BOARDS)}")
    return BOARDS[name]


def build_bitstream(
    config: NpuConfig, board: Board, memory_bytes: int, baud: int, folder: Path, say: Say
) -> tuple[FpgaReport, Path]:
    """Resources and clock of the whole top, and its bitstream in `folder`.

    `SynthError` if it does not fit, or is slower than the board's clock.
    """
    began = time.monotonic()
    divisor = round(board.mhz * 1e6 / baud)
    real = board.mhz * 1e6 / max(divisor, 1)
    if divisor < 4 or abs(real - baud) > 0.02 * baud:
        raise SynthError(
            f"--baud {baud}: a clock of {board.mhz:g} MHz makes {real:,.0f} of it; take a speed "
            f"that divides it by 4 or more, within 2%"
        )
    yosys, nextpnr, pack = find_yosys(), find_nextpnr(), find_ecppack()
    say(f"generating the RTL of {config.name} for {board.name} …")
    sources = rtl.generate(config, folder, fpga=(memory_bytes, divisor))
    blocks, warned = map_to_ecp5(sources, TOP, folder, say)
    luts = blocks[""].luts if LARGEST in board.device else 0
    free = flatten(TOP, [], luts, folder, say)
    device = (*board.device, "--speed", board.grade)
    fitted = run_nextpnr(nextpnr, device, board.constraints(), free, folder, say)
    report = FpgaReport(
        config=config.name,
        config_digest=config.digest_hex,
        effort=Effort.FULL,
        grade=board.grade,
        tools=(yosys.version, nextpnr.version),
        blocks=blocks,
        fmax_mhz=fitted.fmax_mhz,
        used=fitted.used,
        problem=fitted.problem,
        critical_path=fitted.critical_path,
        warnings=warned,
        seconds=time.monotonic() - began,
    )
    if fitted.problem:
        raise SynthError(f"{config.name} on {board.name}: {fitted.problem}")
    if (fitted.fmax_mhz or 0.0) < board.mhz:
        raise SynthError(
            f"{config.name} on {board.name}: {fitted.fmax_mhz} MHz after routing, its clock has "
            f"{board.mhz:g}"
        )
    say("packing the bitstream …")
    command = [*pack.command, "--compress", "--input", CONFIG, "--bit", BITSTREAM]
    done = run_guarded(command, cwd=folder)
    if done.returncode:
        raise SynthError(f"{pack.version} failed:\n{done.stdout[-800:]}")
    return report, folder / BITSTREAM

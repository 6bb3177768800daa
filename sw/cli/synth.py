"""`synth`: area, clock and FPGA resources of a configuration, synthesized here."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sw.cli.options import CONFIGURATION, Configuration, JsonOption
from sw.cli.output import console, progress

if TYPE_CHECKING:
    from spec.config import NpuConfig
    from sw.runtime.progress import Say
    from sw.synth.fpga.report import FpgaReport
    from sw.synth.recipe import Effort
    from sw.synth.report import Report

    Run = Callable[[NpuConfig, Effort, Path, Say], Report | FpgaReport]

TARGETS = ("generic", "ecp5", "liberty")


def synth(
    hardware: Configuration = CONFIGURATION,
    target: Annotated[
        str,
        typer.Option(
            "--target",
            "-t",
            help="generic (cells of no process), ecp5 (an FPGA), liberty (yours, by --liberty)",
        ),
    ] = "generic",
    liberty: Annotated[
        Path | None, typer.Option("--liberty", help="library of cells, .lib or .lib.gz")
    ] = None,
    nand2: Annotated[
        str, typer.Option("--nand2", help="cell that is one gate equivalent (the smallest NAND2)")
    ] = "",
    wires: Annotated[
        str,
        typer.Option(
            "--wire-load", help="wire-load model of the library (its default one), or none"
        ),
    ] = "",
    effort: Annotated[
        str,
        typer.Option(
            "--effort", help="full, or quick: logic not restructured; an FPGA not placed and routed"
        ),
    ] = "full",
    gating: Annotated[
        bool,
        typer.Option("--clock-gating", help="clock gates before registers with enables, for cells"),
    ] = False,
    grade: Annotated[
        str, typer.Option("--grade", help="speed grade of the ECP5: 6 (the slowest), 7 or 8")
    ] = "",
    out: Annotated[
        Path | None, typer.Option("--out", help="keep netlist, scripts and log in this folder")
    ] = None,
    max_fo4: Annotated[
        float | None,
        typer.Option(
            "--max-fo4",
            help="fail if a stage is longer than that many FO4, or an input leads to an output "
            "without a register",
        ),
    ] = None,
    json_file: JsonOption = None,
) -> None:
    """Synthesize the RTL: area or FPGA resources by block, memories, clock, longest paths."""
    from sw.runtime.report import write_json
    from sw.runtime.scratch import Scratch
    from sw.synth.recipe import effort_named

    npu = hardware.npu()
    chosen = effort_named(effort)
    run = _target(target, liberty, nand2, wires, gating, grade)
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
    with progress() as say, Scratch("synth") as scratch:
        report = run(npu, chosen, out.absolute() if out else scratch.path, say)
    shown = console()
    for table in report.tables():
        shown.print(table)
    for line in report.summary():
        typer.echo(line)
    if json_file is not None:
        write_json(report.to_json(), json_file)
    if max_fo4 is not None:
        _check(report, max_fo4)


def _check(report: "Report | FpgaReport", max_fo4: float) -> None:
    """`SynthError` for paths that are too long; an FPGA's report has none."""
    from sw.synth.errors import SynthError
    from sw.synth.report import Report
    from sw.synth.stages import check_stages

    if not isinstance(report, Report):
        raise SynthError("--max-fo4 goes with libraries of cells, not with --target ecp5")
    check_stages(report, max_fo4)


def _target(
    target: str, liberty: Path | None, nand2: str, wires: str, gating: bool, grade: str
) -> "Run":
    """The flow that is meant; `SynthError` for options that do not go together."""
    from spec.names import did_you_mean
    from sw.synth.errors import SynthError
    from sw.synth.flow import generic_cells, liberty_cells, synthesize
    from sw.synth.fpga.ecp5 import synthesize_ecp5
    from sw.synth.fpga.nextpnr import GRADES

    if target not in TARGETS:
        near = did_you_mean(target, TARGETS)
        raise SynthError(f"--target {target}: no such target{near}; there are {', '.join(TARGETS)}")
    if grade and target != "ecp5":
        raise SynthError(f"--grade goes with --target ecp5, not with --target {target}")
    if target == "liberty":
        if liberty is None:
            raise SynthError("--target liberty needs a library of cells: --liberty FILE.lib")
        return partial(synthesize, liberty_cells(liberty, nand2, wires), gating)
    given = {"--liberty": liberty is not None, "--nand2": nand2, "--wire-load": wires}
    if any(given.values()):
        name = next(option for option, there in given.items() if there)
        raise SynthError(f"{name} goes with --target liberty, not with --target {target}")
    if target != "ecp5":
        return partial(synthesize, generic_cells(), gating)
    if gating:
        raise SynthError("--clock-gating goes with libraries of cells, not with --target ecp5")
    return partial(synthesize_ecp5, grade=grade or GRADES[0])

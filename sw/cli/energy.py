"""`energy`: picojoules of an inference, by block and by layer."""

from pathlib import Path
from typing import Annotated

import typer

from sw.cli.options import (
    CONFIGURATION,
    NO_DATA,
    ON_RTL,
    Configuration,
    JsonOption,
    Machine,
    ModelData,
    ShapeOption,
)
from sw.cli.output import console, progress


def energy(
    target: Annotated[str, typer.Argument(metavar="KERNEL|MODEL", help="what to run")],
    shape: ShapeOption = None,
    hardware: Configuration = CONFIGURATION,
    machine: Machine = ON_RTL,
    data: ModelData = NO_DATA,
    liberty: Annotated[
        Path | None,
        typer.Option("--liberty", help=".lib or .lib.gz of the cells (default: of no process)"),
    ] = None,
    nand2: Annotated[
        str, typer.Option("--nand2", help="cell that is one gate equivalent (the smallest NAND2)")
    ] = "",
    effort: Annotated[
        str, typer.Option("--effort", help="of the synthesis: full, or quick")
    ] = "full",
    gating: Annotated[
        bool | None,
        typer.Option(
            "--clock-gating/--no-clock-gating",
            help="clock gates before registers with enables (default: if the cells have one)",
        ),
    ] = None,
    samples: Annotated[
        int, typer.Option("--samples", min=16, help="cycles of the run that are looked at")
    ] = 512,
    mhz: Annotated[
        float | None,
        typer.Option("--mhz", help="clock, for leakage (default: what the longest path allows)"),
    ] = None,
    sram: Annotated[
        float | None,
        typer.Option("--sram", help="pJ of a bit read or written in a memory of 64 Kibit"),
    ] = None,
    dram: Annotated[
        float | None, typer.Option("--dram", help="pJ of a byte read or written in DRAM")
    ] = None,
    json_file: JsonOption = None,
) -> None:
    """Tell the energy of an inference by block and layer: toggles of the RTL on its netlist."""
    from sw.energy.flow import Settings, energy_of
    from sw.runtime.report import write_json
    from sw.runtime.session import OptionError
    from sw.synth.flow import generic_cells, liberty_cells
    from sw.synth.recipe import effort_named

    options = machine.options()
    if options.device != "rtl":
        raise OptionError(f"--device {options.device}: it has no gates; energy needs rtl")
    settings = Settings(
        samples=samples,
        mhz=mhz,
        seed=options.seed,
        gating=gating,
        latency=options.latency,
        stall=options.stall,
        sram_pj_per_bit=sram,
        dram_pj_per_byte=dram,
    )
    cells = liberty_cells(liberty, nand2) if liberty else generic_cells()
    chosen = effort_named(effort)
    with progress() as say:
        report = energy_of(
            target, shape, data.supplied(), hardware.npu(), cells, chosen, settings, say
        )
    shown = console(160)
    for table in report.tables():
        shown.print(table)
    for line in report.summary():
        typer.echo(line)
    if json_file is not None:
        write_json(report.to_json(), json_file)

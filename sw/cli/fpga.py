"""`fpga build` and `fpga run`: the NPU on a board, or its top simulated."""

from pathlib import Path
from typing import Annotated

import typer

from sw.cli.options import (
    CONFIGURATION,
    NO_DATA,
    Configuration,
    JsonOption,
    ModelData,
    ShapeOption,
)
from sw.cli.output import console, progress

Memory = Annotated[int, typer.Option("--memory-kib", min=1, help="block RAM as its memory")]


def fpga_build(
    hardware: Configuration = CONFIGURATION,
    board: Annotated[str, typer.Option("--board", help="ulx3s")] = "ulx3s",
    memory_kib: Memory = 64,
    baud: Annotated[int, typer.Option("--baud", help="of the serial line")] = 1_000_000,
    out: Annotated[Path, typer.Option("--out", "-o", help="folder of the bitstream")] = Path(
        "build", "fpga"
    ),
    json_file: JsonOption = None,
) -> None:
    """Write a bitstream: the NPU, block RAM as its memory, a serial line to the host."""
    from sw.runtime.report import write_json
    from sw.synth.fpga.board import board_named, build_bitstream

    chosen = board_named(board)
    out.mkdir(parents=True, exist_ok=True)
    with progress() as say:
        size = memory_kib * 1024
        report, path = build_bitstream(hardware.npu(), chosen, size, baud, out.absolute(), say)
    for table in report.tables():
        console().print(table)
    for line in report.summary():
        typer.echo(line)
    typer.echo(f"{path}: {path.stat().st_size:,} bytes (openFPGALoader -b {board} {path.name})")
    if json_file is not None:
        write_json(report.to_json(), json_file)


def fpga_run(
    target: Annotated[str, typer.Argument(metavar="KERNEL|MODEL", help="what to run")],
    shape: ShapeOption = None,
    hardware: Configuration = CONFIGURATION,
    data: ModelData = NO_DATA,
    port: Annotated[
        str, typer.Option("--port", help="serial port of the board, or sim: the top simulated")
    ] = "sim",
    memory_kib: Memory = 64,
    baud: Annotated[int, typer.Option("--baud", help="of the serial line")] = 1_000_000,
    seed: Annotated[int, typer.Option("--seed", help="of random inputs")] = 0,
) -> None:
    """Run on a board by its serial line, and compare with the golden model bit for bit."""
    from sw.measure.fpga import run_on_board

    with progress() as say:
        report = run_on_board(
            target, shape, data.supplied(), hardware.npu(), port, memory_kib * 1024, baud, seed, say
        )
    report.print(console())
    if report.failed:
        raise typer.Exit(1)

"""Commands that measure cycles and speed: `bench`, `profile`, `simspeed`, `goldenspeed`."""

from pathlib import Path
from typing import Annotated

import typer

from sw.cli.options import (
    CONFIGURATION,
    NO_DATA,
    ON_RTL,
    ClockOption,
    Configuration,
    JsonOption,
    LatencyOption,
    Machine,
    MemoryOption,
    ModelData,
    ShapeOption,
    writable_file,
)
from sw.cli.output import console, progress


def bench(
    suite: Annotated[
        str, typer.Option("--suite", help="micro, nets, transformers, wide or modules")
    ] = "micro",
    hardware: Configuration = CONFIGURATION,
    only: Annotated[str, typer.Option("--only", help="entries of the suite, comma-separated")] = "",
    latency: LatencyOption = 100,
    clock: ClockOption = None,
    memory: MemoryOption = "ideal",
    predict: Annotated[
        bool, typer.Option("--predict", help="run nothing: what the compiler predicts")
    ] = False,
    fresh: Annotated[bool, typer.Option("--fresh", help="measure everything again")] = False,
    json_file: Annotated[
        Path | None,
        typer.Option("--json", help="rows, also to go on from (build/bench/SUITE-CONFIG.json)"),
    ] = None,
) -> None:
    """Measure a suite of kernels or networks on the RTL, or predict it."""
    from sw.measure.bench import problems, run_suite
    from sw.measure.bench_store import Store
    from sw.measure.bench_suites import MODULES, entries
    from sw.measure.pages import bench as figures
    from sw.measure.pages import modules
    from sw.runtime.report import check_json
    from sw.runtime.session import DeviceOptions, OptionError

    npu = hardware.npu()
    chosen = entries(suite, [name for name in only.split(",") if name])
    path = json_file or Path("build", "bench", f"{suite}-{npu.name}.json")
    check_json(path)
    options = DeviceOptions(latency=latency, clock_mhz=clock, memory=memory)
    if predict and suite == MODULES:
        raise OptionError(f"--predict: suite {suite} is run as commands run it; leave it out")
    conditions = {
        "latency": options.latency,
        "stall": options.stall,
        "seed": options.seed,
        "clock_mhz": clock,
        "memory": memory,
    }
    store = Store(path, npu, conditions, fresh=fresh)
    with progress() as say:
        rows = run_suite(chosen, npu, options, store, say, predict=predict)
    console().print((modules if suite == MODULES else figures).result_table(rows))
    failed = [str(row["name"]) for row in rows if problems(row)]
    typer.echo(f"{path}: {len(rows)} entries, {len(failed)} failed {' '.join(failed)}".rstrip())
    if failed:
        raise typer.Exit(1)


def _picture_file(param: typer.CallbackParam, path: Path | None) -> Path | None:
    """Refuse a kind of picture that cannot be drawn, before the run."""
    if path is not None and path.suffix not in (".png", ".svg", ".pdf"):
        from sw.runtime.session import OptionError

        raise OptionError(f"--picture {path}: must end in .png, .svg or .pdf")
    return writable_file(param, path)


def profile(
    target: Annotated[str, typer.Argument(metavar="KERNEL|MODEL", help="what to run")],
    shape: ShapeOption = None,
    hardware: Configuration = CONFIGURATION,
    machine: Machine = ON_RTL,
    data: ModelData = NO_DATA,
    trace: Annotated[
        Path | None,
        typer.Option(
            "--trace", help="write a trace for Perfetto's viewer (JSON)", callback=writable_file
        ),
    ] = None,
    picture: Annotated[
        Path | None,
        typer.Option(
            "--picture", help="draw a bar per layer into this .png", callback=_picture_file
        ),
    ] = None,
    json_file: JsonOption = None,
) -> None:
    """Run on the RTL and show, layer by layer, where the cycles go and what was predicted."""
    from sw.measure.profile.run import profile_target
    from sw.runtime.report import write_json

    found = profile_target(target, shape, hardware.npu(), machine.options(), data.supplied())
    found.print(console(160))
    if trace is not None:
        typer.echo(f"{trace}: {found.write_trace(trace):,} events (open in ui.perfetto.dev)")
    if picture is not None:
        typer.echo(f"{picture}: {found.write_picture(picture):,} layers")
    if json_file is not None:
        write_json(found.to_json(), json_file)
    if found.report.failed:
        raise typer.Exit(1)


def simspeed(hardware: Configuration = CONFIGURATION, json_file: JsonOption = None) -> None:
    """Measure the simulator: cycles per second of systola against bare Verilated C++."""
    from sw.measure import simspeed as measure

    measure.main(hardware.npu(), json_file)


def goldenspeed(
    targets: Annotated[list[str], typer.Argument(metavar="KERNEL|MODEL…", help="what to run")],
    shape: ShapeOption = None,
    hardware: Configuration = CONFIGURATION,
    json_file: JsonOption = None,
) -> None:
    """Measure the golden model: processor seconds with and without hazard checks."""
    from sw.measure import goldenspeed as measure

    console().print(measure.main(targets, shape, hardware.npu(), json_file))

"""Commands of `systola` that show where cycles and bits go: `bench`, `profile`, `diff`."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from sw.cli.main import (
    ConfigOption,
    DeviceOption,
    JsonOption,
    LatencyOption,
    SeedOption,
    SetOption,
    ShapeOption,
    StallOption,
    app,
    chosen_config,
    console,
)
from sw.measure.bench import Say
from sw.runtime.report import check_json, write_json
from sw.runtime.session import DeviceOptions, OptionError

InputOption = Annotated[
    list[Path] | None, typer.Option("--input", help="of a model: file.npy for each argument")
]
CalibOption = Annotated[
    list[Path] | None, typer.Option("--calib", help="data that calibrates a user's model: likewise")
]


@contextmanager
def progress() -> Iterator[Say]:
    """Prints lines; on a terminal the last one that ends in … stays below with a running clock."""
    bar = Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        TimeElapsedColumn(),
        console=Console(stderr=True),
        transient=True,
        disable=not sys.stderr.isatty(),
    )
    with bar:
        task = bar.add_task("", total=None)

        def say(text: str) -> None:
            if text.endswith("…") and not bar.disable:
                bar.reset(task, description=text)
            else:
                typer.echo(text)

        yield say


def wide_console() -> Console:
    """As `console`; tables of layers are wide."""
    return Console(highlight=False, width=None if sys.stdout.isatty() else 160)


@app.command()
def bench(
    files: Annotated[
        list[Path] | None, typer.Argument(metavar="[FILE]…", help="with --render: what to render")
    ] = None,
    suite: Annotated[str, typer.Option("--suite", help="micro, nets or transformers")] = "micro",
    config: ConfigOption = "default",
    settings: SetOption = None,
    only: Annotated[str, typer.Option("--only", help="entries of the suite, comma-separated")] = "",
    latency: LatencyOption = 100,
    fresh: Annotated[bool, typer.Option("--fresh", help="measure everything again")] = False,
    json_file: Annotated[
        Path | None,
        typer.Option("--json", help="rows, also to go on from (build/bench/SUITE-CONFIG.json)"),
    ] = None,
    render: Annotated[bool, typer.Option("--render", help="write the page of FILE…")] = False,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="of --render (stdout)")] = None,
) -> None:
    """Measure a suite of kernels or networks on the RTL, or render measured rows as a page."""
    if render:
        from sw.measure.pages.bench import write_page

        write_page(files or [], out)
        return
    if files or out is not None:
        raise OptionError("FILE… and --out go with --render")
    from sw.measure.bench import entries, problems, run_suite
    from sw.measure.bench_store import Store
    from sw.measure.pages.bench import result_table

    npu = chosen_config(config, settings)
    chosen = entries(suite, [name for name in only.split(",") if name])
    path = json_file or Path("build", "bench", f"{suite}-{npu.name}.json")
    check_json(path)
    options = DeviceOptions(latency=latency)
    conditions = {"latency": options.latency, "stall": options.stall, "seed": options.seed}
    store = Store(path, npu, conditions, fresh=fresh)
    with progress() as say:
        rows = run_suite(chosen, npu, options, store, say)
    console().print(result_table(rows))
    failed = [str(row["name"]) for row in rows if problems(row)]
    typer.echo(f"{path}: {len(rows)} entries, {len(failed)} failed {' '.join(failed)}".rstrip())
    if failed:
        raise typer.Exit(1)


@app.command()
def profile(
    target: Annotated[str, typer.Argument(metavar="KERNEL|MODEL", help="what to run")],
    shape: ShapeOption = None,
    config: ConfigOption = "default",
    settings: SetOption = None,
    seed: SeedOption = 0,
    latency: LatencyOption = 100,
    stall: StallOption = 0.0,
    device: DeviceOption = "rtl",
    inputs: InputOption = None,
    calibration: CalibOption = None,
    trace: Annotated[
        Path | None, typer.Option("--trace", help="write a trace for Perfetto's viewer (JSON)")
    ] = None,
    json_file: JsonOption = None,
) -> None:
    """Run on the RTL and show, layer by layer, where the cycles go and what was predicted."""
    from sw.measure.profile.run import profile_target

    check_json(json_file)
    check_json(trace, "--trace")
    npu = chosen_config(config, settings)
    options = DeviceOptions(device=device, latency=latency, stall=stall, seed=seed)
    found = profile_target(target, shape, npu, options, inputs or (), calibration or ())
    found.print(wide_console())
    if trace is not None:
        typer.echo(f"{trace}: {found.write_trace(trace):,} events (open in ui.perfetto.dev)")
    if json_file is not None:
        write_json(found.to_json(), json_file)
    if found.report.failed:
        raise typer.Exit(1)


@app.command()
def diff(
    model: Annotated[str, typer.Argument(help="a model, path.py:function, or a program .pt2")],
    fed: Annotated[
        bool, typer.Option("--fed", help="each layer on PyTorch's integers, not on the NPU's")
    ] = False,
    lsb: Annotated[
        int | None, typer.Option("--lsb", help="tolerance: largest difference (--fed: 1)")
    ] = None,
    share: Annotated[
        float | None, typer.Option("--share", help="tolerance: differing elements (--fed: 0.001)")
    ] = None,
    sqnr: Annotated[
        float | None, typer.Option("--sqnr", help="tolerance: least SQNR in dB (free-running: 20)")
    ] = None,
    inputs: InputOption = None,
    calibration: CalibOption = None,
    config: ConfigOption = "default",
    settings: SetOption = None,
    seed: SeedOption = 0,
    latency: LatencyOption = 100,
    stall: StallOption = 0.0,
    device: DeviceOption = "golden",
    json_file: JsonOption = None,
) -> None:
    """Compare a model with PyTorch's int8 graph, layer by layer; name the first that differs."""
    from sw.measure.diff import FED_TOLERANCE, FREE_TOLERANCE, Tolerance
    from sw.measure.diff_run import diff_model

    check_json(json_file)
    npu = chosen_config(config, settings)
    options = DeviceOptions(device=device, latency=latency, stall=stall, seed=seed)
    given = Tolerance(lsb=lsb, share=share, sqnr_db=sqnr)
    usual = FED_TOLERANCE if fed else FREE_TOLERANCE
    found = diff_model(
        model,
        npu,
        options,
        fed=fed,
        tolerance=usual if given == Tolerance() else given,
        inputs=inputs or (),
        calibration=calibration or (),
    )
    found.print(wide_console())
    if json_file is not None:
        write_json(found.to_json(), json_file)
    if found.first is not None:
        raise typer.Exit(1)

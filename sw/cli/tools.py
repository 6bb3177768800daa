"""Commands of `systola` that run no comparison: images, configurations, environment, cache."""

import dataclasses
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from spec.config import PRESETS
from spec.program import load_image
from sw.cli.main import (
    CalibOption,
    ConfigOption,
    DeviceOption,
    InputOption,
    JsonOption,
    LatencyOption,
    SeedOption,
    SetOption,
    ShapeOption,
    StallOption,
    WavesOption,
    app,
    chosen_config,
    console,
    finish,
    waves_path,
)
from sw.runtime.report import check_json
from sw.runtime.session import DeviceOptions, OptionError

config_app = typer.Typer(help="List presets, show one.", no_args_is_help=True)
cache_app = typer.Typer(help="The cache of simulator builds.", no_args_is_help=True)
app.add_typer(config_app, name="config")
app.add_typer(cache_app, name="cache")

_SHOWN = ("rows", "cols", "spad_kib", "acc_kib", "bus_bytes", "banks", "outstanding")
_DERIVED = ("pes", "word_bytes", "bank_depth", "acc_vectors", "param_entry_bytes", "digest_hex")


@config_app.command("list")
def config_list() -> None:
    """Every preset with its sizes and digest."""
    table = Table("preset", *_SHOWN, "digest")
    for name, npu in PRESETS.items():
        table.add_row(name, *(str(getattr(npu, f)) for f in _SHOWN), npu.digest_hex)
    console().print(table)


@config_app.command("show")
def config_show(
    name: Annotated[str, typer.Argument(help="preset")], settings: SetOption = None
) -> None:
    """Every field of a preset, and what follows from them."""
    npu = chosen_config(name, settings)
    table = Table("field", "value")
    for field in dataclasses.fields(npu):
        table.add_row(field.name, str(getattr(npu, field.name)))
    table.add_section()
    for derived in _DERIVED:
        table.add_row(derived, str(getattr(npu, derived)))
    console().print(table)


@app.command()
def disasm(
    image_file: Annotated[Path, typer.Argument(metavar="IMAGE", help="program image")],
) -> None:
    """Print a program image's instructions and ports."""
    image = load_image(image_file)
    typer.echo(f"; configuration {image.config.name} {image.config.digest_hex}")
    for kind, ports in (("input", image.inputs), ("output", image.outputs)):
        for port in ports:
            shape = "×".join(map(str, port.shape))
            typer.echo(f"; {kind} {port.name}: {port.dtype}[{shape}] at {port.offset:#x}")
    typer.echo(f"; constants {image.constants.size} bytes, temporary {image.temp_bytes} bytes")
    for index, instruction in enumerate(image.instructions()):
        typer.echo(f"{index:5d}  {instruction}")


@app.command("exec")
def execute(
    image_file: Annotated[Path, typer.Argument(metavar="IMAGE", help="program image")],
    inputs: Annotated[
        list[str] | None, typer.Option("--input", help="name=file.npy; the others are random")
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", help="folder for outputs as .npy")] = None,
    config: Annotated[
        str | None, typer.Option("--config", "-c", help="the device's preset (the image's own)")
    ] = None,
    settings: SetOption = None,
    seed: SeedOption = 0,
    latency: LatencyOption = 100,
    stall: StallOption = 0.0,
    waves: WavesOption = False,
    device: DeviceOption = "rtl",
    json_file: JsonOption = None,
) -> None:
    """Run a program image; on the RTL, compare with the golden model."""
    from sw.runtime.session import load_inputs, run_program, save_outputs

    check_json(json_file)
    image = load_image(image_file)
    npu = image.config
    if config is not None or settings:
        npu = chosen_config(config or "default", settings)
    options = DeviceOptions(
        device=device,
        latency=latency,
        stall=stall,
        seed=seed,
        waves=waves_path(image_file.stem, npu, seed) if waves else None,
    )
    arrays = load_inputs(image, _input_files(inputs), seed)
    report, outputs = run_program(image, arrays, npu, options)
    if out is not None:
        save_outputs(outputs, out)
    finish(report, json_file)


def _input_files(items: list[str] | None) -> dict[str, Path]:
    files = {}
    for item in items or ():
        name, equals, path = item.partition("=")
        if not (name and equals and path):
            raise OptionError(f"--input {item}: must be of the form name=file.npy")
        files[name] = Path(path)
    return files


@app.command("compile")
def compile_program(
    target: Annotated[
        str, typer.Argument(metavar="KERNEL|MODEL|FILE.tosa", help="what to compile")
    ],
    out: Annotated[Path | None, typer.Option("--out", "-o", help="image file")] = None,
    shape: ShapeOption = None,
    config: ConfigOption = "default",
    settings: SetOption = None,
    seed: SeedOption = 0,
    dump_after: Annotated[
        str, typer.Option("--dump-after", help="stages to write as text, comma-separated; or all")
    ] = "",
    inputs: InputOption = None,
    calibration: CalibOption = None,
) -> None:
    """Compile a kernel or a model into a program image."""
    from sw.measure.targets import compile_target

    npu = chosen_config(config, settings)
    stages = tuple(s for s in dump_after.split(",") if s)
    data = (inputs or (), calibration or ())
    image = compile_target(target, npu, shape, seed, stages, data)
    path = out or Path(f"{image.info.get('name', target)}-{config}.systola")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        image.save(path)
    except OSError as error:
        raise OptionError(f"--out {path}: cannot write: {error.strerror}") from None
    count = len(image.instructions())
    typer.echo(
        f"{path}: {count} instructions in {image.program.size:,} bytes, "
        f"{image.constants.size:,} bytes of constants, configuration {npu.name} {npu.digest_hex}"
    )


@app.command()
def simspeed(config: ConfigOption = "default", json_file: JsonOption = None) -> None:
    """Measure the simulator: cycles per second of systola against bare Verilated C++."""
    from sw.measure import simspeed as measure

    measure.main(chosen_config(config, None), json_file)


@app.command("goldenspeed")
def golden_speed(
    targets: Annotated[list[str], typer.Argument(metavar="KERNEL|MODEL…", help="what to run")],
    shape: ShapeOption = None,
    config: ConfigOption = "default",
    settings: SetOption = None,
    json_file: JsonOption = None,
) -> None:
    """Measure the golden model: processor seconds with and without hazard checks."""
    from sw.measure import goldenspeed

    check_json(json_file)
    npu = chosen_config(config, settings)
    console().print(goldenspeed.main(targets, shape, npu, json_file))


@app.command()
def doctor() -> None:
    """Check the environment; every failed line says how to mend it."""
    from sw.cli import doctor as checks

    results = checks.run_all()
    for result in results:
        typer.echo(f"{'ok  ' if result.ok else 'FAIL'}  {result.name}: {result.found}")
        if not result.ok:
            typer.echo(f"      mend: {result.mend}")
    failed = sum(not r.ok for r in results)
    typer.echo(f"{len(results)} checks, {failed} failed")
    if failed:
        raise typer.Exit(1)


@cache_app.command("show")
def cache_show() -> None:
    """Where the cache lies and how large it is."""
    from sw.runtime.simulator.cache import BuildCache

    cache = BuildCache()
    typer.echo(f"{cache.root}: {cache.size() / 1e9:.2f} of {cache.limit / 1e9:g} GB")


@cache_app.command("clear")
def cache_clear() -> None:
    """Remove every build that is not in use."""
    from sw.runtime.simulator.cache import BuildCache

    cache = BuildCache(limit=0)
    typer.echo(f"{cache.root}: {len(cache.evict())} builds removed")

"""The command line: `systola sim|run|verify|quantize|exec|compile|disasm|bench|config|doctor|…`.

Exit codes: 0 done and equal, 1 a comparison failed, 2 bad input, 130 interrupted. Everything a user
can get wrong is a `SystolaError`, printed as one message on stderr without a trace-back.
"""

import os
import re
import sys
import time
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from spec.config import NpuConfig, parse_settings, preset
from spec.errors import SystolaError
from sw.runtime.report import Report, check_json, write_json
from sw.runtime.session import Arrays, DeviceOptions

app = typer.Typer(
    name="systola",
    help="A systolic-array NPU: generate it, compile for it, simulate it, compare it bit by bit.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

ConfigOption = Annotated[str, typer.Option("--config", "-c", help="preset (systola config list)")]
SetOption = Annotated[
    list[str] | None, typer.Option("--set", help="change one field of it, e.g. rows=8; repeatable")
]
ShapeOption = Annotated[
    str | None, typer.Option("--shape", help="MxKxN, or key=value,… of the kernel")
]
SeedOption = Annotated[int, typer.Option("--seed", min=0, help="of inputs and memory stalls")]
LatencyOption = Annotated[int, typer.Option("--latency", help="memory latency in cycles")]
StallOption = Annotated[float, typer.Option("--stall", help="probability of a stall per cycle")]
WavesOption = Annotated[bool, typer.Option("--waves", help="debug build; record waves (VCD)")]
DeviceOption = Annotated[str, typer.Option("--device", "-d", help="rtl or golden")]
VerifyOption = Annotated[
    bool, typer.Option("--verify", help="compare golden with the TOSA reference model too")
]
InputOption = Annotated[
    list[Path] | None,
    typer.Option(
        "--input", help="samples as .npy; repeat it for each argument (of a .tosa: NAME=file too)"
    ),
]
CalibOption = Annotated[
    list[Path] | None,
    typer.Option("--calib", help="data to quantize your own model on, as .npy (the inputs)"),
]
JsonOption = Annotated[Path | None, typer.Option("--json", help="write the report to this file")]


def chosen_config(name: str, settings: list[str] | None) -> NpuConfig:
    """The preset `name` with `field=value` settings applied."""
    return preset(name).with_settings(parse_settings(settings or ()))


def console() -> Console:
    """Standard output; as wide as tables need when it is no terminal."""
    return Console(highlight=False, width=None if sys.stdout.isatty() else 120)


def waves_path(name: str, config: NpuConfig, seed: int) -> Path:
    """Where waves of a run go: build/waves/ under the working directory."""
    plain = re.sub(r"[^A-Za-z0-9._-]+", "-", f"{name}-{config.name}-seed{seed}")
    path = Path("build", "waves", f"{plain}.vcd").resolve()
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def finish(report: Report, json_file: Path | None) -> None:
    """Print, write the JSON, and leave with 1 if a comparison failed."""
    report.print(console())
    if json_file is not None:
        write_json(report.to_json(), json_file)
    if report.failed:
        raise typer.Exit(1)


@app.command()
def sim(
    kernel: Annotated[str, typer.Argument(help="matmul, conv2d, … (an unknown name lists them)")],
    shape: ShapeOption = None,
    config: ConfigOption = "default",
    settings: SetOption = None,
    seed: SeedOption = 0,
    latency: LatencyOption = 100,
    stall: StallOption = 0.0,
    waves: WavesOption = False,
    device: DeviceOption = "rtl",
    verify: VerifyOption = False,
    json_file: JsonOption = None,
) -> None:
    """Run one kernel on random data and compare the RTL with the golden model."""
    from sw.measure.targets import build_kernel, run_kernel

    check_json(json_file)
    npu = chosen_config(config, settings)
    options = DeviceOptions(
        device=device,
        latency=latency,
        stall=stall,
        seed=seed,
        waves=waves_path(kernel, npu, seed) if waves else None,
    )
    work = build_kernel(kernel, shape, seed)
    finish(run_kernel(work, npu, options, verify), json_file)
    cold_start_times()


@app.command()
def run(
    model: Annotated[
        str,
        typer.Argument(
            help="a network, FILE of quantize, path.py:function, program.pt2, graph.tosa"
        ),
    ],
    config: ConfigOption = "default",
    settings: SetOption = None,
    limit: Annotated[
        int | None, typer.Option("--limit", "-n", help="number of samples (digits: all, others 2)")
    ] = None,
    seed: Annotated[int, typer.Option("--seed", min=0, help="of the memory's stalls")] = 0,
    latency: LatencyOption = 100,
    stall: StallOption = 0.0,
    device: DeviceOption = "golden",
    verify: VerifyOption = False,
    inputs: InputOption = None,
    calibration: CalibOption = None,
    out: Annotated[
        Path | None, typer.Option("--out", help="folder for the outputs as float .npy")
    ] = None,
    json_file: JsonOption = None,
) -> None:
    """Run a network on its samples or yours; the RTL is compared with the golden model."""
    from sw.measure.model_runs import chosen_count, float_outputs, run_model, verify_model
    from sw.measure.tosa_runs import is_tosa, refuse_options, run_tosa
    from sw.models.catalog import get_model
    from sw.runtime.session import open_device, save_outputs

    check_json(json_file)
    npu = chosen_config(config, settings)
    options = DeviceOptions(device=device, latency=latency, stall=stall, seed=seed)
    if is_tosa(model):
        refuse_options(model, limit=limit, calib=calibration)
        finish(run_tosa(Path(model), inputs or (), npu, options, verify, out), json_file)
        return
    network = get_model(model, inputs or (), calibration or ())
    count = chosen_count(network, limit)
    outputs: list[Arrays] = []
    with open_device(npu, options) as opened:
        report = run_model(network, opened, limit=count, collected=outputs)
    if out is not None:
        save_outputs(float_outputs(network, outputs), out)
    if verify:
        report.reference = verify_model(network, npu, limit=count).reference
    finish(report, json_file)


@app.command()
def verify(
    targets: Annotated[
        list[str] | None, typer.Argument(metavar="[KERNEL|MODEL]…", help="default: all of them")
    ] = None,
    shape: ShapeOption = None,
    config: ConfigOption = "default",
    settings: SetOption = None,
    seed: SeedOption = 0,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="samples of a model")] = 8,
    inputs: InputOption = None,
    calibration: CalibOption = None,
    json_file: JsonOption = None,
) -> None:
    """Compare the golden model with the TOSA reference model on the compiler's own graph."""
    from sw.measure.targets import all_targets, is_model, verify_target
    from sw.runtime.verify import reference_version

    check_json(json_file)
    npu = chosen_config(config, settings)
    names = targets or all_targets()
    for name in names:
        is_model(name, shape)
    typer.echo(f"tosa-tools {reference_version()}, configuration {npu.name} {npu.digest_hex}")
    reports = []
    for name in names:
        report = verify_target(name, npu, shape, seed, limit, (inputs or (), calibration or ()))
        reports.append(report)
        typer.echo(f"{name} {report.shape}: {' '.join(report.verdict())}")
    if json_file is not None:
        facts = [r.to_json() for r in reports]
        write_json(facts if len(facts) > 1 else facts[0], json_file)
    failed = [r.name for r in reports if r.failed]
    typer.echo(f"{len(reports)} verified, {len(failed)} failed {' '.join(failed)}".rstrip())
    if failed:
        raise typer.Exit(1)


def cold_start_times() -> None:
    """After the first result on a fresh clone: how long it took from nothing."""
    import json

    note = Path(sys.prefix, "systola-cold-start.json")
    try:
        times = json.loads(note.read_text())
        note.unlink()
    except (OSError, ValueError):
        return
    total = time.time() - times["began"]
    typer.echo(
        f"from nothing to this result: {total - times['download_s']:.0f} s without the downloads "
        f"({times['download_s']:.0f} s), of which set-up {times['setup_s']:.0f} s"
    )


def main(arguments: list[str] | None = None) -> None:
    """Entry point of the console script and of `python -m systola`."""
    import sw.cli.accuracy
    import sw.cli.campaign
    import sw.cli.conformance
    import sw.cli.generate
    import sw.cli.models
    import sw.cli.tools
    import sw.cli.visibility  # noqa: F401 (their commands register themselves)

    try:
        app(arguments, prog_name="systola")
    except SystolaError as error:
        typer.echo(f"systola: {error}", err=True)
        sys.exit(2)
    except KeyboardInterrupt:
        typer.echo("systola: interrupted", err=True)
        sys.exit(130)
    except BrokenPipeError:
        # The reader of our output (head, less) is gone; Python would complain once more at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(141)

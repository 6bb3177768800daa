"""Commands that measure cycles and speed: `bench`, `profile`, `simspeed`, `goldenspeed`."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sw.cli.options import (
    CONFIGURATION,
    NO_DATA,
    ON_RTL,
    RESULTS,
    ClockOption,
    Configuration,
    DatabaseOption,
    JsonOption,
    LatencyOption,
    Machine,
    MemoryOption,
    ModelData,
    ShapeOption,
    writable_file,
)
from sw.cli.output import console, progress

if TYPE_CHECKING:
    from sw.measure.bench_npus import NpusOptions
    from sw.measure.profile.run import ProfiledRun
    from sw.runtime.session import DeviceOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class Several:
    """Several NPUs with one memory."""

    npus: Annotated[
        int | None, typer.Option("--npus", help="NPUs with one memory, beside one of them")
    ] = None
    partition: Annotated[
        str, typer.Option("--partition", help="with --npus: batch or pipeline")
    ] = "batch"
    shared_memory: Annotated[
        str,
        typer.Option(
            "--shared-memory", help="with --npus: narrow (of one NPU) or wide (a word for each)"
        ),
    ] = "narrow"
    samples: Annotated[
        int | None, typer.Option("--samples", help="with --npus: of a run (4 for each NPU)")
    ] = None

    def options(self) -> "NpusOptions | None":
        """None for a single NPU; `OptionError` for options that need --npus."""
        from sw.measure.bench_npus import NpusOptions
        from sw.runtime.session import OptionError

        if self.npus is not None:
            return NpusOptions(
                npus=self.npus,
                partition=self.partition,
                shared_memory=self.shared_memory,
                samples=self.samples,
            )
        given: dict[str, object] = {
            "--partition": self.partition,
            "--shared-memory": self.shared_memory,
        }
        given |= {"--samples": self.samples}
        usual: dict[str, object] = {"--partition": "batch", "--shared-memory": "narrow"}
        usual |= {"--samples": None}
        for name, value in given.items():
            if value != usual[name]:
                raise OptionError(f"{name} {value}: goes with --npus; name the number of NPUs too")
        return None


ONE_NPU = Several()


def bench(
    targets: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[KERNEL|MODEL]…", help="what to measure, files too (default: the suite)"
        ),
    ] = None,
    suite: Annotated[
        str,
        typer.Option("--suite", help="micro (the default), nets, transformers, wide or modules"),
    ] = "",
    hardware: Configuration = CONFIGURATION,
    only: Annotated[str, typer.Option("--only", help="entries of the suite, comma-separated")] = "",
    latency: LatencyOption = 100,
    clock: ClockOption = None,
    memory: MemoryOption = "ideal",
    several: Several = ONE_NPU,
    predict: Annotated[
        bool, typer.Option("--predict", help="run nothing: what the compiler predicts")
    ] = False,
    fresh: Annotated[bool, typer.Option("--fresh", help="measure everything again")] = False,
    json_file: Annotated[
        Path | None,
        typer.Option("--json", help="rows, also to go on from (build/bench/SUITE-CONFIG.json)"),
    ] = None,
    database: DatabaseOption = RESULTS,
) -> None:
    """Measure a suite, or what is named, on the RTL, or predict it."""
    from sw.measure.bench import problems, run_suite
    from sw.measure.bench_npus import npus_problems, npus_table, run_suite_npus
    from sw.measure.bench_record import Recorder
    from sw.measure.bench_store import Store
    from sw.measure.bench_suites import MODULES, chosen
    from sw.measure.pages import bench as figures
    from sw.measure.pages import modules
    from sw.runtime.report import check_json
    from sw.runtime.session import DeviceOptions, OptionError

    npu = hardware.npu()
    names = [name for name in only.split(",") if name]
    suite, entries = chosen(targets or (), suite, names)
    system = several.options()
    extra = f"-{system.title}" if system else ""
    path = json_file or Path("build", "bench", f"{suite}-{npu.name}{extra}.json")
    check_json(path)
    options = DeviceOptions(latency=latency, clock_mhz=clock, memory=memory)
    if predict and suite == MODULES:
        raise OptionError(f"--predict: suite {suite} is run as commands run it; leave it out")
    if predict and system:
        raise OptionError("--predict: nothing is predicted for --npus; leave one of them out")
    conditions = {
        "latency": options.latency,
        "stall": options.stall,
        "seed": options.seed,
        "clock_mhz": clock,
        "memory": memory,
        **(system.conditions() if system else {}),
    }
    wrong = npus_problems if system else problems
    title = f"{suite}{extra}"
    recorder = Recorder(database, suite, npu, conditions, title=title, file=path, problems=wrong)
    with recorder, progress() as say:
        # A file can have changed since: what is named is measured again.
        again = fresh or bool(targets)
        store = Store(path, npu, conditions, fresh=again, record=recorder.add)
        if system:
            rows = run_suite_npus(entries, npu, options, system, store, say)
            table = npus_table(rows)
        else:
            rows = run_suite(entries, npu, options, store, say, predict=predict)
            table = (modules if suite == MODULES else figures).result_table(rows)
    console().print(table)
    failed = [str(row["name"]) for row in rows if wrong(row)]
    typer.echo(f"{recorder.place}: {recorder.count} rows recorded")
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
    html: Annotated[
        Path | None,
        typer.Option(
            "--html",
            help="write a page: layers, engines and memories over time, graph",
            callback=writable_file,
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
    """Show, layer by layer, where the cycles go: measured on the RTL, or predicted (-d golden)."""
    from sw.measure.profile.page.build import write_profile_page
    from sw.runtime.report import write_json

    runs = _profiles(target, shape, hardware, machine.options(), data, html)
    for number, found in enumerate(runs):

        def numbered(path: Path, number: int = number) -> Path:
            return path.with_stem(f"{path.stem}-{number}") if len(runs) > 1 else path

        found.print(console(160))
        if trace is not None:
            count = found.write_trace(numbered(trace))
            typer.echo(f"{numbered(trace)}: {count:,} events (open in ui.perfetto.dev)")
        if html is not None:
            typer.echo(f"{html}: {write_profile_page(found, html):,} bytes (open in a browser)")
        if picture is not None:
            count = found.write_picture(numbered(picture))
            typer.echo(f"{numbered(picture)}: {count:,} layers")
    if json_file is not None:
        facts = [found.to_json() for found in runs]
        write_json(facts if len(facts) > 1 else facts[0], json_file)
    if any(found.report.failed for found in runs):
        raise typer.Exit(1)


def _profiles(
    target: str,
    shape: str | None,
    hardware: Configuration,
    options: "DeviceOptions",
    data: ModelData,
    html: Path | None,
) -> "list[ProfiledRun]":
    """The profile of a kernel or a model; of a `.pte` file one for each of its programs."""
    from sw.frontends.executorch.identify import is_executorch
    from sw.measure.profile.run import profile_target

    if not is_executorch(target):
        return [profile_target(target, shape, hardware.npu(), options, data.supplied())]
    from sw.measure.compiled.profiles import profile_file
    from sw.measure.compiled.programs import refuse_decided

    refuse_decided(target, data.supplied(), shape=shape, html=html)
    return profile_file(Path(target), data.inputs or (), hardware.given(), options)


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

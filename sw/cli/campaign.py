"""Commands of `systola` that run many things: `regress`, `sweep`, `mutants`."""

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from sw.cli.main import JsonOption, app, console
from sw.measure.campaign.plan import Plan, load_suite
from sw.measure.campaign.progress import show_progress
from sw.measure.campaign.runner import run_campaign
from sw.measure.campaign.store import Run, Store
from sw.measure.campaign.summary import complaints, exit_code, status_table, to_json, verdict
from sw.measure.campaign.task import Status
from sw.measure.campaign.workloads import split_workloads
from sw.runtime.report import check_json, write_json
from sw.runtime.session import OptionError

DATABASE = Path("results", "systola.sqlite")

JobsOption = Annotated[
    int | None, typer.Option("--jobs", "-j", min=1, help="processes (one per core)")
]
DatabaseOption = Annotated[Path, typer.Option("--db", help="database of results")]
FreshOption = Annotated[bool, typer.Option("--fresh", help="run everything again")]
RetryOption = Annotated[bool, typer.Option("--retry", help="run again what did not pass")]
OnlyOption = Annotated[str, typer.Option("--only", help="runs whose title has this text")]
LimitOption = Annotated[
    float | None, typer.Option("--time-limit", help="seconds that one run may take")
]


@app.command()
def regress(
    suite: Annotated[str, typer.Argument(help="smoke, nightly, or a YAML file")] = "smoke",
    only: OnlyOption = "",
    jobs: JobsOption = None,
    time_limit: LimitOption = None,
    database: DatabaseOption = DATABASE,
    fresh: FreshOption = False,
    retry: RetryOption = False,
    json_file: JsonOption = None,
) -> None:
    """Run a suite on golden and RTL in parallel; interrupted and started again it goes on."""
    check_json(json_file)
    if time_limit is not None and time_limit <= 0:
        raise OptionError(f"--time-limit {time_limit:g}: must be above 0 seconds")
    plan = load_suite(suite, only=only, limit_s=time_limit)
    how = How(database=database, jobs=jobs, fresh=fresh, retry=retry)
    runs = run_plan("regress", plan, {"only": only}, how, status_table)
    if json_file is not None:
        write_json(to_json(runs), json_file)
    raise typer.Exit(exit_code(runs))


@app.command()
def sweep(
    space: Annotated[Path, typer.Argument(metavar="SPACE", help="YAML file: docs/sweeps.md")],
    workloads: Annotated[
        str, typer.Option("--workloads", "-w", help="instead of the file's: matmul:64x64x64,digits")
    ] = "",
    only: OnlyOption = "",
    jobs: JobsOption = None,
    database: DatabaseOption = DATABASE,
    fresh: FreshOption = False,
    retry: RetryOption = False,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="folder of table and picture (results/SPACE)")
    ] = None,
) -> None:
    """Try every configuration of a space on golden and RTL: table, CSV, picture; resumable."""
    from sw.measure.campaign.picture import write_picture
    from sw.measure.campaign.points import point_results, points_table, write_csv
    from sw.measure.campaign.space import load_space

    plan = load_space(space, split_workloads(workloads), only=only)
    how = How(database=database, jobs=jobs, fresh=fresh, retry=retry)
    options = {"workloads": workloads, "only": only}
    runs = run_plan("sweep", plan, options, how, lambda rows: points_table(point_results(rows)))
    points = point_results(runs)
    folder = out or Path("results", plan.name)
    write_csv(points, folder / "points.csv")
    typer.echo(f"{folder / 'points.csv'}: {len(points)} points")
    drawn = write_picture(points, f"sweep {plan.name}", folder / "points.png")
    typer.echo(f"{folder / 'points.png'}: {drawn} measurements" if drawn else "nothing to draw")
    raise typer.Exit(exit_code(runs))


@app.command()
def mutants(
    only: Annotated[str, typer.Option("--only", help="mutations whose name has this text")] = "",
    jobs: JobsOption = None,
    database: DatabaseOption = DATABASE,
    fresh: FreshOption = False,
    retry: RetryOption = False,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="write the page of what caught each")
    ] = None,
) -> None:
    """Break the RTL in one place at a time: some check must notice each; resumable."""
    from sw.measure.campaign.mutants import mutant_plan, page

    if only and out is not None:
        raise OptionError("--out: the page has every mutation; leave out --only")
    plan = mutant_plan(only=only)
    how = How(database=database, jobs=jobs, fresh=fresh, retry=retry)
    runs = run_plan("mutants", plan, {"only": only}, how, status_table)
    if out is not None:
        out.write_text(page(runs), encoding="utf-8")
    raise typer.Exit(exit_code(runs))


@dataclass(frozen=True, slots=True, kw_only=True)
class How:
    """Options that do not change what a campaign consists of."""

    database: Path
    jobs: int | None
    fresh: bool
    retry: bool


def run_plan(
    kind: str,
    plan: Plan,
    options: dict[str, Any],
    how: How,
    table: Callable[[Sequence[Run]], Table],
) -> list[Run]:
    """Run what is left of a plan, show it going on, then what it came to; every row."""
    start = time.monotonic()
    with Store(how.database) as store:
        campaign = store.campaign(
            kind, plan.name, plan.tasks, options=options, fresh=how.fresh, retry=how.retry
        )
        where = f"{how.database}, campaign {campaign.number}"
        left = sum(run.status is Status.WAITING for run in campaign.runs())
        goes_on = "goes on with" if campaign.resumed else "has"
        typer.echo(f"{kind} {plan.name} {goes_on} {left} of {len(plan.tasks)} runs; {where}")
        complete = False
        try:
            with show_progress() as watcher:
                run_campaign(campaign, how.jobs or os.cpu_count() or 1, watcher)
            complete = True
        finally:
            campaign.close(complete=complete)
            runs = campaign.runs()
            console().print(table(runs))
            for line in complaints(runs):
                typer.echo(line)
            seconds = time.monotonic() - start
            typer.echo(verdict(f"{kind} {plan.name}", runs, seconds, where))
    return runs

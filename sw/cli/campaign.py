"""Commands that carry out many runs: `regress`, `sweep`, `mutants`."""

import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sw.cli.options import CAMPAIGN, Campaign, JsonOption, OnlyOption
from sw.cli.output import console

if TYPE_CHECKING:
    from sw.measure.campaign.plan import Plan
    from sw.measure.campaign.store import Run
    from sw.runtime.tables import FittedTable


def regress(
    suite: Annotated[str, typer.Argument(help="smoke, nightly, or a YAML file")] = "smoke",
    only: OnlyOption = "",
    time_limit: Annotated[
        float | None, typer.Option("--time-limit", help="seconds that one run may take")
    ] = None,
    campaign: Campaign = CAMPAIGN,
    json_file: JsonOption = None,
) -> None:
    """Run a suite on golden and RTL in parallel; interrupted and started again it goes on."""
    from sw.measure.campaign.plan import load_suite
    from sw.measure.campaign.summary import exit_code, status_table, to_json
    from sw.runtime.report import write_json
    from sw.runtime.session import OptionError

    if time_limit is not None and time_limit <= 0:
        raise OptionError(f"--time-limit {time_limit:g}: must be above 0 seconds")
    plan = load_suite(suite, only=only, limit_s=time_limit)
    runs = run_plan("regress", plan, {"only": only}, campaign, status_table)
    if json_file is not None:
        write_json(to_json(runs), json_file)
    raise typer.Exit(exit_code(runs))


def sweep(
    space: Annotated[Path, typer.Argument(metavar="SPACE", help="YAML file: docs/sweeps.md")],
    workloads: Annotated[
        str, typer.Option("--workloads", "-w", help="instead of the file's: matmul:64x64x64,digits")
    ] = "",
    only: OnlyOption = "",
    campaign: Campaign = CAMPAIGN,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="folder of table and picture (results/SPACE)")
    ] = None,
) -> None:
    """Try every configuration of a space on golden and RTL: table, CSV, picture; resumable."""
    from sw.measure.campaign.picture import write_picture
    from sw.measure.campaign.points import point_results, points_table, write_csv
    from sw.measure.campaign.space import load_space
    from sw.measure.campaign.summary import exit_code
    from sw.measure.campaign.workloads import split_workloads

    plan = load_space(space, split_workloads(workloads), only=only)
    options = {"workloads": workloads, "only": only}
    runs = run_plan(
        "sweep", plan, options, campaign, lambda rows: points_table(point_results(rows))
    )
    points = point_results(runs)
    folder = out or Path("results", plan.name)
    write_csv(points, folder / "points.csv")
    typer.echo(f"{folder / 'points.csv'}: {len(points)} points")
    drawn = write_picture(points, f"sweep {plan.name}", folder / "points.png")
    typer.echo(f"{folder / 'points.png'}: {drawn} measurements" if drawn else "nothing to draw")
    raise typer.Exit(exit_code(runs))


def mutants(
    only: OnlyOption = "",
    campaign: Campaign = CAMPAIGN,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="write the page of what caught each")
    ] = None,
) -> None:
    """Break the RTL in one place at a time: some check must notice each; resumable."""
    from sw.measure.campaign.mutants import mutant_plan
    from sw.measure.campaign.summary import exit_code, status_table
    from sw.measure.pages.mutations import mutations_page
    from sw.runtime.report import write_text
    from sw.runtime.session import OptionError

    if only and out is not None:
        raise OptionError("--out: the page has every mutation; leave out --only")
    plan = mutant_plan(only=only)
    runs = run_plan("mutants", plan, {"only": only}, campaign, status_table)
    if out is not None:
        write_text(mutations_page(runs), out)
    raise typer.Exit(exit_code(runs))


def run_plan(
    kind: str,
    plan: "Plan",
    options: dict[str, Any],
    how: Campaign,
    table: "Callable[[Sequence[Run]], FittedTable]",
) -> "list[Run]":
    """Run what is left of a plan, show it going on, then what it came to; every row."""
    from sw.measure.campaign.progress import show_progress
    from sw.measure.campaign.runner import run_campaign
    from sw.measure.campaign.store import Store
    from sw.measure.campaign.summary import complaints, verdict
    from sw.measure.campaign.task import Status

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

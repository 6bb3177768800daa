"""`systola sweep`: the configurations of a space."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sw.cli.campaigns.common import run_plan
from sw.cli.campaigns.report import write_beside
from sw.cli.options import CAMPAIGN, Campaign, OnlyOption

if TYPE_CHECKING:
    from sw.campaign.sweep.search.rounds import Rounds
    from sw.campaign.sweep.space import Space

GRID = "grid"


def sweep(
    space: Annotated[Path, typer.Argument(metavar="SPACE", help="YAML file: docs/sweeps.md")],
    workloads: Annotated[
        str, typer.Option("--workloads", "-w", help="instead of the file's: matmul:64x64x64,digits")
    ] = "",
    only: OnlyOption = "",
    cycles: Annotated[
        str, typer.Option("--cycles", help="instead of the file's: rtl, or model (predicted)")
    ] = "",
    objectives: Annotated[
        str, typer.Option("--objectives", help="instead of the file's: area,rate")
    ] = "",
    search: Annotated[
        str, typer.Option("--search", help="grid (every point), random, nsga2 or tpe")
    ] = GRID,
    trials: Annotated[
        int | None, typer.Option("--trials", help="points that a search tries (60)")
    ] = None,
    budget: Annotated[
        float | None, typer.Option("--budget", help="minutes after which a search tries no more")
    ] = None,
    seed: Annotated[int, typer.Option("--seed", min=0, help="of a search")] = 0,
    campaign: Campaign = CAMPAIGN,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="folder of table and picture (results/SPACE)")
    ] = None,
) -> None:
    """Try configurations of a space: area, clock, cycles, energy; table, CSV, front; resumable."""
    from sw.campaign.measures.synthesis import check_tools
    from sw.campaign.summary import exit_code
    from sw.campaign.sweep.cores import write_core
    from sw.campaign.sweep.picture import write_picture
    from sw.campaign.sweep.points import front_of, point_results, points_table, write_csv
    from sw.campaign.sweep.space import load_space
    from sw.campaign.sweep.tasks import grid_plan
    from sw.campaign.workloads import split_workloads

    found = load_space(
        space,
        split_workloads(workloads),
        cycles=cycles,
        objectives=split_workloads(objectives),
    )
    check_tools(found.synth)
    rounds = None if search == GRID else _rounds(found, search, seed, trials, budget, only)
    if rounds is None and (trials, budget) != (None, None):
        _refuse("--trials and --budget", "a grid is tried whole; add --search random, nsga2 or tpe")
    options = {"workloads": workloads, "only": only, "cycles": cycles, "objectives": objectives}
    plan = rounds.plan if rounds else grid_plan(found, only=only)
    runs = run_plan(
        "sweep",
        plan,
        {**options, "search": search, "seed": seed},
        campaign,
        lambda rows: points_table(point_results(rows), found.objectives),
        rounds=rounds.run if rounds else None,
    )
    points = point_results(runs)
    if rounds:
        typer.echo(rounds.summary())
    if found.objectives:
        names = ", ".join(objective.name for objective in found.objectives)
        typer.echo(f"front of {names}: {len(front_of(points, found.objectives))} points")
    folder = out or Path("results", plan.name.replace(" ", "-"))
    write_csv(points, folder / "points.csv", found.objectives)
    typer.echo(f"{folder / 'points.csv'}: {len(points)} points")
    drawn = write_picture(points, f"sweep {plan.name}", folder / "points.png")
    typer.echo(f"{folder / 'points.png'}: {drawn} measurements" if drawn else "nothing to draw")
    cores = write_core(points, plan.name, folder / "points.core")
    typer.echo(f"{folder / 'points.core'}: targets of {cores} points for FuseSoC")
    write_beside(campaign.database, "sweep", plan.name, folder)
    raise typer.Exit(exit_code(runs))


def _rounds(
    space: "Space",
    method: str,
    seed: int,
    trials: int | None,
    budget: float | None,
    only: str,
) -> "Rounds":
    """The search that is meant; `CampaignError` or `OptionError` for what makes no sense."""
    from sw.campaign.sweep.search.rounds import Budget, Rounds

    if only:
        _refuse(f"--only {only}", "it leaves points of a grid out; a search chooses its own")
    if budget is not None and budget <= 0:
        _refuse(f"--budget {budget:g}", "must be above 0 minutes")
    how = Budget(trials=60 if trials is None else trials, minutes=budget or 0.0)
    return Rounds(space, method, seed, how)


def _refuse(option: str, why: str) -> None:
    from sw.runtime.session import OptionError

    raise OptionError(f"{option}: {why}")

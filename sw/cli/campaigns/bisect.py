"""`systola bisect`: the first commit at which a run fails or became slower."""

from pathlib import Path
from typing import Annotated

import typer

from sw.cli.options import RESULTS, DatabaseOption


def bisect(
    name: Annotated[
        str,
        typer.Argument(
            metavar="RUN", help="a run's title as reports print it, or WORKLOAD[,CONFIG[,DEVICE]]"
        ),
    ],
    good: Annotated[
        str, typer.Option("--good", help="a commit where it was right (newest of the database)")
    ] = "",
    bad: Annotated[str, typer.Option("--bad", help="a commit where it is wrong")] = "HEAD",
    cycles_above: Annotated[
        int | None, typer.Option("--cycles-above", help="bad: more cycles than this")
    ] = None,
    rise: Annotated[
        float | None, typer.Option("--rise", help="bad: this many percent more cycles than --good")
    ] = None,
    database: DatabaseOption = RESULTS,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="try also what the database has a result of")
    ] = False,
    time_limit: Annotated[
        float, typer.Option("--time-limit", min=1, help="seconds that the run may take")
    ] = 3600.0,
    repo: Annotated[
        Path | None, typer.Option("--repo", help="source tree with the commits (this one)")
    ] = None,
) -> None:
    """Find the first bad commit of a run, in temporary worktrees; interrupted it goes on."""
    from sw.campaign.bisect.command import Bisection, Range, report
    from sw.campaign.bisect.criterion import Criterion
    from sw.campaign.bisect.repository import Repository
    from sw.campaign.bisect.target import task_named
    from sw.results.revision import ROOT
    from sw.results.store import Store

    percent = None if rise is None else rise / 100
    criterion = Criterion(cycles_above=cycles_above, rise=percent)
    task = task_named(name, time_limit)
    repository = Repository(repo or ROOT)
    if repository.is_changed():
        typer.echo(f"{repository.root} has changes that no commit has; they are not tried")
    with Store(database) as store:
        bisection = Bisection(task, repository, store, typer.echo, fresh=fresh)
        found = bisection.run(Range(good=good, bad=bad), criterion)
    for line in report(found):
        typer.echo(line)
    raise typer.Exit(0 if found.is_certain else 1)

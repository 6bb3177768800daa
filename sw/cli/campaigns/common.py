"""What the commands that carry out many runs share."""

import os
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import typer

from sw.cli.options import Campaign as Options
from sw.cli.output import console

if TYPE_CHECKING:
    from sw.campaign.plan import Plan
    from sw.results.store import Campaign, Run, Store
    from sw.results.task import Task
    from sw.runtime.tables import FittedTable


def run_plan(
    kind: str,
    plan: "Plan",
    options: dict[str, Any],
    how: Options,
    table: "Callable[[Sequence[Run]], FittedTable]",
    report: "Callable[[Sequence[Run]], None]" = lambda _: None,
    announce: "Callable[[Store, Sequence[Task], int], str]" = lambda _store, _left, _jobs: "",
    rounds: "Callable[[Campaign, Callable[[], object]], None] | None" = None,
) -> "list[Run]":
    """Run what is left of a plan, show it going on, then what it came to; every row.

    report: is given every row at the end, also where the campaign was interrupted. announce: is
    given what is left to run and the number of workers, and says something of it before.
    rounds: adds tasks to the campaign as it goes, and calls its second argument to run them.
    """
    from sw.campaign.engine.runner import Engine
    from sw.campaign.progress import show_progress
    from sw.campaign.summary import complaints, verdict
    from sw.results.store import Store
    from sw.results.task import Status

    start = time.monotonic()
    jobs = how.jobs or os.cpu_count() or 1
    with Engine(jobs, how.scheduler) as engine, Store(how.database) as store:
        campaign = store.campaign(
            kind, plan.name, plan.tasks, options=options, fresh=how.fresh, retry=how.retry
        )
        where = f"{store.location}, campaign {campaign.number}"
        left = [run.task for run in campaign.runs() if run.status is Status.WAITING]
        goes_on = "goes on with" if campaign.resumed else "has"
        typer.echo(f"{kind} {plan.name} {goes_on} {len(left)} of {len(plan.tasks)} runs; {where}")
        words = announce(store, left, engine.slots) if left else ""
        if words:
            typer.echo(words)
        complete = False
        try:
            with show_progress() as watcher:
                measure = partial(engine.run, campaign, watcher)
                if rounds is None:
                    measure()
                else:
                    rounds(campaign, measure)
            complete = True
        finally:
            campaign.close(complete=complete)
            runs = campaign.runs()
            console().print(table(runs))
            for line in complaints(runs):
                typer.echo(line)
            report(runs)
            seconds = time.monotonic() - start
            typer.echo(verdict(f"{kind} {plan.name}", runs, seconds, where))
    return runs

"""`systola worker`: this machine takes tasks of campaigns that run elsewhere."""

import os
from typing import Annotated

import typer


def worker(
    scheduler: Annotated[str, typer.Argument(metavar="SCHEDULER", help="tcp://host:8786")],
    jobs: Annotated[
        int | None, typer.Option("--jobs", "-j", min=1, help="tasks at a time (one per core)")
    ] = None,
    memory: Annotated[
        int | None, typer.Option("--memory", min=1, help="MiB that tasks may take (all there is)")
    ] = None,
) -> None:
    """Take tasks of campaigns from a Dask scheduler, with the resources that they need."""
    from sw.campaign.engine.worker import offer

    offer(scheduler, jobs or os.cpu_count() or 1, memory, typer.echo)

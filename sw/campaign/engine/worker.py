"""`systola worker`: offers this machine to the campaigns of a scheduler."""

import asyncio
import os
import socket
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path
from urllib.parse import urlsplit

from distributed import Worker
from distributed.utils import get_ip

from sw.campaign.engine.cluster import CONNECT_S, NoPorts, check_address, quiet, reach
from sw.campaign.engine.perform import end_children
from sw.campaign.engine.resources import MEMORY, share_of_machine
from sw.results.revision import source_digest
from sw.results.task import CampaignError
from sw.runtime.scratch import Scratch


def offer(scheduler: str, jobs: int, memory_mib: int | None, say: Callable[[str], None]) -> None:
    """Take tasks of the scheduler, `jobs` at a time, until it is gone or somebody interrupts.

    memory_mib: what this machine offers in total, instead of all that it has. `CampaignError` if
    the scheduler cannot be reached, or is lost.
    """
    check_address(scheduler, "SCHEDULER")
    resources = share_of_machine(jobs)
    if memory_mib is not None:
        resources[MEMORY] = float((memory_mib << 20) // jobs)
    with quiet(), Scratch("worker") as scratch:
        reach(scheduler, "SCHEDULER")
        try:
            asyncio.run(_offer(scheduler, jobs, resources, scratch.path, say))
        finally:
            end_children()


async def _offer(
    scheduler: str,
    jobs: int,
    resources: dict[str, float],
    folder: Path,
    say: Callable[[str], None],
) -> None:
    # Only on the interface that leads to the scheduler: nobody else has business here.
    host = get_ip(urlsplit(scheduler).hostname)
    name = f"{socket.gethostname()}-{os.getpid()}"
    async with AsyncExitStack() as stack:
        workers = [
            await stack.enter_async_context(
                _Worker(
                    scheduler,
                    name=f"{name}-{number}",
                    nthreads=1,
                    resources=resources,
                    memory_limit=0,
                    host=host,
                    local_directory=str(folder),
                    dashboard=False,
                    death_timeout=CONNECT_S,
                )
            )
            for number in range(1, jobs + 1)
        ]
        tasks = "1 task" if jobs == 1 else f"{jobs} tasks"
        say(f"worker {name} takes {tasks} at a time from {scheduler}; sources {source_digest()}")
        await asyncio.gather(*(worker.finished() for worker in workers))
    raise CampaignError(f"scheduler {scheduler} is gone; start it and this worker again")


class _Worker(NoPorts, Worker):
    pass

"""Where the workers of a campaign come from: this machine, or a scheduler that runs somewhere.

The workers of this machine are objects in the campaign's own process, as is their scheduler: they
talk through queues, so that no port is opened and nothing can outlive the process. What they carry
out is in child processes (children.py).
"""

import asyncio
import logging
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from urllib.parse import urlsplit

import dask.config
from distributed import Client, Scheduler, Security, SpecCluster, Worker, rpc
from distributed.http.routing import RoutingApplication
from tornado.httpserver import HTTPServer

from sw.campaign.engine.perform import end_children
from sw.campaign.engine.resources import share_of_machine
from sw.results.task import CampaignError
from sw.runtime.scratch import Scratch

CONNECT_S = 10.0
_SCHEMES = ("tcp", "tls")
_CLOSE_S = 5.0
_LOGGERS = ("distributed", "distributed.client", "tornado", "tornado.application", "asyncio")
_EMBEDDED = {
    "distributed.worker.profile.enabled": False,
    "distributed.worker.http.routes": [],
    "distributed.scheduler.http.routes": [],
    "distributed.scheduler.work-stealing": False,
    "distributed.scheduler.active-memory-manager.start": False,
    "distributed.admin.system-monitor.interval": "10s",
}
"""What Dask does beside the work itself: workers of one process have no use for it."""


@contextmanager
def local_cluster(jobs: int) -> Iterator[Client]:
    """`jobs` workers in this process, each with one task at a time and its share of the memory."""
    with ExitStack() as stack:
        stack.enter_context(quiet())
        stack.enter_context(dask.config.set(_EMBEDDED))
        folder = stack.enter_context(Scratch("cluster"))
        worker = {
            "nthreads": 1,
            "resources": share_of_machine(jobs),
            "memory_limit": 0,  # of this process; tasks have limits of their own
            "local_directory": str(folder.path),
            "protocol": "inproc://",
            "dashboard": False,
        }
        cluster = SpecCluster(
            scheduler={
                "cls": _QuietScheduler,
                "options": {"protocol": "inproc://", "host": "", "port": 0, "dashboard": False},
            },
            workers={
                i: {"cls": _QuietWorker, "options": {**worker, "name": f"local-{i + 1}"}}
                for i in range(jobs)
            },
        )
        stack.callback(cluster.close, timeout=_CLOSE_S)
        client = Client(cluster, set_as_default=False)
        stack.callback(client.close, timeout=_CLOSE_S)
        stack.callback(end_children)
        yield client


@contextmanager
def remote_cluster(address: str) -> Iterator[Client]:
    """A running scheduler; `CampaignError` within `CONNECT_S` seconds if there is none."""
    check_address(address, "--scheduler")
    with quiet():
        reach(address, "--scheduler")
        try:
            client = Client(
                address, timeout=CONNECT_S, set_as_default=False, name="systola-campaign"
            )
        except Exception as error:
            raise unreachable("--scheduler", address, error) from None
        try:
            yield client
        finally:
            client.close(timeout=_CLOSE_S)


def reach(address: str, option: str) -> None:
    """`CampaignError` unless a scheduler answers within `CONNECT_S` seconds."""

    async def ask() -> dict[str, Any]:
        arguments = Security().get_connection_args("client")
        async with rpc(address, timeout=CONNECT_S, connection_args=arguments) as server:
            answer: dict[str, Any] = await server.identity()
            return answer

    try:
        identity = asyncio.run(asyncio.wait_for(ask(), CONNECT_S))
    except Exception as error:
        raise unreachable(option, address, error) from None
    if not identity["type"].endswith("Scheduler"):
        raise unreachable(option, address, OSError(f"there is a {identity['type']}"))


def unreachable(option: str, address: str, error: Exception) -> CampaignError:
    """What to say when there is no scheduler; Dask raises errors of many kinds then."""
    reason = f"{error}".partition("\n")[0] or type(error).__name__
    return CampaignError(
        f"{option} {address}: no Dask scheduler answers there within {CONNECT_S:g} s ({reason}); "
        "start one with: dask scheduler"
    )


def check_address(address: str, option: str) -> None:
    """`CampaignError` unless it is like `tcp://host:8786`."""
    try:
        parts = urlsplit(address)
        good = parts.scheme in _SCHEMES and parts.hostname and parts.port and not parts.path
    except ValueError:
        good = False
    if not good:
        raise CampaignError(f"{option} {address}: must be like tcp://host:8786, or tls://host:8786")


@contextmanager
def quiet() -> Iterator[None]:
    """Dask says nothing by itself: what matters comes from the campaign, in its own words."""
    levels = {name: logging.getLogger(name).level for name in _LOGGERS}
    for name in _LOGGERS:
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", module=r"distributed\..*|contextlib|asyncio\..*")
            yield
    finally:
        for name, level in levels.items():
            logging.getLogger(name).setLevel(level)


class NoPorts:
    """A server of Dask's without its HTTP port."""

    def start_http_server(self, routes: Any, *_: Any, **__: Any) -> None:
        self.http_application = RoutingApplication(routes)
        self.http_server = HTTPServer(self.http_application)


class _QuietScheduler(NoPorts, Scheduler):
    pass


class _QuietWorker(NoPorts, Worker):
    pass

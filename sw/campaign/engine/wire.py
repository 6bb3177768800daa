"""The way from the campaign's process to its workers and back, through Dask's scheduler.

Everything that comes back is an event in one queue, so that the campaign's loop is plain code in
one thread. What waits for workers runs in the event loop of Dask's client.
"""

import asyncio
import concurrent.futures
import contextlib
import json
import queue
import uuid
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from distributed import Client

from sw.campaign.engine.order import Order, Report
from sw.campaign.engine.perform import perform
from sw.campaign.engine.resources import Resources

_POLL_S = 1.0
_INTRODUCE = "__import__('importlib').import_module('sw.campaign.engine.perform').introduce()"
_SILENCE_S = 20.0
"""A scheduler that does not answer for so long is lost."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What came of the order `number`: a report, or an error on the way.

    An error may come after the report: it is none then.
    """

    number: int
    report: Report | None = None
    error: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Introduced:
    """What the worker at `address` says of itself, or why it cannot."""

    address: str
    facts: Mapping[str, Any] | None = None
    error: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """Workers that take tasks: address to what the scheduler knows of each."""

    workers: Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Lost:
    """The scheduler is gone."""

    reason: str


Event = Answer | Introduced | Seen | Lost


class Wire:
    """Sends orders by `client`; `event()` gives what comes back. Close it before the client."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._topic = f"systola-{uuid.uuid4().hex}"
        self._events: queue.SimpleQueue[Event] = queue.SimpleQueue()
        self._under_way: dict[str, concurrent.futures.Future[None]] = {}
        client.subscribe_topic(self._topic, self._report)
        self._others = [self._start(self._watch())]

    def send(
        self, key: str, orders: Sequence[tuple[int, Order]], address: str, needs: Resources
    ) -> None:
        """Carry out numbered orders on the worker at `address`, one after the other.

        Each has an `Answer` of its number. needs: of each. key: what Dask calls them together.
        """
        submit = {"key": key, "workers": [address], "resources": dict(needs)}
        plain = [(number, order.to_json()) for number, order in orders]
        self._under_way[key] = self._start(self._perform(plain, submit))

    def recall(self, key: str) -> None:
        """Nobody waits for these orders any more: their worker ends them."""
        future = self._under_way.pop(key, None)
        if future is not None:
            future.cancel()

    def introduce(self, address: str) -> None:
        """Ask the worker at `address` what it is."""
        self._others.append(self._start(self._introduce(address)))

    def event(self, seconds: float) -> Event | None:
        """The next event, or None if there is none for so long."""
        try:
            return self._events.get(timeout=seconds)
        except queue.Empty:
            return None

    def close(self) -> None:
        """Recall everything."""
        with contextlib.suppress(ValueError):  # the client has closed by itself
            self._client.unsubscribe_topic(self._topic)
        for future in (*self._others, *self._under_way.values()):
            future.cancel()
        self._under_way.clear()

    def _start(self, work: Any) -> "concurrent.futures.Future[None]":
        return asyncio.run_coroutine_threadsafe(work, self._client.loop.asyncio_loop)

    def _report(self, event: tuple[float, str]) -> None:
        number, facts = json.loads(event[1])
        self._events.put(Answer(number=number, report=Report.from_json(facts)))

    async def _perform(
        self, orders: Sequence[tuple[int, dict[str, Any]]], submit: dict[str, Any]
    ) -> None:
        """Send orders and wait until they are done; what they gave comes by `_report`."""
        future = self._client.submit(perform, self._topic, orders, pure=False, **submit)
        error = await self._error(future)
        self._under_way.pop(submit["key"], None)
        for number, _ in orders:
            self._events.put(Answer(number=number, error=error or "its worker gave no report"))

    async def _introduce(self, address: str) -> None:
        key = f"systola-introduce-{uuid.uuid4().hex}"
        # A worker that cannot read what it is sent breaks off: it may lack our function, and other
        # versions of Python lack its code. All have this one.
        future = self._client.submit(eval, _INTRODUCE, key=key, workers=[address], pure=False)
        facts: list[Any] = []
        error = await self._error(future, facts)
        self._events.put(
            Introduced(address=address, facts=facts[0] if facts else None, error=error)
        )

    async def _error(self, future: Any, result: list[Any] | None = None) -> str:
        """What went wrong with a future, or nothing; it is released, so that its worker stops.

        result: takes the future's result.
        """
        try:
            error = await future.exception()
            if future.cancelled():
                self._events.put(Lost(reason="the connection broke"))
                return "the scheduler was lost"
            if error is not None:
                return f"{type(error).__name__}: {error}"
            if result is not None:
                result += await self._client.gather([future], asynchronous=True)
        finally:
            future.release()
        return ""

    async def _watch(self) -> None:
        """Look at the workers every second, until the scheduler does not answer."""
        while True:
            try:
                seen = await _in_time(self._client.scheduler.identity(n_workers=-1))
            except (OSError, TimeoutError) as error:
                self._events.put(Lost(reason=str(error) or type(error).__name__))
                return
            if self._client.status != "running":
                self._events.put(Lost(reason="the connection broke"))
                return
            workers = seen["workers"]
            running = {a: facts for a, facts in workers.items() if facts["status"] == "running"}
            self._events.put(Seen(workers=running))
            await asyncio.sleep(_POLL_S)


async def _in_time(answer: Awaitable[Any]) -> Any:
    return await asyncio.wait_for(answer, _SILENCE_S)

"""The workers of a campaign, as its process sees them."""

import enum
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from sw.campaign.engine.children import other_sources
from sw.campaign.engine.perform import python_version
from sw.campaign.engine.resources import Resources, missing
from sw.results.store import Run
from sw.results.task import Task

_QUICK_S = 0.2
_AHEAD = 8
_WEIGHT = 0.2
"""Of the last task's time in the mean that tells quick tasks from others."""


class Stage(enum.Enum):
    """ASKED: has not said yet what it is. USED: takes tasks. REFUSED: it never will."""

    ASKED = "asked"
    USED = "used"
    REFUSED = "refused"


@dataclass(eq=False, slots=True, kw_only=True)
class Flight:
    """A task at a worker.

    key: of the Dask task that it is part of, perhaps with others. started: None while the worker
    has another one before it.
    """

    number: int
    key: str
    run: Run
    needs: Resources
    started: float | None = None


@dataclass(eq=False, slots=True, kw_only=True)
class Member:
    """A worker: where it is, what it offers, and the tasks that it has, in their order."""

    address: str
    name: str
    offers: Resources
    slots: int
    stage: Stage
    flights: list[Flight] = field(default_factory=list)
    last: Task | None = None
    _mean_s: float | None = None

    def room(self) -> int:
        """How many tasks more it takes now.

        Quick ones wait at the worker, several in a Dask task, which spares rounds.
        """
        if self.stage is not Stage.USED:
            return 0
        quick = self.slots == 1 and self._mean_s is not None and self._mean_s < _QUICK_S
        if not quick:
            return max(0, self.slots - len(self.flights))
        return _AHEAD if len(self.flights) <= _AHEAD else 0

    def fits(self, needs: Resources) -> bool:
        """Whether a task with these needs would start, or start after those before it."""
        if missing(needs, self.offers):
            return False
        if self.slots == 1:
            return True
        free = dict(self.offers)
        for flight in self.flights:
            for name, amount in flight.needs.items():
                free[name] -= amount
        return not missing(needs, free)

    def to_start(self) -> Iterator[Flight]:
        """Tasks that the worker is at by now and that were not said to be started."""
        return (flight for flight in self.flights[: self.slots] if flight.started is None)

    def done(self, flight: Flight) -> float:
        """A task has left the worker; seconds that it took."""
        self.flights.remove(flight)
        self.last = flight.run.task
        seconds = 0.0 if flight.started is None else time.monotonic() - flight.started
        mean = seconds if self._mean_s is None else self._mean_s
        self._mean_s = mean + _WEIGHT * (seconds - mean)
        return seconds

    def stuck(self, seconds: float) -> list[Flight]:
        """Tasks that have waited behind another one for longer than `seconds`."""
        head = self.flights[0].started if self.flights else None
        if head is None or time.monotonic() - head < seconds:
            return []
        return self.flights[self.slots :]


class Team:
    """Workers that are there now. `trusted`: they need not be asked what they are."""

    def __init__(self, *, trusted: bool) -> None:
        self.members: dict[str, Member] = {}
        self._trusted = trusted

    def used(self) -> list[Member]:
        return [member for member in self.members.values() if member.stage is Stage.USED]

    def compare(self, seen: Mapping[str, Mapping[str, Any]]) -> tuple[list[Member], list[Member]]:
        """Take over what the scheduler says of its workers; those that came, those that went."""
        gone = [self.members.pop(address) for address in self.members.keys() - seen.keys()]
        new = [
            _member(address, seen[address], self._trusted)
            for address in seen.keys() - self.members.keys()
        ]
        self.members |= {member.address: member for member in new}
        return sorted(new, key=lambda m: m.name), gone


def _member(address: str, facts: Mapping[str, Any], trusted: bool) -> Member:
    return Member(
        address=address,
        name=str(facts["name"]),
        offers=dict(facts["resources"]),
        slots=int(facts["nthreads"]),
        stage=Stage.USED if trusted else Stage.ASKED,
    )


def reason_against(facts: Mapping[str, Any], sources: str) -> str:
    """Why a worker that said this of itself cannot be used; empty if it can."""
    if facts["python"] != python_version():
        return f"it runs Python {facts['python']}, the campaign {python_version()}"
    if facts["sources"] != sources:
        return other_sources(facts["sources"], sources)
    return ""

"""Carries out a campaign: hands its tasks to workers until none is left."""

import time
import uuid
from collections.abc import Sequence
from contextlib import ExitStack
from types import TracebackType
from typing import Self

from distributed import Client

from sw.campaign.engine.agenda import Agenda, build_limits
from sw.campaign.engine.cluster import local_cluster, remote_cluster
from sw.campaign.engine.estimate import Estimate
from sw.campaign.engine.order import CARRY_OUT, Order, Report
from sw.campaign.engine.resources import missing, needs_of, shown
from sw.campaign.engine.team import Flight, Member, Stage, Team, reason_against
from sw.campaign.engine.watcher import Watcher
from sw.campaign.engine.wire import Answer, Event, Introduced, Lost, Seen, Wire
from sw.campaign.plan import BUILD_LIMIT_S
from sw.results.revision import source_digest
from sw.results.store import Campaign, Run
from sw.results.task import CampaignError, Outcome, Status, Task

ATTEMPTS = 3
"""How often a task is started whose worker is lost."""
_TICK_S = 1.0
_STUCK_S = 2.0
_PATIENCE_S = 5.0
"""Before it is said that no worker offers what a task needs."""


class Engine:
    """Workers for one campaign after the other; use it in a `with`.

    jobs: workers of this machine, unless `scheduler` is the address of a running one.
    carry_out: what a child calls to get the function that carries tasks out. `CampaignError` if
    the scheduler cannot be reached.
    """

    def __init__(self, jobs: int, scheduler: str = "", *, carry_out: str = CARRY_OUT) -> None:
        self._jobs, self.scheduler, self.carry_out = jobs, scheduler, carry_out
        self._stack = ExitStack()
        self._client: Client | None = None

    @property
    def client(self) -> Client:
        """Of Dask; workers of this machine are started when it is asked for."""
        if self._client is None:
            where = remote_cluster(self.scheduler) if self.scheduler else local_cluster(self._jobs)
            self._client = self._stack.enter_context(where)
        return self._client

    @property
    def slots(self) -> int:
        """Tasks at a time, as far as is known now; at least 1."""
        if not self.scheduler:
            return self._jobs
        return max(1, sum(self.client.nthreads().values()))

    def run(self, campaign: Campaign, watcher: Watcher) -> list[Run]:
        """Run what waits of a campaign; returns every row of it.

        An interruption (Ctrl-C) ends what is running, puts it back and goes on to the caller.
        `CampaignError` if the scheduler is lost; the same campaign can go on later.
        """
        rows = campaign.runs()
        left = sum(row.status is Status.WAITING for row in rows)
        watcher.begin(len(rows) - left, len(rows))
        if left:
            loop = _Loop(campaign, rows, self, watcher)
            try:
                loop.run()
            finally:
                loop.close()
        return campaign.runs()

    def __enter__(self) -> Self:
        if self.scheduler:
            _ = self.client
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.close()
        self._client = None


def run_campaign(
    campaign: Campaign, jobs: int, watcher: Watcher, *, scheduler: str = ""
) -> list[Run]:
    """Run what waits, as `Engine.run` does, with an engine for this campaign alone."""
    with Engine(jobs, scheduler) as engine:
        return engine.run(campaign, watcher)


class _Loop:
    def __init__(
        self, campaign: Campaign, rows: Sequence[Run], engine: Engine, watcher: Watcher
    ) -> None:
        self._campaign, self._engine, self._watcher = campaign, engine, watcher
        self._agenda = Agenda(rows)
        self._build_limits = build_limits(rows)
        self._sources = source_digest()
        self._team = Team(trusted=not engine.scheduler)
        self._flights: dict[int, tuple[Flight, Member]] = {}
        self._sent = 0
        self._name = f"{uuid.uuid4().hex[:8]}-{campaign.number}"
        self._tries: dict[int, int] = {}
        self._attempts: dict[int, int] = {}
        self._estimate = Estimate(self._agenda.waiting())
        self._lacking: dict[str, float] = {}
        self._ticked = 0.0
        self._wire = Wire(engine.client)

    def run(self) -> None:
        while True:
            self._finish_blocked()
            self._hand_out()
            if not self._flights and not len(self._agenda):
                return
            event = self._wire.event(_TICK_S)
            if event is not None:
                self._handle(event)
            if time.monotonic() - self._ticked >= _TICK_S:
                self._tick()

    def close(self) -> None:
        """End what is running; it waits again."""
        self._wire.close()
        flights, self._flights = list(self._flights.values()), {}
        for flight, _ in flights:
            if flight.started is not None:
                self._campaign.release(flight.run.id)

    # Tasks -------------------------------------------------------------------------------------

    def _finish_blocked(self) -> None:
        for run, reason in self._agenda.take_blocked():
            self._finish(run, Outcome(status=Status.BLOCKED, message=reason), 0.0)

    def _hand_out(self) -> None:
        """Give the workers with the fewest tasks their next ones, as far as there are any."""
        members = self._team.used()
        most = 1 + len(self._agenda) // (2 * max(1, len(members)))
        for member in sorted(members, key=lambda m: len(m.flights)):
            while room := member.room():
                runs = self._take(member, min(room, most) if member.slots == 1 else 1)
                if not runs:
                    break
                self._send(runs, member)

    def _take(self, member: Member, most: int) -> list[Run]:
        """The next tasks for a worker: up to `most` that need the same."""
        first = self._agenda.next(member.last, member.fits)
        runs = [] if first is None else [first]
        while runs and len(runs) < most:
            needs = needs_of(runs[0].task)
            more = self._agenda.next(runs[0].task, needs.__eq__)
            if more is None:
                break
            runs.append(more)
        return runs

    def _send(self, runs: Sequence[Run], member: Member) -> None:
        tasks = [run.task for run in runs]
        needs = needs_of(tasks[0])
        key = self._key(runs)
        orders = []
        for task, run in zip(tasks, runs, strict=True):
            self._sent += 1
            flight = Flight(number=self._sent, key=key, run=run, needs=needs)
            member.flights.append(flight)
            self._flights[flight.number] = flight, member
            order = Order(
                task=task,
                sources=self._sources,
                build_limit_s=self._build_limits.get(task.digest, BUILD_LIMIT_S),
                carry_out=self._engine.carry_out,
            )
            orders.append((flight.number, order))
        self._wire.send(key, orders, member.address, needs)
        self._mark_started(member)

    def _key(self, runs: Sequence[Run]) -> str:
        """Dask's name of tasks: sources, and configuration, workload, device, seed and memory.

        What was lost or taken back is another try, with a name of its own, as is the same task of
        another campaign: each has to hear of it.
        """
        names = []
        for run in runs:
            tries = self._tries[run.id] = self._tries.get(run.id, 0) + 1
            names.append(f"{run.task.key}-{tries}")
        return "-".join(("systola", self._sources, self._name, *names))

    def _mark_started(self, member: Member) -> None:
        for flight in member.to_start():
            flight.started = time.monotonic()
            run = flight.run.id
            self._attempts[run] = self._attempts.get(run, 0) + 1
            self._campaign.start(run, member.name)
            self._estimate.start(flight.run.task)

    def _finish(self, run: Run, outcome: Outcome, seconds: float) -> None:
        self._campaign.finish(run.id, outcome)
        self._agenda.finish(run.task, outcome.status)
        self._watcher.end(run.task, outcome, seconds)

    # Events ------------------------------------------------------------------------------------

    def _handle(self, event: Event) -> None:
        match event:
            case Answer():
                self._answer(event)
            case Introduced():
                self._introduced(event)
            case Seen():
                self._seen(event)
            case Lost():
                raise CampaignError(
                    f"scheduler {self._engine.scheduler or 'of this process'} was lost: "
                    f"{event.reason}; finished runs are kept, the same command goes on"
                )

    def _answer(self, answer: Answer) -> None:
        if answer.number not in self._flights:
            return  # taken back in the meantime
        flight, member = self._flights.pop(answer.number)
        seconds = member.done(flight)
        report = answer.report or Report(lost=answer.error)
        if report.outcome is not None:
            self._estimate.add(flight.run.task, seconds)
            self._finish(flight.run, report.outcome, seconds)
        elif report.refused:
            self._refuse(member, report.refused)
            self._return(flight)
        else:
            self._lost(flight, report.lost)
        self._mark_started(member)

    def _introduced(self, event: Introduced) -> None:
        member = self._team.members.get(event.address)
        if member is None:
            return
        if event.facts is None:
            self._refuse(member, f"it cannot say what it is ({event.error}): is Systola there?")
        elif reason := reason_against(event.facts, self._sources):
            self._refuse(member, reason)
        else:
            member.stage = Stage.USED
            self._tell_team()

    def _seen(self, event: Seen) -> None:
        new, gone = self._team.compare(event.workers)
        for member in gone:
            if member.stage is Stage.USED:
                self._watcher.say(f"worker {member.name} is gone")
            self._take_back(member.flights, "its worker was lost")
            member.flights.clear()
        for member in new:
            if member.stage is Stage.ASKED:
                self._wire.introduce(member.address)
        if gone or any(member.stage is Stage.USED for member in new):
            self._tell_team()

    def _refuse(self, member: Member, reason: str) -> None:
        if not self._engine.scheduler:
            raise CampaignError(
                f"the sources have changed since the campaign began ({reason}); finished runs are "
                "kept; start it again, and it is a campaign of the new sources"
            )
        if member.stage is not Stage.REFUSED:
            member.stage = Stage.REFUSED
            self._watcher.say(f"worker {member.name} is not used: {reason}")
            self._tell_team()

    # What does not come to its end --------------------------------------------------------------

    def _take_back(self, flights: Sequence[Flight], lost: str) -> None:
        for flight in list(flights):
            del self._flights[flight.number]
            if all(flight.key != other.key for other, _ in self._flights.values()):
                self._wire.recall(flight.key)
            if flight.started is None:
                self._agenda.put_back(flight.run)
            else:
                self._lost(flight, lost)

    def _lost(self, flight: Flight, why: str) -> None:
        run = flight.run
        attempts = self._attempts.get(run.id, 0)
        if attempts >= ATTEMPTS:
            text = f"its worker was lost {attempts} times; the last time: {why}"
            self._finish(run, Outcome(status=Status.ERROR, message=text), 0.0)
            return
        self._watcher.say(
            f"{run.task.title}: {why.splitlines()[0]}; it runs again "
            f"(attempt {attempts + 1} of {ATTEMPTS})"
        )
        self._return(flight)

    def _return(self, flight: Flight) -> None:
        self._campaign.release(flight.run.id)
        self._estimate.wait(flight.run.task)
        self._agenda.put_back(flight.run)

    # Once a second ------------------------------------------------------------------------------

    def _tick(self) -> None:
        now = self._ticked = time.monotonic()
        running = [
            (flight.run.task, now - flight.started)
            for flight, _ in self._flights.values()
            if flight.started is not None
        ]
        slots = sum(member.slots for member in self._team.used())
        left_s = self._estimate.left_s(running, slots)
        self._watcher.tick(running, left_s)
        for member in self._team.used():
            stuck = member.stuck(_STUCK_S)
            self._take_back(stuck, "")
            member.flights = [flight for flight in member.flights if flight not in stuck]
        if not self._flights and not self._agenda.has_ready() and len(self._agenda):
            self._agenda.give_up()
        self._complain(now)

    def _complain(self, now: float) -> None:
        """Say what ready tasks lack, each thing once, when it has been missing for a while."""
        lacking = dict(self._what_is_missing())
        for what, task in lacking.items():
            since = self._lacking.setdefault(what, now)
            if 0 <= now - since >= _PATIENCE_S:
                self._lacking[what] = float("inf")
                self._watcher.say(f"waiting: {what}, which {task.title} needs")
        self._lacking = {what: t for what, t in self._lacking.items() if what in lacking}

    def _what_is_missing(self) -> "list[tuple[str, Task]]":
        used = self._team.used()
        ready = self._agenda.needs()
        if not used and ready:
            where = self._engine.scheduler
            text = f"no worker is there (start one with: systola worker {where})"
            return [(text, next(iter(ready.values())))]
        found = []
        for needs, task in ready.items():
            for name, amount in needs:
                if all(missing({name: amount}, member.offers) for member in used):
                    most = max(member.offers.get(name, 0.0) for member in used)
                    offer = shown(name, most) if most else "none at all"
                    text = f"no worker offers {shown(name, amount)} (the most: {offer})"
                    found.append((text, task))
        return found

    def _tell_team(self) -> None:
        self._watcher.team([member.name for member in self._team.used()])

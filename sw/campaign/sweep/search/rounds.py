"""A search as a campaign: rounds of asking for points, measuring them, and telling what they cost.

Nothing but the campaign's rows is stored. A search that was interrupted begins anew, meets the
same proposals, and finds their rows: a function of seed and costs needs no state of its own.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sw.campaign.measure import carry_out
from sw.campaign.measures.bench import Bench, Unheard
from sw.campaign.plan import Plan
from sw.campaign.sweep.objectives import Objective
from sw.campaign.sweep.points import point_results
from sw.campaign.sweep.result import PointResult
from sw.campaign.sweep.search.ask import Asker, Costs
from sw.campaign.sweep.search.proposers import RANDOM, proposer
from sw.campaign.sweep.space import Point, Space
from sw.campaign.sweep.tasks import tasks_of
from sw.results.store import Campaign
from sw.results.task import CampaignError, Status

BATCH = 8
"""Points of a round: enough to keep some processes busy while one synthesizes. The same on every
machine, as what is proposed depends on it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """When a search ends. trials: different legal points. minutes: of this call, 0 for no end."""

    trials: int
    minutes: float = 0.0

    def __post_init__(self) -> None:
        if self.trials < 1:
            raise CampaignError(f"--trials {self.trials}: must be 1 or more")
        if not 0 <= self.minutes < float("inf"):
            raise CampaignError(f"--budget {self.minutes:g}: must be minutes above 0")


class Rounds:
    """A search of a space; `plan` is what its campaign begins with, `run` all of it."""

    def __init__(self, space: Space, method: str, seed: int, budget: Budget) -> None:
        self.space, self._budget = space, budget
        self._began = time.monotonic()
        objectives = len(space.objectives)
        self._asker = Asker(space, proposer(method, space.axes, objectives, seed), seed)
        self._learns = method != RANDOM
        # Models answer at once: each proposal then knows all before it.
        self._batch = 1 if space.only_models else BATCH
        self._first = self._asker.ask(min(self._batch, budget.trials))
        name = f"{space.name} {method} seed {seed}"
        self.plan = Plan(name=name, tasks=tasks_of(space, self._first))
        self.trials = 0
        self.exhausted = self.late = False

    @property
    def illegal(self) -> int:
        """Different combinations that were proposed and break a rule."""
        return self._asker.illegal

    def run(self, campaign: Campaign, measure: Callable[[], object]) -> None:
        """Carry the search out. measure: runs what waits in the campaign."""
        points = self._first
        while points:
            wanted = {task.key for task in tasks_of(self.space, points)}
            campaign.add(tasks_of(self.space, points))
            if self.space.only_models:
                run_here(campaign, wanted)
            else:
                measure()
            found = self._results(campaign, wanted)
            for point in points:
                assert point.config is not None
                costs = costs_of(self.space.objectives, found.get(point.config.digest_hex))
                self._asker.tell(point, costs if self._learns else None)
            self.trials += len(points)
            points = self._more()

    def _more(self) -> list[Point]:
        left = self._budget.trials - self.trials
        minutes = self._budget.minutes
        self.late = bool(minutes) and time.monotonic() - self._began > 60 * minutes
        if not left or self.late:
            return []
        points = self._asker.ask(min(self._batch, left))
        self.exhausted = not points
        return points

    @staticmethod
    def _results(campaign: Campaign, wanted: set[str]) -> dict[str, PointResult]:
        runs = [run for run in campaign.runs() if run.task.key in wanted]
        return {p.config.digest_hex: p for p in point_results(runs) if p.config is not None}

    def summary(self) -> str:
        """One line: how far it came, and why it ended."""
        ends = "the time is over" if self.late else "no other legal point is left"
        why = f"; {ends}" if self.late or self.exhausted else ""
        return f"{self.trials} trials, {self.illegal} illegal combinations left out{why}"


def run_here(campaign: Campaign, keys: set[str]) -> None:
    """Carry out waiting tasks in this process: of models, for which a worker takes longer to start
    than they take.
    """
    bench = Bench(Unheard())
    for run in campaign.runs():
        if run.status is Status.WAITING and run.task.key in keys:
            campaign.start(run.id)
            campaign.finish(run.id, carry_out(run.task, bench))


def costs_of(objectives: Sequence[Objective], point: PointResult | None) -> Costs:
    """Of each objective; None where not all of them are known, or the RTL is wrong."""
    if point is None or point.smoke is False:
        return None
    costs = [objective.cost(point) for objective in objectives]
    return None if None in costs else [cost for cost in costs if cost is not None]

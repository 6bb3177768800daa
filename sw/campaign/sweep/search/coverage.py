"""`python -m sw.campaign.sweep.search.coverage SPACE`: how much of a grid's hypervolume searches of
a few trials reach.

The space is one of models alone. Its whole grid is measured first, in the database that
`systola sweep SPACE` writes. Then each search runs on those figures, once for each seed. The share
is of the volume that the grid's front dominates, up to a tenth of the range beyond the worst costs:
of the costs as they are, and of their logarithms, in which a factor counts the same everywhere.
"""

import argparse
import math
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from spec.errors import SystolaError
from sw.campaign.sweep.pareto import front, hypervolume, reference_of
from sw.campaign.sweep.points import point_results
from sw.campaign.sweep.search.ask import Asker, search
from sw.campaign.sweep.search.proposers import METHODS, proposer
from sw.campaign.sweep.search.rounds import costs_of
from sw.campaign.sweep.space import Point, Space, load_space
from sw.campaign.sweep.tasks import grid_plan
from sw.results.store import Store
from sw.results.task import CampaignError

Table = Mapping[str, Sequence[float]]
"""Costs of every legal point, by the digest of its configuration."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Coverage:
    """Shares of the grid's hypervolume, one for each seed: of costs, and of their logarithms."""

    method: str
    linear: tuple[float, ...]
    logarithmic: tuple[float, ...]

    def text(self) -> str:
        parts = [
            f"{name} mean {fmean(shares):.1%}, worst {min(shares):.1%}, best {max(shares):.1%}"
            for name, shares in (("costs", self.linear), ("logarithms", self.logarithmic))
        ]
        return f"{self.method:6}  {'; '.join(parts)}"


def measure_grid(space: Space, database: Path, jobs: int) -> Table:
    """Costs of every legal point; what the database has already is not measured again."""
    from sw.campaign.engine.runner import run_campaign
    from sw.campaign.progress import show_progress

    if not space.only_models or not space.objectives:
        raise CampaignError(
            f"{space.place}: must be a space of models alone (cycles: model, smoke: false, no "
            "synth) with objectives"
        )
    plan = grid_plan(space)
    with Store(database) as store:
        campaign = store.campaign("sweep", plan.name, plan.tasks, options={})
        complete = False
        try:
            with show_progress() as watcher:
                run_campaign(campaign, jobs, watcher)
            complete = True
        finally:
            campaign.close(complete=complete)
        points = point_results(campaign.runs())
    return {
        point.config.digest_hex: costs
        for point in points
        if point.config is not None and (costs := costs_of(space.objectives, point)) is not None
    }


def coverage(space: Space, table: Table, method: str, trials: int, seeds: int) -> Coverage:
    """The shares that searches with seeds from 0 reach."""
    scales: tuple[Callable[[Sequence[float]], list[float]], ...] = (list, logarithms)
    shares: list[list[float]] = [[], []]
    whole = [[scale(costs) for costs in table.values()] for scale in scales]
    references = [reference_of(rows) for rows in whole]
    volumes = [hypervolume(*pair) for pair in zip(whole, references, strict=True)]
    for seed in range(seeds):
        found = searched(space, table, method, trials, seed)
        for number, scale in enumerate(scales):
            rows = [scale(table[digest]) for digest in found]
            shares[number].append(hypervolume(rows, references[number]) / volumes[number])
    return Coverage(method=method, linear=tuple(shares[0]), logarithmic=tuple(shares[1]))


def logarithms(costs: Sequence[float]) -> list[float]:
    """Of the sizes; that of something of which more is better has the sign of its cost."""
    return [math.copysign(1, c) * math.log(abs(c)) for c in costs]


def searched(space: Space, table: Table, method: str, trials: int, seed: int) -> list[str]:
    """The points that a search tries, of those that are in the table."""
    asker = Asker(space, proposer(method, space.axes, len(space.objectives), seed), seed)
    points = search(asker, trials, 1, lambda asked: [table.get(_digest(p)) for p in asked])
    return [_digest(point) for point in points if _digest(point) in table]


def _digest(point: Point) -> str:
    return point.config.digest_hex if point.config is not None else ""


def main(argv: Sequence[str] | None = None) -> int:
    """Exit code: 0, or 2 after a message."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("space", type=Path)
    parser.add_argument("--trials", type=int, default=60)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--search", action="append", choices=METHODS)
    parser.add_argument("--db", type=Path, default=Path("results", "systola.sqlite"))
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    given = parser.parse_args(argv)
    try:
        space = load_space(given.space)
        table = measure_grid(space, given.db, given.jobs)
        best = len(front(list(table.values())))
        names = ", ".join(objective.name for objective in space.objectives)
        sys.stdout.write(
            f"{space.name}: {len(table):,} legal points of {space.size:,}, {best} on the front of "
            f"{names}; {given.trials} trials, {given.seeds} seeds\n"
        )
        for method in given.search or METHODS:
            found = coverage(space, table, method, given.trials, given.seeds)
            sys.stdout.write(found.text() + "\n")
    except SystolaError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())

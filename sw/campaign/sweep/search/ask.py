"""Legal combinations that were not tried yet."""

import random
from collections import deque
from collections.abc import Callable, Sequence
from itertools import islice, product

from sw.campaign.sweep.axes import Choice
from sw.campaign.sweep.search.proposers import Proposer
from sw.campaign.sweep.space import Point, Space, all_illegal
from sw.results.task import CampaignError

Costs = Sequence[float] | None
"""Of a point; None where it is illegal, or not all of it could be measured."""

TRIES = 40
"""Proposals in a row that are illegal or known, after which a point is taken at random. Each time
that happens the number is halved: the proposer has little left to say."""
_PROBES = 4096
"""Combinations of a space that are looked at before it counts as illegal altogether."""


class Asker:
    """Asks a proposer for points, and tells it what they cost.

    A combination that is illegal, or the same hardware as an earlier one, is answered at once and
    is no trial. illegal: how many different combinations of those there were.
    """

    def __init__(self, space: Space, proposer: Proposer, seed: int) -> None:
        self.space, self._proposer = space, proposer
        self._rng = random.Random(seed)
        self._pending: deque[str] = deque()
        self._costs: dict[str, Costs] = {}
        self._asked: set[str] = set()
        self._illegal: set[str] = set()
        self._tries = TRIES
        self._check()

    @property
    def illegal(self) -> int:
        return len(self._illegal)

    def ask(self, count: int) -> list[Point]:
        """Up to `count` points, none of them asked before; fewer where no others are left."""
        found: list[Point] = []
        while len(found) < count:
            point = self._next()
            if point is None:
                break
            found.append(point)
        return found

    def tell(self, point: Point, costs: Costs) -> None:
        """What a point cost that `ask` gave."""
        self._costs[_digest(point)] = costs
        self._answer()

    def _next(self) -> Point | None:
        for _ in range(self._tries):
            point = self._look(self._proposer.propose())
            fresh = point.config is not None and _digest(point) not in self._asked
            self._pending.append(_digest(point))
            if fresh:
                self._asked.add(_digest(point))
                return point
            self._answer()
        self._tries = max(1, self._tries // 2)
        return self._any()

    def _look(self, choice: Choice) -> Point:
        point = self.space.point(choice)
        if point.config is None:
            self._illegal.add(point.label)
            self._costs[point.label] = None
        return point

    def _any(self) -> Point | None:
        """A point that the proposer does not come upon; its cost is not told to it."""
        axes = self.space.axes
        if self.space.size <= _PROBES:
            choices = [dict(zip(axes, v, strict=True)) for v in product(*axes.values())]
            self._rng.shuffle(choices)
        else:
            draw = self._rng.choice
            choices = [{n: draw(v) for n, v in axes.items()} for _ in range(_PROBES)]
        for choice in choices:
            point = self.space.point(choice)
            if point.config is not None and _digest(point) not in self._asked:
                self._asked.add(_digest(point))
                return point
        return None

    def _answer(self) -> None:
        """Tell what is known, in the order of the proposals."""
        while self._pending and self._pending[0] in self._costs:
            self._proposer.hear(self._costs[self._pending.popleft()])

    def _check(self) -> None:
        space = self.space
        if not space.axes:
            raise CampaignError(f"{space.place}: has no axes to search; try every point instead")
        points: list[Point] = []
        for values in islice(product(*space.axes.values()), _PROBES):
            points.append(space.point(dict(zip(space.axes, values, strict=True))))
            if points[-1].config is not None:
                return
        if space.size <= _PROBES:
            raise all_illegal(space.place, points)
        rng = random.Random(0)
        for _ in range(_PROBES):
            choice = {name: rng.choice(values) for name, values in space.axes.items()}
            points.append(space.point(choice))
            if points[-1].config is not None:
                return
        raise all_illegal(space.place, points)


def _digest(point: Point) -> str:
    """What tells hardware from other hardware; of an illegal point its name."""
    return point.label if point.config is None else point.config.digest_hex


Evaluate = Callable[[Sequence[Point]], Sequence[Costs]]


def search(asker: Asker, trials: int, batch: int, evaluate: Evaluate) -> list[Point]:
    """The points of up to `trials` trials; `evaluate` gives the costs of a batch of them."""
    found: list[Point] = []
    while len(found) < trials:
        points = asker.ask(min(batch, trials - len(found)))
        if not points:
            break
        for point, costs in zip(points, evaluate(points), strict=True):
            asker.tell(point, costs)
        found += points
    return found

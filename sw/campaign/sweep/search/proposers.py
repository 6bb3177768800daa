"""What proposes combinations of the axes' values, and hears what they cost.

Each is a function of its seed and of what it hears, in that order: told the same, it proposes the
same. A search that goes on after an interruption relies on that.
"""

import random
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from spec.names import did_you_mean
from sw.campaign.sweep.axes import Choice
from sw.results.task import CampaignError

if TYPE_CHECKING:
    import optuna

Axes = Mapping[str, Sequence[int | bool]]
RANDOM, NSGA2, TPE = "random", "nsga2", "tpe"
METHODS = (RANDOM, NSGA2, TPE)
POPULATION = 8
"""Of NSGA-II: with Optuna's 50 a search of some dozens of trials would hardly evolve
(docs/decisions/0071-search-of-spaces.md has the figures)."""
STARTUP = 10
"""Random trials before TPE has a model."""


class Proposer(Protocol):
    """Proposes combinations, and is told of each in the order in which it proposed them."""

    def propose(self) -> Choice:
        """A combination: a value for each axis; legal or not, new or not."""

    def hear(self, costs: Sequence[float] | None) -> None:
        """What the oldest proposal cost that was not told yet; None: it is not feasible."""


class RandomProposer:
    """Each axis by itself, every value as likely as the others."""

    def __init__(self, axes: Axes, seed: int) -> None:
        self._axes, self._rng = axes, random.Random(seed)

    def propose(self) -> Choice:
        return {name: self._rng.choice(values) for name, values in self._axes.items()}

    def hear(self, costs: Sequence[float] | None) -> None:
        """Nothing to learn from."""


class StudyProposer:
    """A study of Optuna in memory. What it was told comes from the rows of the campaign."""

    def __init__(self, axes: Axes, sampler: "optuna.samplers.BaseSampler", objectives: int) -> None:
        import optuna

        optuna.logging.set_verbosity(optuna.logging.ERROR)
        self._axes = axes
        self._study = optuna.create_study(directions=["minimize"] * objectives, sampler=sampler)
        self._trials: list[optuna.trial.Trial] = []
        self._worst = [0.0] * objectives

    def propose(self) -> Choice:
        trial = self._study.ask()
        self._trials.append(trial)
        return {name: self._suggest(trial, name) for name in self._axes}

    def _suggest(self, trial: "optuna.trial.Trial", name: str) -> Any:
        values = self._axes[name]
        if len(values) > 1 and isinstance(values[0], bool):
            return trial.suggest_categorical(name, list(values))
        # By its place: what lies between two values is one of the axis, too.
        return values[trial.suggest_int(name, 0, len(values) - 1)]

    def hear(self, costs: Sequence[float] | None) -> None:
        trial = self._trials.pop(0)
        if costs is not None:
            self._worst = [max(pair) for pair in zip(self._worst, costs, strict=True)]
        # Samplers look at the constraint first; a trial without values would teach them nothing.
        trial.set_constraint("feasible", 0.0 if costs is not None else 1.0)
        self._study.tell(trial, self._worst if costs is None else list(costs))


def proposer(method: str, axes: Axes, objectives: int, seed: int) -> Proposer:
    """The proposer called `method`; `CampaignError` for another, or for one without objectives."""
    if method not in METHODS:
        known = ("grid", *METHODS)
        raise CampaignError(
            f"--search {method}: no such search{did_you_mean(method, known)}; "
            f"there are {', '.join(known)}"
        )
    if method == RANDOM:
        return RandomProposer(axes, seed)
    if not objectives:
        raise CampaignError(
            f"--search {method}: needs objectives, in the space or as --objectives area,rate"
        )
    from optuna.samplers import NSGAIISampler, TPESampler

    if method == NSGA2:
        return StudyProposer(axes, NSGAIISampler(population_size=POPULATION, seed=seed), objectives)
    sampler = TPESampler(n_startup_trials=STARTUP, multivariate=False, seed=seed)
    return StudyProposer(axes, sampler, objectives)

"""A bisection on a database: what it knows counts first, what is tried is stored."""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from sw.campaign.bisect.criterion import Criterion, Verdict
from sw.campaign.bisect.repository import Commit, Repository
from sw.campaign.bisect.search import Found, most_tries, narrowed, search
from sw.campaign.bisect.trial import try_task
from sw.results.history import Result, results_of
from sw.results.revision import digest_of
from sw.results.store import Campaign, Store
from sw.results.task import CampaignError, Outcome, Status, Task
from sw.runtime.scratch import Scratch

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """Names of the commits between which the first bad one is looked for; empty: from results."""

    good: str = ""
    bad: str = ""


class Bisection:
    """The look for the first commit at which a task's result is bad.

    fresh: results in the database do not count. say: hears what goes on, a line at a time.
    """

    def __init__(
        self, task: Task, repository: Repository, store: Store, say: Say, *, fresh: bool = False
    ) -> None:
        self._task, self._repository, self._store, self._say = task, repository, store, say
        self._fresh = fresh
        self._stored = [] if fresh else results_of(store, task)

    def run(self, where: Range, criterion: Criterion) -> Found:
        """What was found; every result that had to be tried is in the database.

        `CampaignError` if the good commit is not good or the bad one not bad.
        """
        bad = self._repository.commit(where.bad or "HEAD")
        history = self._repository.first_parents(bad)
        known = self._known(history)
        good = self._good(where.good, history, known, criterion)
        line = self._repository.line(good, bad)
        self._say(
            f"bisect {self._task.title}: {len(line)} commits after {good.short} up to {bad.short}, "
            f"{sum(c.sha in known for c in line)} of them with stored results"
        )
        before = known.get(good.sha) or self._attempt(good)
        criterion = criterion.from_good(before)
        after = known.get(bad.sha) or self._attempt(bad)
        if after.status is Status.ERROR and not criterion.counts_cycles:
            criterion = replace(criterion, errors=True)
        verdicts = {
            i: criterion.verdict(known[c.sha]) for i, c in enumerate(line) if c.sha in known
        }
        tries = most_tries(*narrowed(len(line), verdicts))
        self._say(f"bad is: {criterion}; at most {tries} tries")
        self._check("good", good, before, criterion, Verdict.GOOD)
        self._check("bad", bad, after, criterion, Verdict.BAD)
        return search(line, before, after, criterion, known, self._attempt)

    def _known(self, history: list[Commit]) -> dict[str, Result]:
        """The newest stored result of each commit, by its whole hash."""
        newest = {result.commit: result for result in self._stored}
        found = {}
        for commit in history:
            result = next((r for c, r in newest.items() if commit.sha.startswith(c)), None)
            if result is not None:
                found[commit.sha] = replace(result, commit=commit.sha)
        return found

    def _good(
        self,
        name: str,
        history: list[Commit],
        known: dict[str, Result],
        criterion: Criterion,
    ) -> Commit:
        """The commit of that name, or the newest one that stored results call good."""
        if name:
            return self._repository.commit(name)
        if criterion.rise is not None:
            raise CampaignError("--rise: needs --good, whose cycles it is above")
        for commit in history[1:]:
            result = known.get(commit.sha)
            if result is not None and criterion.verdict(result) is Verdict.GOOD:
                return commit
        raise CampaignError(
            f"{self._task.title}: the database has no good result of a commit before "
            f"{history[0].short}; name one with --good"
        )

    def _check(
        self, name: str, commit: Commit, result: Result, criterion: Criterion, want: Verdict
    ) -> None:
        found = criterion.verdict(result)
        if found is not want:
            raise CampaignError(
                f"--{name} {commit.short}: is not {name} but {found.value}: {_figure(result)}; "
                f"name another commit with --{name}"
            )

    def _attempt(self, commit: Commit) -> Result:
        """The task at `commit`, stored."""
        start = time.monotonic()
        with Scratch("trial") as scratch, self._repository.checked_out(commit) as tree:
            source = (commit.short, digest_of(tree))
            campaign = self._store.campaign(
                "bisect",
                self._task.title,
                [self._task],
                options={},
                fresh=self._fresh,
                source=source,
            )
            complete = False
            try:
                (run,) = campaign.runs()
                outcome = run.outcome or self._carry_out(campaign, run.id, tree, scratch.path)
                complete = True
            finally:
                campaign.close(complete=complete)
        result = _result(commit, outcome)
        seconds = time.monotonic() - start
        self._say(f"  {commit.short}  {_figure(result)}  {seconds:.1f} s  {commit.subject}")
        return result

    def _carry_out(self, campaign: Campaign, run: int, tree: Path, folder: Path) -> Outcome:
        campaign.start(run)
        try:
            outcome = try_task(self._task, tree, folder)
        except BaseException:
            campaign.release(run)
            raise
        campaign.finish(run, outcome)
        return outcome


def _result(commit: Commit, outcome: Outcome) -> Result:
    return Result(
        commit=commit.sha,
        status=outcome.status,
        cycles=outcome.cycles,
        message=outcome.message,
    )


def report(found: Found) -> list[str]:
    """What was found, for a terminal."""
    lines = []
    if found.is_certain:
        lines += ["first bad commit:", *_described(found.suspects[0])]
    else:
        lines.append(
            f"the first bad commit is one of {len(found.suspects)}: those before the last could "
            "not be tested"
        )
        lines += [f"  {commit.short}  {commit.subject}" for commit in found.suspects]
    lines.append(f"before: {_figure(found.before)} ({found.before.commit[:12]})")
    lines.append(f"after:  {_figure(found.after)} ({found.after.commit[:12]})")
    lines += [f"  {line}" for line in found.after.message.splitlines()]
    return lines


def _described(commit: Commit) -> list[str]:
    head = f"  {commit.sha}  {commit.author}, {commit.date}"
    return [head, "", *(f"    {line}".rstrip() for line in commit.message.splitlines()), ""]


def _figure(result: Result) -> str:
    cycles = "" if result.cycles is None else f", {result.cycles:,} cycles"
    return f"{result.status.value}{cycles}"

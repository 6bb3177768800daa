"""Verdicts in the database of results: an interrupted run goes on where it was.

A run of the suite is a campaign of kind `conformance`, of a suite, device, configuration and the
sources: a verdict counts only for the code that it was measured on. Each test is a row.
"""

import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Self

from spec.config import NpuConfig
from sw.measure.conformance.chunk import Status, Verdict
from sw.measure.conformance.suite import operator_of
from sw.results.store import Store
from sw.results.task import Kind, Outcome, Task
from sw.results.task import Status as Ended

_ENDED = {Status.PASSED: Ended.PASSED, Status.FAILED: Ended.FAILED}
"""How a test counts among other runs; one that could not be carried out is an error."""


class Verdicts:
    """The verdicts of one suite on one device and configuration, in the database at `where`.

    fresh: none of those that are there counts; retry: only those that are `passed`.
    `CampaignError` if another process runs the same.
    """

    def __init__(
        self,
        where: str | Path,
        suite: str,
        device: str,
        config: NpuConfig,
        *,
        fresh: bool = False,
        retry: bool = False,
    ) -> None:
        self._device, self._config = device, config
        self._lock = threading.Lock()
        self._store = Store(where)
        try:
            self._campaign = self._store.campaign(
                "conformance",
                suite,
                [],
                options={"device": device, "config": config.name},
                fresh=fresh,
                retry=retry,
                plan=f"{device}|{config.digest_hex}",
            )
            self.place = f"{self._store.location}, campaign {self._campaign.number}"
            self._known = {
                run.task.workload: _verdict(run.task.workload, run.outcome)
                for run in self._campaign.runs()
                if run.outcome is not None
            }
        except BaseException:
            self._store.close()
            raise

    def add(self, verdicts: Iterable[Verdict]) -> None:
        """File them, in place of what was there."""
        found = list(verdicts)
        with self._lock:
            self._campaign.record([(self._task(v.test), _outcome(v)) for v in found])
            self._known.update({v.test: v for v in found})

    def all(self) -> dict[str, Verdict]:
        """Every verdict by test."""
        with self._lock:
            return dict(sorted(self._known.items()))

    def close(self, *, complete: bool = False) -> None:
        """complete: every test has its verdict."""
        try:
            self._campaign.close(complete=complete)
        finally:
            self._store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.close(complete=kind is None)

    def _task(self, test: str) -> Task:
        return Task(kind=Kind.TEST, workload=test, config=self._config, device=self._device)


def _outcome(verdict: Verdict) -> Outcome:
    return Outcome(
        status=_ENDED.get(verdict.status, Ended.ERROR),
        message=verdict.message,
        cycles=verdict.cycles or None,
        wall_s=verdict.seconds,
        figures={
            "verdict": verdict.status.value,
            "operator": operator_of(verdict.test),
            "instructions": verdict.instructions,
        },
    )


def _verdict(test: str, outcome: Outcome) -> Verdict:
    return Verdict(
        test=test,
        status=Status(outcome.figures["verdict"]),
        message=outcome.message,
        seconds=outcome.wall_s,
        cycles=outcome.cycles or 0,
        instructions=outcome.figures["instructions"],
    )

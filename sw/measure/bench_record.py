"""Measured rows of `systola bench` in the database of results, beside the JSON that pages take."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from spec.config import NpuConfig
from sw.results.store import Store
from sw.results.task import Kind, Outcome, Status, Task

Problems = Callable[[Mapping[str, Any]], Sequence[str]]

_COLUMNS = ("cycles", "macs", "predicted_cycles", "pcc", "read_bytes", "write_bytes")


class Recorder:
    """A campaign of kind `bench`, of a suite, configuration, memory and file of rows.

    conditions: as rows have them (latency, stall, seed, memory, …). problems: what is wrong with a
    row. `CampaignError` if another process measures the same into the same file.
    """

    def __init__(
        self,
        where: str | Path,
        suite: str,
        config: NpuConfig,
        conditions: Mapping[str, Any],
        *,
        title: str,
        file: Path,
        problems: Problems,
    ) -> None:
        self._suite, self._conditions, self._problems = suite, conditions, problems
        self._store = Store(where)
        facts = sorted(conditions.items())
        try:
            self._campaign = self._store.campaign(
                "bench",
                title,
                [],
                options={"suite": suite, "config": config.name, **conditions},
                plan=f"{config.digest_hex} {facts} {file.resolve()}",
            )
        except BaseException:
            self._store.close()
            raise
        self.place = f"{self._store.location}, campaign {self._campaign.number}"
        self.count = 0

    def add(self, row: Mapping[str, Any], config: NpuConfig) -> None:
        """Record a row that was measured or predicted just now on `config`."""
        self._campaign.record([(self._task(row, config), self._outcome(row))])
        self.count += 1

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, _e: BaseException | None, _t: TracebackType | None
    ) -> None:
        try:
            self._campaign.close(complete=kind is None)
        finally:
            self._store.close()

    def _task(self, row: Mapping[str, Any], config: NpuConfig) -> Task:
        memory = {k: self._conditions[k] for k in ("seed", "latency", "stall", "memory")}
        device = str(row.get("device", "rtl"))
        return Task(kind=Kind.BENCH, workload=row["name"], config=config, device=device, **memory)

    def _outcome(self, row: Mapping[str, Any]) -> Outcome:
        wrong = list(self._problems(row))
        error = bool(row.get("error"))
        bad = Status.ERROR if error else Status.FAILED
        known: dict[str, Any] = {name: row.get(name) for name in _COLUMNS}
        return Outcome(
            status=bad if wrong else Status.PASSED,
            message="\n".join(wrong),
            compared=row.get("elements") or 0,
            wall_s=row.get("wall_s") or 0.0,
            counters=row.get("counters") or {},
            figures={**{k: v for k, v in row.items() if k not in known}, "suite": self._suite},
            **known,
        )

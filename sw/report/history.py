"""Cycles and verdicts of each run over the commits of a database."""

from collections.abc import Iterable, Sequence

from sw.campaign.summary import column
from sw.report.data import CampaignFacts, History, HistoryEntry
from sw.results.store import Run
from sw.results.task import Status, Task

_DEVICES = ("rtl", "golden")
_Key = tuple[str, str, str, int, str]


def histories(campaigns: Iterable[tuple[CampaignFacts, Sequence[Run]]]) -> list[History]:
    """One history for each workload, configuration, device, seed and memory; oldest entry first.

    campaigns: in the order of time. Runs without a result are left out.
    """
    found: dict[_Key, list[HistoryEntry]] = {}
    for campaign, runs in campaigns:
        for run in runs:
            task = run.task
            if task.config is None or not task.workload or task.device not in _DEVICES:
                continue
            if run.outcome is None or run.status is Status.BLOCKED:
                continue
            entry = HistoryEntry(
                campaign=campaign.number,
                commit=campaign.commit,
                time=run.finished_at or campaign.created_at,
                status=column(run.status),
                cycles=run.outcome.cycles if run.status is Status.PASSED else None,
            )
            key = (task.workload, task.config_name, task.device, task.seed, _memory(task))
            found.setdefault(key, []).append(entry)
    return [
        History(
            workload=workload,
            config=config,
            device=device,
            seed=seed,
            memory=memory,
            entries=tuple(entries),
        )
        for (workload, config, device, seed, memory), entries in found.items()
    ]


def _memory(task: Task) -> str:
    """`latency 100`, `ddr4, stall 0.2`; empty on golden, which has no memory model."""
    if task.device != "rtl":
        return ""
    parts = [f"latency {task.latency}" if task.memory == "ideal" else task.memory]
    if task.stall:
        parts.append(f"stall {task.stall:g}")
    return ", ".join(parts)

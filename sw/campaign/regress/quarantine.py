"""Quarantine: runs whose failures are known, and do not count until a date.

A quarantined run still runs. If it does not pass, it is reported with the reason, and the exit code
stays what the other runs make it. The list is a YAML file:

    entries:
      - workload: "conv2d:*"      patterns with *, ? and […]; what is left out matches everything
        config: rect              configuration, device (golden, rtl), memory (ideal, ddr4, …), seed
        reason: text
        since: 2026-11-02         when it was put here
        until: 2026-12-01         the last day on which its failures do not count
        owner: name               who mends it (may be left out)
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date
from fnmatch import fnmatchcase
from pathlib import Path

from sw.campaign.plan import Plan
from sw.campaign.yamlfile import Node, read_yaml, shown
from sw.results.store import Run
from sw.results.task import Kind, Status, Task

QUARANTINE = Path(__file__).with_name("quarantine.yaml")
"""The list of the release, for its own suites."""

_PATTERNS = ("workload", "config", "device", "memory", "seed")
_KINDS = (Kind.RUN, Kind.PROGRAMS, Kind.CONFORMANCE)
_BAD = (Status.FAILED, Status.TIMEOUT, Status.ERROR)


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """Which runs, why, and for how long. patterns: by the name of what they are compared with."""

    place: str
    patterns: tuple[tuple[str, str], ...]
    reason: str
    since: date
    until: date
    owner: str = ""

    def matches(self, task: Task) -> bool:
        """Whether `task` is meant; builds and lint never are: other runs need them."""
        if task.kind not in _KINDS:
            return False
        facts = {
            "workload": task.workload,
            "config": task.config_name,
            "device": task.device,
            "memory": task.memory,
            "seed": str(task.seed),
        }
        return all(fnmatchcase(facts[name], pattern) for name, pattern in self.patterns)

    @property
    def said(self) -> str:
        """The reason with its term and owner, as reports have it."""
        owner = f", {self.owner}" if self.owner else ""
        return f"{self.reason} (until {self.until.isoformat()}{owner})"

    @property
    def title(self) -> str:
        patterns = ", ".join(f"{name} {pattern}" for name, pattern in self.patterns)
        return f"{self.place} ({patterns})"


def load_quarantine(path: Path = QUARANTINE) -> list[Entry]:
    """The entries of a list; `CampaignError` if something is wrong in it."""
    root = read_yaml(path)
    root.keys("description", "entries")
    if root.has("entries") and root.value("entries") == []:
        return []
    return [_entry(node) for node in root.nodes("entries")]


def _entry(node: Node) -> Entry:
    node.keys(*_PATTERNS, "reason", "since", "until", "owner")
    patterns = tuple((name, _pattern(node, name)) for name in _PATTERNS if node.has(name))
    if not patterns:
        raise node.error(f"matches every run: give one of {', '.join(_PATTERNS)}")
    node.value("reason")
    reason = node.text("reason", "").strip()
    if not reason:
        raise node.error("reason is empty: say why its failures do not count")
    since, until = _day(node, "since"), _day(node, "until")
    if until < since:
        raise node.error(f"until {until}: lies before since {since}")
    return Entry(
        place=node.place,
        patterns=patterns,
        reason=reason,
        since=since,
        until=until,
        owner=node.text("owner", ""),
    )


def _pattern(node: Node, name: str) -> str:
    if name == "seed" and type(node.value(name)) is int:
        return str(node.whole(name, 0))
    return node.text(name, "")


def _day(node: Node, key: str) -> date:
    value = node.value(key)
    try:
        return value if type(value) is date else date.fromisoformat(str(value))
    except ValueError:
        raise node.error(f"{key} {shown(value)}: must be a date like 2026-11-02") from None


def quarantined(plan: Plan, entries: Sequence[Entry], today: date) -> Plan:
    """`plan`, its tasks marked with the reason of the first entry in force that matches them."""
    return replace(plan, tasks=tuple(_marked(task, entries, today) for task in plan.tasks))


def _marked(task: Task, entries: Sequence[Entry], today: date) -> Task:
    found = next((e for e in entries if e.until >= today and e.matches(task)), None)
    return task if found is None else replace(task, quarantine=found.said)


def notes(
    entries: Sequence[Entry], runs: Sequence[Run], today: date, *, whole: bool = True
) -> list[str]:
    """What should be done about entries: expired ones, passing ones, ones that match nothing.

    whole: `runs` are of a whole suite; of a part of one, an entry need not match anything.
    """
    lines = []
    for entry in entries:
        mine = [run for run in runs if entry.matches(run.task)]
        bad = sum(run.status in _BAD for run in mine)
        if not mine:
            if whole:
                lines.append(f"quarantine: {entry.title} matches no run of this suite")
        elif mine and all(run.status is Status.PASSED for run in mine):
            lines.append(f"quarantine: {entry.title} passes again: remove it")
        elif entry.until < today:
            lines.append(
                f"quarantine: {entry.title} expired on {entry.until}: {bad} of its {len(mine)} "
                "runs did not pass, and they count"
            )
    return lines

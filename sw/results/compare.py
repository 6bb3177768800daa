"""What changed between two sets of runs: cycles, accuracy, verdicts, and runs that came or went."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from sw.results.archive import Selection, run_key, run_title
from sw.results.task import Status

CYCLES = 0.005
"""Share of the cycles that a change must exceed to count."""
PCC = 0.001
"""Difference of the PCC that a change must exceed to count."""

_PASSED = Status.PASSED.value


class Direction(StrEnum):
    """Whether a change is one to the worse. OTHER: neither, such as a run that is new."""

    WORSE = "worse"
    BETTER = "better"
    OTHER = "other"


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """what: cycles, pcc, verdict, gone or new. change: of cycles, as a share; of the PCC."""

    title: str
    what: str
    direction: Direction
    before: float | str | None
    after: float | str | None
    change: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Differences:
    """Between two sets of runs, those to the worse first. matched: runs that both have."""

    before: str
    after: str
    matched: int
    changes: tuple[Change, ...]

    @property
    def worse(self) -> int:
        return sum(change.direction is Direction.WORSE for change in self.changes)

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "worse": self.worse}


def differences(
    before: Selection, after: Selection, *, cycles: float = CYCLES, pcc: float = PCC
) -> Differences:
    """Compare runs that are the same (`run_key`). cycles: a share, pcc: a difference."""
    old = {run_key(row): row for row in before.runs}
    new = {run_key(row): row for row in after.runs}
    changes: list[Change] = []
    for key in dict.fromkeys((*old, *new)):
        if key in old and key in new:
            changes += _changes(old[key], new[key], cycles, pcc)
        else:
            changes.append(_one_sided(old.get(key), new.get(key)))
    order = list(Direction)
    return Differences(
        before=before.label,
        after=after.label,
        matched=len(old.keys() & new.keys()),
        changes=tuple(sorted(changes, key=lambda c: order.index(c.direction))),
    )


def _one_sided(old: Mapping[str, Any] | None, new: Mapping[str, Any] | None) -> Change:
    row = new if old is None else old
    assert row is not None
    return Change(
        title=run_title(row),
        what="gone" if old else "new",
        direction=Direction.WORSE if old else Direction.OTHER,
        before=None if old is None else old["status"],
        after=None if new is None else new["status"],
    )


def _changes(
    old: Mapping[str, Any], new: Mapping[str, Any], cycles: float, pcc: float
) -> list[Change]:
    found = [_verdict(old, new), _cycles(old, new, cycles), _pcc(old, new, pcc)]
    return [change for change in found if change is not None]


def _verdict(old: Mapping[str, Any], new: Mapping[str, Any]) -> Change | None:
    before, after = old["status"], new["status"]
    if before == after:
        return None
    direction = Direction.OTHER
    if _PASSED in (before, after):
        direction = Direction.WORSE if before == _PASSED else Direction.BETTER
    return Change(
        title=run_title(new), what="verdict", direction=direction, before=before, after=after
    )


def _cycles(old: Mapping[str, Any], new: Mapping[str, Any], limit: float) -> Change | None:
    before, after = old["cycles"], new["cycles"]
    if _is_missing(before, after, new):
        return _missing(new, "cycles", before)
    if not before or after is None or abs(after - before) <= limit * before:
        return None
    worse = after > before
    return Change(
        title=run_title(new),
        what="cycles",
        direction=Direction.WORSE if worse else Direction.BETTER,
        before=before,
        after=after,
        change=after / before - 1,
    )


def _pcc(old: Mapping[str, Any], new: Mapping[str, Any], limit: float) -> Change | None:
    before, after = old["pcc"], new["pcc"]
    if _is_missing(before, after, new):
        return _missing(new, "pcc", before)
    if before is None or after is None or abs(after - before) <= limit:
        return None
    return Change(
        title=run_title(new),
        what="pcc",
        direction=Direction.WORSE if after < before else Direction.BETTER,
        before=before,
        after=after,
        change=after - before,
    )


def _is_missing(before: Any, after: Any, new: Mapping[str, Any]) -> bool:
    """Whether a run that passed has lost a figure; of one that did not its verdict says enough."""
    return before is not None and after is None and new["status"] == _PASSED


def _missing(new: Mapping[str, Any], what: str, before: Any) -> Change:
    return Change(
        title=run_title(new), what=what, direction=Direction.WORSE, before=before, after=None
    )

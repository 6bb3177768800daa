"""Three answers for someone who decides: the fastest, the smallest, the best per joule.

`assets/advice.js` gives the same answers in the page while thresholds change; a test runs both.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sw.report.data import MEAN, ReportData
from sw.report.numbers import show, two_digits
from sw.report.objectives import BY_KEY, Objective, values


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """question: a word for it. point: the label of the point that it names, or empty."""

    question: str
    point: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Candidate:
    label: str
    values: Mapping[str, Any]
    approximate: bool


def default_thresholds(data: ReportData) -> dict[str, Any]:
    """Thresholds to begin with: the medians of what there is, with two digits.

    size, speed: keys of the objectives that stand for them. at_most, at_least: their thresholds by
    workload, the mean of all last.
    """
    workloads = data.workloads
    rows = [values(point, workloads) for point in data.points if not point.reason]
    size = next((k for k in ("area", "luts") if any(k in row for row in rows)), "memory")
    speed = "rate" if any("rate" in row for row in rows) else "cycles"
    at_most, at_least = [], []
    for position in range(len(workloads) + 1):
        measured = [row for row in rows if _value(row, speed, position) is not None]
        at_most.append(_median(measured, size, position))
        at_least.append(_median(measured, speed, position))
    return {"size": size, "speed": speed, "at_most": at_most, "at_least": at_least}


def advise(
    data: ReportData,
    workload: str = MEAN,
    *,
    at_most: float | None = None,
    at_least: float | None = None,
    joule_at_least: float | None = None,
) -> list[Answer]:
    """The three answers for one workload, or for the mean of all.

    at_most: of the size (kGE, or KiB where nothing was synthesized). at_least: of the speed
    (inferences/s; without a clock the most cycles instead). joule_at_least: the same for the answer
    about energy; None means any speed. The defaults are those of the page.
    """
    names = [*data.workloads, MEAN]
    position = names.index(workload)
    chosen = default_thresholds(data)
    size, speed = BY_KEY[chosen["size"]], BY_KEY[chosen["speed"]]
    most = chosen["at_most"][position] if at_most is None else at_most
    least = chosen["at_least"][position] if at_least is None else at_least
    candidates = []
    for point in data.points:
        if point.reason:
            continue
        row = values(point, data.workloads)
        found = {key: _value(row, key, position) for key in BY_KEY}
        marks = [m.predicted for m in point.measurements if workload in (MEAN, m.workload)]
        candidates.append(_Candidate(label=point.label, values=found, approximate=any(marks)))
    joule = BY_KEY["efficiency"]
    return [
        _answer("fastest", candidates, speed, size, size, most),
        _answer("smallest", candidates, size, speed, speed, least),
        _answer("best per joule", candidates, joule, speed, speed, joule_at_least),
    ]


def _answer(
    question: str,
    candidates: Sequence[_Candidate],
    goal: Objective,
    second: Objective,
    limit: Objective,
    threshold: float | None,
) -> Answer:
    """The best by `goal`, of equals by `second`, of those whose `limit` reaches the threshold."""
    known = [c for c in candidates if c.values[goal.key] is not None]
    if not known:
        text = f"{_capital(question)}: no point has a figure of {goal.figure.label}."
        return Answer(question=question, point="", text=text)
    condition = ""
    rivals = known
    if threshold is not None:
        sign = "at least" if limit.larger_is_better else "at most"
        condition = f" with {sign} {show(threshold)} {limit.figure.unit}"
        rivals = [c for c in known if _reaches(c, limit, threshold)]
    if not rivals:
        nearest = _best([c for c in known if c.values[limit.key] is not None], limit, goal)
        text = f"{_capital(question)}: no point{condition}"
        if nearest is not None:
            text += f"; the nearest is {nearest.label}, {_figure(nearest, limit)}"
        return Answer(question=question, point="", text=text + ".")
    best = _best(rivals, goal, second)
    assert best is not None
    text = f"{_capital(question)}{condition}: {best.label}, {_figure(best, goal)}"
    if best.values[second.key] is not None:
        text += f", {_figure(best, second)}"
    count = f"{len(rivals):,} of {len(known):,} points qualify"
    return Answer(question=question, point=best.label, text=f"{text} ({count}).")


def _reaches(candidate: _Candidate, limit: Objective, threshold: float) -> bool:
    value = candidate.values[limit.key]
    return value is not None and limit.reaches(value, threshold)


def _best(
    candidates: Sequence[_Candidate], goal: Objective, second: Objective
) -> _Candidate | None:
    best = None
    for candidate in candidates:
        if best is None or _ahead(candidate, best, goal, second):
            best = candidate
    return best


def _ahead(one: _Candidate, other: _Candidate, goal: Objective, second: Objective) -> bool:
    if one.values[goal.key] != other.values[goal.key]:
        return goal.better(one.values[goal.key], other.values[goal.key])
    a, b = one.values[second.key], other.values[second.key]
    if a is None or b is None:
        return a is not None and b is None
    return second.better(a, b)


def _figure(candidate: _Candidate, objective: Objective) -> str:
    """`≈1,234 inferences/s`: the mark says that the cycles behind it are predicted."""
    mark = "≈" if candidate.approximate and objective.of_workload is not None else ""
    return f"{mark}{show(candidate.values[objective.key])} {objective.figure.unit}"


def _value(row: Mapping[str, Any], key: str, position: int) -> float | None:
    found = row.get(key)
    return found[position] if isinstance(found, list) else found


def _median(rows: Sequence[Mapping[str, Any]], key: str, position: int) -> float | None:
    found = sorted(v for row in rows if (v := _value(row, key, position)) is not None)
    if not found:
        return None
    return two_digits(found[len(found) // 2], up=not BY_KEY[key].larger_is_better)


def _capital(text: str) -> str:
    return text[0].upper() + text[1:]

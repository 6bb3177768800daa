"""Which commit of a line is tried next: halves, around those that cannot be tested."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from sw.campaign.bisect.criterion import Criterion, Verdict
from sw.campaign.bisect.repository import Commit
from sw.results.history import Result

Try = Callable[[Commit], Result]


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """The first bad commit is the last of `suspects`, or one of the untestable ones before it.

    before: the last result that is good, of the commit before the suspects. after: the first bad.
    """

    suspects: tuple[Commit, ...]
    before: Result
    after: Result

    @property
    def is_certain(self) -> bool:
        return len(self.suspects) == 1


def search(
    line: Sequence[Commit],
    good: Result,
    bad: Result,
    criterion: Criterion,
    known: Mapping[str, Result],
    attempt: Try,
) -> Found:
    """The first bad commit of `line`, whose last commit has the result `bad`.

    good: of the commit before the line. known: results by sha that need not be tried again.
    """
    before, after = good, bad
    verdicts = {i: criterion.verdict(known[c.sha]) for i, c in enumerate(line) if c.sha in known}
    low, high = narrowed(len(line), verdicts)
    if low >= 0:
        before = known[line[low].sha]
    if high < len(line) - 1:
        after = known[line[high].sha]
    lost = {i for i, verdict in verdicts.items() if verdict is Verdict.UNTESTABLE}
    while True:
        at = next((i for i in _from_middle(low, high) if i not in lost), None)
        if at is None:
            return Found(suspects=tuple(line[low + 1 : high + 1]), before=before, after=after)
        result = attempt(line[at])
        verdict = criterion.verdict(result)
        if verdict is Verdict.GOOD:
            low, before = at, result
        elif verdict is Verdict.BAD:
            high, after = at, result
        else:
            lost.add(at)


def narrowed(commits: int, verdicts: Mapping[int, Verdict]) -> tuple[int, int]:
    """The last good commit before the first bad one (-1: the one before the line), and that."""
    bad = (i for i, verdict in verdicts.items() if verdict is Verdict.BAD)
    high = min((*bad, commits - 1))
    good = (i for i, verdict in verdicts.items() if verdict is Verdict.GOOD and i < high)
    return max((*good, -1)), high


def most_tries(low: int, high: int) -> int:
    """Tries between a good and a bad commit, if every commit can be tested."""
    return (high - low - 1).bit_length()


def _from_middle(low: int, high: int) -> Iterator[int]:
    """What lies between, the middle first, then its neighbours, further and further away."""
    middle = (low + high) // 2
    for distance in range(high - low):
        for i in dict.fromkeys((middle - distance, middle + distance)):
            if low < i < high:
                yield i

"""When a result is bad: the run fails, takes more cycles than a number, or more than it took."""

import enum
import math
from dataclasses import dataclass

from sw.results.history import Result
from sw.results.task import CampaignError, Status

_WRONG = (Status.FAILED, Status.TIMEOUT)


class Verdict(enum.Enum):
    """UNTESTABLE: the commit says nothing, as where it cannot be built."""

    GOOD = "good"
    BAD = "bad"
    UNTESTABLE = "untestable"


@dataclass(frozen=True, slots=True, kw_only=True)
class Criterion:
    """What makes a result bad: failing, or too many cycles.

    cycles_above: more cycles than that. rise: more than so much above the good commit's, 0.02 for
    2%. errors: an error of the run itself is bad too, which it is if the bad commit has one.
    """

    cycles_above: int | None = None
    rise: float | None = None
    errors: bool = False

    def __post_init__(self) -> None:
        if self.cycles_above is not None and self.rise is not None:
            raise CampaignError("--cycles-above and --rise: give one of them")
        if self.cycles_above is not None and self.cycles_above < 1:
            raise CampaignError(f"--cycles-above {self.cycles_above}: must be 1 or more cycles")
        if self.rise is not None and not (math.isfinite(self.rise) and self.rise > 0):
            raise CampaignError(f"--rise {self.rise * 100:g}: must be above 0 percent")

    @property
    def counts_cycles(self) -> bool:
        return self.cycles_above is not None or self.rise is not None

    def from_good(self, good: Result) -> "Criterion":
        """With the rise as a number of cycles; `CampaignError` if the good commit has none."""
        if self.rise is None:
            return self
        if good.cycles is None:
            raise CampaignError(
                f"--rise: {good.commit[:12]} counted no cycles ({good.status}); give a --good "
                "commit at which the run passes on rtl"
            )
        return Criterion(cycles_above=math.floor(good.cycles * (1 + self.rise)))

    def verdict(self, result: Result) -> Verdict:
        """What a commit with that result is."""
        if self.counts_cycles:
            if result.status is not Status.PASSED or result.cycles is None:
                return Verdict.UNTESTABLE
            limit = self.cycles_above
            return Verdict.BAD if limit is not None and result.cycles > limit else Verdict.GOOD
        if result.status is Status.PASSED:
            return Verdict.GOOD
        if result.status in _WRONG or (self.errors and result.status is Status.ERROR):
            return Verdict.BAD
        return Verdict.UNTESTABLE

    def __str__(self) -> str:
        if self.cycles_above is not None:
            return f"more than {self.cycles_above:,} cycles"
        if self.rise is not None:
            return f"{self.rise:.1%} more cycles than at the good commit"
        return "it does not pass"

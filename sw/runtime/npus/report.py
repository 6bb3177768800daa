"""What a run of several NPUs says."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class NpuShare:
    """One NPU's part of a run.

    runs: that it completed. busy: cycles between START and interrupt. waited: cycles at semaphores.
    read_words, write_words: bus words. read_waits, write_waits: cycles in which an address or a
    word was offered and the interconnect did not take it.
    """

    runs: int
    busy: int
    waited: int
    read_words: int
    write_words: int
    read_waits: int
    write_waits: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemResult:
    """Figures of one run of a system.

    cycles: from the start of all runners to the rest of the last. memory_reads, memory_writes:
    words of the memory, each `word_bytes` wide. wall_s: seconds that the run took here.
    """

    cycles: int
    samples: int
    shares: tuple[NpuShare, ...]
    memory_reads: int
    memory_writes: int
    word_bytes: int
    wall_s: float

    @property
    def cycles_per_sample(self) -> float:
        return self.cycles / self.samples

    @property
    def read_use(self) -> float:
        """Share of cycles in which the memory gave a word."""
        return self.memory_reads / self.cycles

    @property
    def write_use(self) -> float:
        """Share of cycles in which the memory took a word."""
        return self.memory_writes / self.cycles

    @property
    def fairness(self) -> float:
        """Jain's index of the bus words that the NPUs moved a busy cycle: 1 is equal, 1/N is one
        NPU that has all.
        """
        rates = [(s.read_words + s.write_words) / s.busy for s in self.shares if s.busy]
        squares = sum(rate * rate for rate in rates)
        return sum(rates) ** 2 / (len(rates) * squares) if squares else 1.0

    @property
    def khz(self) -> float:
        """Simulated kilocycles a second."""
        return self.cycles / self.wall_s / 1e3 if self.wall_s else 0.0

    def to_json(self) -> dict[str, Any]:
        derived: Mapping[str, Any] = {
            "cycles_per_sample": self.cycles_per_sample,
            "read_use": self.read_use,
            "write_use": self.write_use,
            "fairness": self.fairness,
            "khz": self.khz,
        }
        return {**asdict(self), **derived}

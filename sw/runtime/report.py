"""What a run is reported as: one record, printed as tables or written as JSON."""

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from spec.config import NpuConfig
from spec.errors import SystolaError
from spec.notebook import summary
from sw.runtime.tables import FittedTable, left, right
from sw.runtime.timing import Timing

if TYPE_CHECKING:
    from sw.runtime.device import RunResult

Arrays = Mapping[str, NDArray[Any]]


class ReportError(SystolaError, ValueError):
    """Results that cannot be compared or written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """How two sets of output tensors differ; `first` is the first difference in row-major order."""

    elements: int
    mismatches: int
    first: str = ""

    @property
    def exact(self) -> bool:
        """No difference, and something was compared."""
        return self.elements > 0 and self.mismatches == 0

    def __add__(self, other: "Comparison") -> "Comparison":
        return Comparison(
            elements=self.elements + other.elements,
            mismatches=self.mismatches + other.mismatches,
            first=self.first or other.first,
        )


def compare(expected: Arrays, got: Arrays) -> Comparison:
    """Element by element over every tensor of `expected`.

    `ReportError` if tensors are missing, superfluous, or of another shape or type.
    """
    if set(expected) != set(got):
        raise ReportError(f"outputs {sorted(got)} are not those expected, {sorted(expected)}")
    total = Comparison(elements=0, mismatches=0)
    for name, want in expected.items():
        have = got[name]
        if want.shape != have.shape or want.dtype != have.dtype:
            raise ReportError(
                f"output {name}: {have.dtype}{list(have.shape)} cannot be compared with the "
                f"expected {want.dtype}{list(want.shape)}"
            )
        different = np.argwhere(want != have)
        first = ""
        if len(different):
            index = tuple(int(i) for i in different[0])
            first = f"{name}{list(index)}: expected {want[index]}, got {have[index]}"
        total += Comparison(elements=want.size, mismatches=len(different), first=first)
    return total


@dataclass(kw_only=True)
class Report:
    """One run. `None` means that it was not measured on this device or not asked for.

    bit_exact: RTL against golden on the same program. reference_exact: golden against the TOSA
    reference model. policy: how values became integers, and why; notes: what else was done to the
    model. macs: of the work, padding not counted. wall_s: seconds of simulation alone. timing: what
    was predicted.
    """

    name: str
    config: NpuConfig
    shape: str
    device: str
    macs: int
    cycles: int | None = None
    counters: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    dram_read_bytes: int | None = None
    dram_write_bytes: int | None = None
    wall_s: float = 0.0
    comparison: Comparison | None = None
    reference: Comparison | None = None
    waves: Path | None = None
    policy: str = ""
    notes: tuple[str, ...] = ()
    timing: Timing | None = None
    extra: dict[str, Any] = field(default_factory=dict)

    def add(self, result: "RunResult") -> None:
        """Sum a run's cycles, counters, traffic and time into this report's."""
        if result.cycles is not None:
            self.cycles = (self.cycles or 0) + result.cycles
            self.dram_read_bytes = (self.dram_read_bytes or 0) + result.read_bytes
            self.dram_write_bytes = (self.dram_write_bytes or 0) + result.write_bytes
        self.wall_s += result.wall_s
        total = {engine: dict(row) for engine, row in self.counters.items()}
        for engine, row in result.counters.items():
            sums = total.setdefault(engine, {})
            for cause, cycles in row.items():
                sums[cause] = sums.get(cause, 0) + cycles
        self.counters = total

    @property
    def utilization(self) -> float | None:
        if not self.cycles:
            return None
        return self.macs / (self.config.pes * self.cycles)

    @property
    def sim_cycles_per_s(self) -> float | None:
        if not self.cycles or self.wall_s <= 0:
            return None
        return self.cycles / self.wall_s

    def _timed(self, timing: Timing) -> Timing:
        return replace(timing, cycles=self.cycles)

    @property
    def failed(self) -> bool:
        """A comparison was made and did not come out exact (nothing compared is a failure)."""
        return any(c is not None and not c.exact for c in (self.comparison, self.reference))

    def to_json(self) -> dict[str, Any]:
        found = [c for c in (self.comparison, self.reference) if c is not None]
        return {
            "name": self.name,
            "config": self.config.name,
            "config_digest": self.config.digest_hex,
            "shape": self.shape,
            "device": self.device,
            "cycles": self.cycles,
            "macs": self.macs,
            "utilization": self.utilization,
            "bit_exact": None if self.comparison is None else self.comparison.exact,
            "reference_exact": None if self.reference is None else self.reference.exact,
            "mismatches": sum(c.mismatches for c in found) if found else None,
            "wall_s": self.wall_s,
            "sim_cycles_per_s": self.sim_cycles_per_s,
            "counters": {name: dict(row) for name, row in self.counters.items()},
            "dram_read_bytes": self.dram_read_bytes,
            "dram_write_bytes": self.dram_write_bytes,
            **({} if self.timing is None else self._timed(self.timing).to_json()),
            **({"policy": self.policy} if self.policy else {}),
            **({"notes": list(self.notes)} if self.notes else {}),
            **self.extra,
        }

    def print(self, console: Console) -> None:
        """Facts, stall table, verdict."""
        self.print_facts(console)
        if self.counters:
            console.print(stall_table(self.counters))
        self.print_verdict(console)

    def print_facts(self, console: Console) -> None:
        """What ran, where, and its figures."""
        facts = Table.grid(padding=(0, 2))
        facts.add_column()
        facts.add_column(overflow="fold")
        for label, value in self._facts():
            facts.add_row(label, value)
        console.print(facts)

    def print_verdict(self, console: Console) -> None:
        """What was compared, and how it came out."""
        for line in self.verdict():
            console.print(line, highlight=False, soft_wrap=True)

    def _facts(self) -> list[tuple[str, str]]:
        config = self.config
        rows = [
            ("program", f"{self.name}  {self.shape.replace(',', ' ')}"),
            ("configuration", f"{config.name}  {config.rows}×{config.cols}  {config.digest_hex}"),
            ("device", self.device),
            ("MACs", f"{self.macs:,}"),
            *([("policy", self.policy)] if self.policy else []),
            *(("note", note) for note in self.notes),
        ]
        if self.cycles is not None:
            rows.append(("cycles", f"{self.cycles:,}"))
        if self.timing is not None:
            rows += self._timed(self.timing).facts()
        if self.utilization is not None:
            rows.append(("utilization", f"{self.utilization:.1%}"))
        if self.dram_read_bytes is not None and self.dram_write_bytes is not None:
            moved = f"{self.dram_read_bytes:,} bytes read, {self.dram_write_bytes:,} written"
            rows.append(("memory", moved))
        if self.sim_cycles_per_s is not None:
            rows.append(
                ("simulation", f"{self.wall_s:.2f} s, {self.sim_cycles_per_s:,.0f} cycles/s")
            )
        for key, value in self.extra.items():
            rows.append((key, f"{value:.4f}" if isinstance(value, float) else str(value)))
        return rows

    def _repr_html_(self) -> str:
        """What a notebook shows: the facts, and what was compared."""
        facts = [*self._facts(), *(("verdict", line) for line in self.verdict())]
        return summary(f"{self.name} on {self.config.name}", facts)

    def verdict(self) -> list[str]:
        """One line per claim: PASS or FAIL, what was compared, the first difference."""
        claims = (
            ("RTL = golden model", self.comparison),
            ("golden model = TOSA reference model", self.reference),
        )
        lines = [_claim(text, c) for text, c in claims if c is not None]
        if not lines:
            lines = [f"DONE on {self.device} alone: nothing was compared (--verify compares it)"]
        if self.waves is not None:
            lines.append(f"waves in {self.waves}")  # whole: a table would cut a long path
        return lines


def check_json(path: Path | None, option: str = "--json") -> None:
    """`ReportError` unless a report can be written to `path`: asked before a long run."""
    if path is None:
        return
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # A run that fails leaves the report of the last one as it was.
        existed = path.exists()
        with path.open("a"):
            pass
        if not existed:
            path.unlink()
    except OSError as error:
        raise ReportError(f"{option} {path}: cannot write: {error.strerror}") from None


def write_json(facts: Any, path: Path) -> None:
    """`ReportError` if the file cannot be written."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(facts, indent=2) + "\n")
    except OSError as error:
        raise ReportError(f"--json {path}: cannot write: {error.strerror}") from None


def read_json(path: Path) -> Any:
    """What a JSON file holds; `ReportError` if it cannot be read or is none."""
    try:
        return json.loads(path.read_text())
    except OSError as error:
        raise ReportError(f"{path}: cannot read: {error.strerror}") from None
    except ValueError as error:
        raise ReportError(f"{path}: no JSON: {error}") from None
    except RecursionError:
        raise ReportError(f"{path}: no JSON: nested too deep") from None


def write_text(text: str, out: Path | None) -> None:
    """Write a page, to standard output if `out` is None; `ReportError` if that cannot be done."""
    if out is None:
        sys.stdout.write(text)
        return
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(text)
    except OSError as error:
        raise ReportError(f"--out {out}: cannot write: {error.strerror}") from None


def _claim(text: str, result: Comparison) -> str:
    if result.exact:
        return f"PASS  {text}: {result.elements:,} elements, 0 differences"
    if not result.elements:
        return f"FAIL  {text}: nothing was compared"
    return (
        f"FAIL  {text}: {result.mismatches:,} of {result.elements:,} elements differ; "
        f"first: {result.first}"
    )


def stall_table(counters: Mapping[str, Mapping[str, int]]) -> FittedTable:
    """Per engine the share of the run's cycles in each state; each row sums to 100%."""
    states = list(next(iter(counters.values())))
    columns = [left("engine"), *map(right, states), right("total", 1)]
    table = FittedTable(columns, "cycles of each engine")
    for engine, row in counters.items():
        total = sum(row.values())
        shares = [f"{row[s] / total:.1%}" if total else "–" for s in states]
        table.add_row(engine, *shares, f"{total:,}")
    return table

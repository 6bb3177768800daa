"""What ran on the device, operator by operator: on the NPU or on the CPU, and why."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from sw.torch_backend.options import Options
from sw.torch_device.program import Work


@dataclass(slots=True, kw_only=True)
class Row:
    """An operator: calls on the NPU, calls on the CPU by reason, and what they took.

    compiled: programs that were made, in `compile_s` seconds. cycles: of RTL; predicted_cycles: of
    every device.
    """

    name: str
    npu: int = 0
    cpu: dict[str, int] = field(default_factory=dict)
    compiled: int = 0
    compile_s: float = 0.0
    run_s: float = 0.0
    cycles: int | None = None
    predicted_cycles: int = 0

    def note_cpu(self, reason: str) -> None:
        self.cpu[reason] = self.cpu.get(reason, 0) + 1

    def note_compiled(self, seconds: float) -> None:
        self.compiled += 1
        self.compile_s += seconds

    def note_run(self, work: Work, seconds: float) -> None:
        """A call of a program; on the CPU if no part of it has run."""
        self.run_s += seconds
        self.predicted_cycles += work.predicted_cycles
        if work.cycles is not None:
            self.cycles = (self.cycles or 0) + work.cycles
        if work.npu:
            self.npu += 1
            return
        for reason in work.cpu:
            self.note_cpu(reason)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceReport:
    """Rows in the order of first calls. `str()` is a table for people."""

    rows: tuple[Row, ...]
    options: Options

    @property
    def npu_calls(self) -> int:
        return sum(row.npu for row in self.rows)

    @property
    def cpu_calls(self) -> int:
        return sum(sum(row.cpu.values()) for row in self.rows)

    @property
    def cycles(self) -> int | None:
        """Of the simulated hardware; None on the golden model, which has no clock."""
        known = [row.cycles for row in self.rows if row.cycles is not None]
        return sum(known) if known else None

    def row(self, name: str) -> Row:
        """The row of an operator, `linear` or `add.Tensor`; an empty one if it never ran."""
        return next((r for r in self.rows if r.name == name), Row(name=name))

    def to_dict(self) -> dict[str, Any]:
        names = Row.__dataclass_fields__
        return {
            "config": self.options.config.name,
            "device": self.options.device,
            "npu_calls": self.npu_calls,
            "cpu_calls": self.cpu_calls,
            "cycles": self.cycles,
            "predicted_cycles": sum(row.predicted_cycles for row in self.rows),
            "operators": [{n: getattr(row, n) for n in names} for row in self.rows],
        }

    def to_json(self) -> str:
        return json.dumps(self.to_dict(), indent=1)

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        data = self.to_dict()
        yield (
            f"device systola, config {data['config']}, {data['device']}: {self.npu_calls} calls on "
            f"the NPU, {self.cpu_calls} on the CPU; {data['predicted_cycles']:,} cycles predicted"
            + ("" if self.cycles is None else f", {self.cycles:,} simulated")
        )
        width = max((len(row.name) for row in self.rows), default=0)
        for row in self.rows:
            calls = f"{row.npu:>6} npu {sum(row.cpu.values()):>6} cpu"
            yield f"  {row.name:<{width}} {calls} {row.predicted_cycles:>12,} cycles".rstrip()
            yield from (f"      {count} on the CPU: {why}" for why, count in row.cpu.items())

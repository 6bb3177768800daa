"""nextpnr: places and routes what Yosys made, and says how fast it is."""

import contextlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sw.runtime.progress import Say
from sw.synth.errors import SynthError
from sw.synth.fpga.placement import CONFIG, LOG, REPORT, Placement
from sw.synth.fpga.spread import LARGEST
from sw.synth.tools import GivenUpError, Run, Tool, run_side_by_side

_PINS = "npu.lpf"
GRADES = ("6", "7", "8")
"""Speed grades of an ECP5, the slowest first. Most boards have the slowest."""
CLOCK_PIN = 'LOCATE COMP "clk" SITE "G2";\n'
"""A pin that leads to the device's clock lines. From others nextpnr may find no way there."""

_FREE = ("--package", "CABGA381", "--freq", "60", "--lpf-allow-unconstrained")
"""Of a device on no board. The frequency is a wish. Only the clock's pin is given."""


def largest(grade: str = GRADES[0]) -> tuple[str, ...]:
    """The largest ECP5 of a speed grade; `SynthError` for a grade that there is not."""
    if grade not in GRADES:
        raise SynthError(f"--grade {grade}: an ECP5 has the speed grades {', '.join(GRADES)}")
    return (LARGEST, "--speed", grade, *_FREE)


_WAYS = ("--placer", "static", "--router", "router2", "--timing-allow-fail")
"""How nextpnr places and routes. The other placer's wires are a tenth longer, or a third. The
default router, router1, does not come to an end where wires are dense. nextpnr writes the router
into a placement and takes it from there."""
_ROUTER = {
    "router2/currCongWeightMult": "1.0",
    "router2/histCongWeight": "2.0",
    "router2/bbMargin/x": "12",
    "router2/bbMargin/y": "12",
}
"""How much dearer a wire that nets share gets with each step (2 where nothing is said, with which
many nets get out of the way at once, and some make long detours), how much dearer for having been
shared before (1), and how many tiles beyond its ends a net may go (3)."""
_SEEDS = (1, 2, 3, 4)
"""Placements to make: by one of them wires are a quarter longer than by another."""
_AT_ONCE = 2
"""Of them: each has one core and some gigabytes."""
_TABLE = "TRELLIS_COMB"
"""What nextpnr calls a look-up table."""


@dataclass(frozen=True, slots=True)
class Fitted:
    """What nextpnr says: the clock in MHz, and what the whole design takes of the device."""

    fmax_mhz: float | None
    used: dict[str, tuple[int, int]]
    problem: str
    critical_path: dict[str, Any] | None = None


def add_settings(netlist: Path, top: str) -> None:
    """Write what no option of nextpnr sets into a netlist that Yosys wrote."""
    text = netlist.read_text()
    head = f'\n    "{top}": {{'
    at = text.index(head) + len(head)
    netlist.write_text(f'{text[:at]}\n      "settings": {json.dumps(_ROUTER)},{text[at:]}')


def run_nextpnr(
    nextpnr: Tool, device: Sequence[str], pins: str, free: int, folder: Path, say: Say
) -> Fitted:
    """Place and route the `FLAT` of a folder; its bitstream's text is `CONFIG` there.

    pins : constraints (LPF). free : tables of the netlist that only keep places free.
    All placements are made. They are routed two at a time, those with the shortest wires first,
    until one is; of two, the faster one is taken. A design that does not fit, or is routed with
    none of them, has a problem and no clock.
    """
    (folder / _PINS).write_text(pins)
    command = [*nextpnr.command, *device, *_WAYS, "--lpf", _PINS]
    for name in (CONFIG, REPORT, LOG):
        (folder / name).unlink(missing_ok=True)  # of a run before, where the folder was kept
    attempt = _Attempt([Placement(command, folder, seed) for seed in _SEEDS], free, folder, say)
    try:
        return attempt.place() or attempt.route() or attempt.end()
    finally:
        for one in attempt.made:
            one.remove()


class _Attempt:
    """One attempt to place and route a netlist. made : its placements."""

    def __init__(self, made: Sequence[Placement], free: int, folder: Path, say: Say) -> None:
        self.made = made
        self._free, self._folder, self._say = free, folder, say
        self._placed: list[Placement] = []
        self._failure: SynthError | None = None
        """Of the last placement that nextpnr ended without a result."""

    def place(self) -> Fitted | None:
        """Make all placements; what it returns says that the design does not fit."""
        self._say(f"placing, {len(self.made)} placements …")
        for one, _ in self._ended(self.made, Placement.placing):
            if one.placed.exists():
                self._placed.append(one)
            elif fitted := self._result(one):
                return fitted  # what does not fit never does
        self._placed.sort(key=lambda one: one.length)
        return None

    def route(self) -> Fitted | None:
        """Route them, until one is. Of two that are routed at a time, the faster one is kept."""
        if self._placed:
            lengths = ", ".join(f"{one.seed} ({one.length:,})" for one in self._placed)
            self._say(f"routing, placements {lengths} …")
        for first in range(0, len(self._placed), _AT_ONCE):
            routed: dict[Placement, Fitted] = {}
            pair = self._placed[first : first + _AT_ONCE]
            for one, end in self._ended(pair, Placement.routing):
                if isinstance(end, GivenUpError):
                    self._say(f"placement {one.seed}: {end}")
                elif fitted := self._result(one):
                    self._say(f"placement {one.seed}: {fitted.fmax_mhz} MHz")
                    routed[one] = fitted
            if routed:
                best = max(routed, key=lambda one: routed[one].fmax_mhz or 0)
                best.keep()
                return routed[best]
        return None

    def end(self) -> Fitted:
        """What to say when none was routed; raises the failure of one, if there was any."""
        if self._failure:
            raise self._failure
        taken = _taken(self.made[0].log.read_text())
        return Fitted(None, taken, f"none of {len(self.made)} placements was routed")

    def _result(self, one: Placement) -> Fitted | None:
        """What nextpnr found, if it says so. The other placements may still come to an end."""
        try:
            return read_result(one.report, one.log, self._free)
        except SynthError as problem:
            self._failure = problem
            self._say(f"placement {one.seed}: {problem}")
            return None

    def _ended(
        self, ones: Sequence[Placement], run: Callable[[Placement], Run]
    ) -> Iterator[tuple[Placement, int | GivenUpError]]:
        """Each of the placements when its run has ended, and how."""
        # nextpnr in WebAssembly sees the current folder only.
        runs = [run(one) for one in ones]
        with contextlib.closing(
            run_side_by_side(runs, _AT_ONCE, self._say, cwd=self._folder)
        ) as ended:
            for number, end in ended:
                yield ones[number], end


def read_result(report: Path, log: Path, free: int = 0) -> Fitted:
    """What nextpnr found; a design that does not fit has a problem and no clock.

    free : tables that only keep places free: no design has them.
    """
    text = log.read_text()
    if report.exists():
        facts: dict[str, Any] = json.loads(report.read_text())
        counts = {n: (int(u["used"]), int(u["available"])) for n, u in facts["utilization"].items()}
        used, available = counts.get(_TABLE, (0, 0))
        counts[_TABLE] = (max(used - free, 0), available)
        kinds = {name: pair for name, pair in counts.items() if pair[0]}
        clocks = [round(float(clock["achieved"]), 2) for clock in facts["fmax"].values()]
        return Fitted(min(clocks, default=None), kinds, "", _critical_path(facts))
    kinds = _taken(text)
    over = [f"{name} {u:,} of {n:,}" for name, (u, n) in kinds.items() if u > n]
    if over:
        return Fitted(None, kinds, f"does not fit: {', '.join(over)}")
    tail = "\n".join(text.splitlines()[-8:])
    raise SynthError(f"nextpnr-ecp5 ended without a result:\n{tail}")


def _taken(log: str) -> dict[str, tuple[int, int]]:
    """What a design takes of the device, and what this has, as the log says it."""
    kinds = {}
    for line in log.splitlines():
        words = line.replace("Info:", "").replace("/", " ").replace(":", " ").split()
        if len(words) == 4 and words[3].endswith("%") and words[1].isdigit():
            kinds[words[0]] = (int(words[1]), int(words[2]))
    return kinds


def _critical_path(facts: Mapping[str, Any]) -> dict[str, Any] | None:
    """The path from register to register that takes longest: its ends, and delays by kind."""
    inside = [p["path"] for p in facts["critical_paths"] if "<async>" not in (p["from"], p["to"])]
    if not inside:
        return None
    path = max(inside, key=lambda steps: sum(float(step["delay"]) for step in steps))
    routing = sum(float(step["delay"]) for step in path if step["type"] == "routing")
    total = sum(float(step["delay"]) for step in path)
    return {
        "start": path[0]["from"]["cell"].removeprefix("inner."),
        "end": path[-1]["to"]["cell"].removeprefix("inner."),
        "ns": round(total, 3),
        "routing_ns": round(routing, 3),
        "steps": sum(step["type"] == "logic" for step in path),
    }

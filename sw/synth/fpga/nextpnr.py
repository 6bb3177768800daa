"""nextpnr: places and routes what Yosys made, and says how fast it is."""

import contextlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from sw.runtime.progress import Say
from sw.synth.errors import SynthError
from sw.synth.fpga.spread import LARGEST
from sw.synth.tools import Run, Tool, run_logged, run_side_by_side

FLAT, CONFIG = "flat.json", "npu.config"
"""The netlist that nextpnr reads, and the text of the bitstream that it writes."""
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
_LENGTH = re.compile(r"wirelen = (\d+)")
"""How long all wires of a placement are, in tiles: the last one counts."""
_PLACED = re.compile(r"iter=(\d*00) steplen")
"""Each hundredth step of the placer."""
_TABLE = "TRELLIS_COMB"
"""What nextpnr calls a look-up table."""
_SHARED = re.compile(r"iter=(\d+) wires=\d+ overused=(\d+)")
"""What router2 says after each step: it has ended when no two nets share a wire."""
_NO_WAY = "ERROR: Failed to route"
"""What it says where a placement leaves it no way at all."""
_PATIENCE = 60
"""Steps without fewer shared wires after which it is given up …"""
_NEAR = 20
"""… unless so few are left that it mostly gets rid of them."""


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


class _NoProgressError(Exception):
    """The router does not come to an end."""


def run_nextpnr(
    nextpnr: Tool, device: Sequence[str], pins: str, free: int, folder: Path, say: Say
) -> Fitted:
    """Place and route the `FLAT` of a folder; its bitstream's text is `CONFIG` there.

    pins : constraints (LPF). free : tables of the netlist that only keep places free.
    All placements are made, and routed until one is, that with the shortest wires first. A design
    that does not fit, or is routed with none of them, has a problem and no clock.
    """
    report, log = folder / "nextpnr.json", folder / "nextpnr.log"
    (folder / "npu.lpf").write_text(pins)
    report.unlink(missing_ok=True)  # of a run before, where the folder was kept
    # nextpnr in WebAssembly sees the current folder only.
    common = [*nextpnr.command, *device, *_WAYS, "--lpf", "npu.lpf"]
    placed = {seed: folder / f"placed_{seed}.json" for seed in _SEEDS}
    lengths = {}
    try:
        runs = [
            Run(
                [*common, "--no-route", "--json", FLAT, "--write", to.name, "--seed", str(seed)],
                folder / f"nextpnr_{seed}.log",
                partial(_placing, seed),
            )
            for seed, to in placed.items()
        ]
        for written in placed.values():
            written.unlink(missing_ok=True)
        say(f"placing, {len(_SEEDS)} placements …")
        with contextlib.closing(run_side_by_side(runs, _AT_ONCE, say, cwd=folder)) as ended:
            for number, _ in ended:
                seed = _SEEDS[number]
                if placed[seed].exists():
                    found = _LENGTH.findall(runs[number].log.read_text())
                    lengths[seed] = int(found[-1]) if found else 0
                elif not lengths:
                    return read_result(report, runs[number].log, free)
                else:
                    say(f"placement {seed}: nextpnr did not make it")
        for seed in sorted(lengths, key=lambda seed: lengths[seed]):
            say(f"routing placement {seed}, of wires of {lengths[seed]:,} tiles …")
            into = ("--report", report.name, "--textcfg", CONFIG)
            command = [*common, "--no-pack", "--no-place", "--json", placed[seed].name, *into]
            command += ["--seed", str(seed)]
            try:
                run_logged(command, log, _routing(), say, cwd=folder)
            except _NoProgressError as problem:
                say(f"placement {seed}: {problem}")
                continue
            return read_result(report, log, free)
    finally:
        for written in placed.values():
            written.unlink(missing_ok=True)
    return Fitted(None, _taken(log.read_text()), f"none of {len(_SEEDS)} placements was routed")


def _placing(seed: int, line: str) -> str:
    """What to show for a line of nextpnr's log, or nothing."""
    if step := _PLACED.search(line):
        return f"placement {seed}: step {step[1]}"
    length = _LENGTH.search(line)
    return f"placement {seed}: wires of {int(length[1]):,} tiles" if length else ""


def _routing() -> Callable[[str], str]:
    """What to show for a line of nextpnr's log, or nothing; ends a router that goes in circles."""
    least, best = 0, 0

    def news(line: str) -> str:
        nonlocal least, best
        if line.startswith(_NO_WAY):
            raise _NoProgressError(line.strip())
        shared = _SHARED.search(line)
        if not shared:
            return ""
        step, wires = int(shared[1]), int(shared[2])
        if step == 1 or wires < least:
            least, best = wires, step
        elif least > _NEAR and step - best > _PATIENCE:
            raise _NoProgressError(f"{least:,} shared wires are left, and do not get fewer")
        return f"routing: {wires:,} wires are shared after step {step}"

    return news


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

"""One placement of a netlist: how nextpnr is called for it, and what it says meanwhile."""

import re
from collections.abc import Callable, Sequence
from pathlib import Path

from sw.synth.tools import GivenUpError, Run

FLAT = "flat.json"
"""The netlist that nextpnr reads."""
CONFIG, REPORT, LOG = "npu.config", "nextpnr.json", "nextpnr.log"
"""What is kept of the placement that is taken: the text of its bitstream, the first of them."""
_LENGTH = re.compile(r"wirelen = (\d+)")
"""How long all wires of a placement are, in tiles: the last one counts."""
_PLACED = re.compile(r"iter=(\d*00) steplen")
"""Each hundredth step of the placer."""
_SHARED = re.compile(r"iter=(\d+) wires=(\d+) overused=(\d+)")
"""What router2 says after each step: it has ended when no two nets share a wire."""
_NO_WAY = "ERROR: Failed to route"
"""What it says where a placement leaves it no way at all."""
_PATIENCE = 60
"""Steps without fewer shared wires after which it is given up …"""
_NEAR = 20
"""… unless so few are left that it mostly gets rid of them."""
_CROWDED, _FEWER = 0.02, 0.9
"""While more than this part of all wires is shared, a step must leave fewer than that part of the
shared ones. In placements that were routed a step left at most 0.83 of them then."""


class Placement:
    """The placement that nextpnr makes from a seed, with its files in a folder.

    command : of nextpnr, with the options that all placements have.
    placed : the file that it is in, once it is made. log : of what nextpnr said last. report : of
    what it found, once it is routed.
    """

    def __init__(self, command: Sequence[str], folder: Path, seed: int) -> None:
        self.seed, self._command, self._folder = seed, command, folder
        self.placed, self.report = folder / f"placed_{seed}.json", folder / f"nextpnr_{seed}.json"
        self._logs = [folder / f"{what}_{seed}.log" for what in ("placing", "routing")]
        self._config = folder / f"npu_{seed}.config"
        self.log = self._logs[0]

    @property
    def length(self) -> int:
        """Tiles that all wires together lead through."""
        found = _LENGTH.findall(self._logs[0].read_text())
        return int(found[-1]) if found else 0

    def placing(self) -> Run:
        """What makes it."""
        to = ("--no-route", "--json", FLAT, "--write", self.placed.name)
        return self._run(to, self._logs[0], self._while_placing)

    def routing(self) -> Run:
        """What routes it; it may be given up."""
        self.log = self._logs[1]
        to = ("--report", self.report.name, "--textcfg", self._config.name)
        command = ("--no-pack", "--no-place", "--json", self.placed.name, *to)
        return self._run(command, self.log, self._while_routing())

    def keep(self) -> None:
        """It is the one that is taken."""
        for path, name in ((self._config, CONFIG), (self.report, REPORT), (self.log, LOG)):
            path.replace(self._folder / name)

    def remove(self) -> None:
        """Its large files and its results."""
        for path in (self.placed, self.report, self._config):
            path.unlink(missing_ok=True)

    def _run(self, options: Sequence[str], log: Path, news: Callable[[str], str]) -> Run:
        return Run([*self._command, *options, "--seed", str(self.seed)], log, news)

    def _while_placing(self, line: str) -> str:
        """What to show for a line of nextpnr's log, or nothing."""
        if step := _PLACED.search(line):
            return f"placement {self.seed}: step {step[1]}"
        length = _LENGTH.search(line)
        return f"placement {self.seed}: wires of {int(length[1]):,} tiles" if length else ""

    def _while_routing(self) -> Callable[[str], str]:
        """The same, while it is routed; gives up where it goes in circles or hardly moves."""
        least, best, before = 0, 0, 0

        def news(line: str) -> str:
            nonlocal least, best, before
            if line.startswith(_NO_WAY):
                raise GivenUpError(line.strip())
            shared = _SHARED.search(line)
            if not shared:
                return ""
            step, all_wires, wires = map(int, shared.groups())
            if step > 1 and wires > max(_CROWDED * all_wires, _FEWER * before):
                raise GivenUpError(
                    f"{wires:,} of {all_wires:,} wires are shared after step {step}, "
                    f"{before:,} before it: there are too few wires for this design"
                )
            before = wires
            if step == 1 or wires < least:
                least, best = wires, step
            elif least > _NEAR and step - best > _PATIENCE:
                raise GivenUpError(f"{least:,} shared wires are left, and do not get fewer")
            return f"placement {self.seed}: {wires:,} wires are shared after step {step}"

        return news

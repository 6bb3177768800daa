"""Regions are compiled until each of them becomes a program: what prevents one is left out."""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import torch
from numpy.typing import NDArray

from sw.frontends.delegates.compiling import Compiled, Load, compiled_region, loaded_region
from sw.frontends.delegates.regions import Flow, Region, split
from sw.torch_backend.options import Options
from sw.torch_backend.variant import NotCompiledError

Values = Callable[[Sequence[str]], list[list[NDArray[Any]]]]
"""For each calibrating call the values of these names."""

CONSTANT = "computed from constants and shapes"


class Search:
    """`run` finds the programs; `why` says of each other node why it is not in one.

    load: a region as a module. values: what calibrates it.
    """

    def __init__(
        self, flow: Flow, why: Mapping[int, str], load: Load, values: Values, options: Options
    ) -> None:
        self._flow, self._load, self._values, self._options = flow, load, values, options
        self.why = dict(why)
        self._done: dict[Region, Compiled] = {}

    def run(self) -> list[Compiled]:
        """The programs, in an order of execution."""
        while True:
            before = len(self.why)
            regions = split(self._flow, self.why)
            for region in regions:
                if region not in self._done:
                    self._compile(region)
            if len(self.why) == before:
                found = [self._done[region] for region in regions]
                return [each.named(f"npu_{i}") for i, each in enumerate(found)]

    def _compile(self, region: Region) -> None:
        attempt = loaded_region(region, self._load)
        if isinstance(attempt, dict):
            self.why.update(attempt)
            return
        calls = [[torch.from_numpy(a) for a in call] for call in self._values(attempt.inputs)]
        made = compiled_region(attempt, self._options, calls)
        if isinstance(made, dict):
            self.why.update(made)
        else:
            self._done[region] = made

    def rows(
        self,
        nodes: Sequence[tuple[str, str]],
        constants: Collection[int],
        programs: Sequence[Compiled],
    ) -> list[dict[str, str]]:
        """Where each node runs, and why, as `node_table` takes it.

        nodes: (name, operator) of each. constants: positions of those that no input reaches.
        """
        where = {i: each.payload.name for each in programs for i in each.region.own}
        where |= dict.fromkeys(constants, "constant")
        why = {**self.why, **dict.fromkeys(constants, CONSTANT)}
        return [
            {
                "where": where.get(i, "cpu"),
                "name": name,
                "target": kind,
                "module": "",
                "source": "",
                "reason": why.get(i, ""),
            }
            for i, (name, kind) in enumerate(nodes)
        ]


def require_npu(rows: Sequence[Mapping[str, str]], options: Options, framework: str) -> None:
    """`NotCompiledError` for a row of `node_table` that is on the CPU, without fallback."""
    for row in rows if not options.fallback else ():
        if row["where"] == "cpu":
            raise NotCompiledError(
                f"{row['name']} ({row['target']}) cannot run on the NPU: {row['reason']}\n"
                f"  hint: fallback=True leaves it to {framework}"
            )

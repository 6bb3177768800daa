"""Resources: what a task needs of its worker, and what the workers of this machine offer.

They are Dask's abstract resources: a worker declares them when it starts, and a task holds its
share while it runs. `rtl`: a build or run of Verilator. `synth`: a synthesis. `memory`: bytes, for
tasks with a limit of memory.
"""

from collections.abc import Mapping

import psutil

from sw.results.task import Task

RTL, SYNTH, MEMORY = "rtl", "synth", "memory"

Resources = Mapping[str, float]

_BY_KIND: Mapping[str, tuple[str, ...]] = {
    "build": (RTL,),
    "lint": (RTL,),
    "programs": (RTL,),
    "mutant": (RTL,),
    "synth": (SYNTH,),
    "netlist": (RTL, SYNTH),
    "energy": (RTL, SYNTH),
}
"""Kinds of tasks whose device does not say it."""


def needs_of(task: Task) -> dict[str, float]:
    """What the task holds while it runs; memory in bytes."""
    names = {*_BY_KIND.get(task.kind.value, ()), *((RTL,) if task.device == "rtl" else ())}
    needs = dict.fromkeys(sorted(names), 1.0)
    if task.memory_limit_mib:
        needs[MEMORY] = float(task.memory_limit_mib << 20)
    return needs


def share_of_machine(jobs: int) -> dict[str, float]:
    """What each of `jobs` workers of this machine offers: its share of the memory in bytes."""
    return {RTL: 1.0, SYNTH: 1.0, MEMORY: float(psutil.virtual_memory().total // jobs)}


def missing(needs: Resources, offers: Resources) -> list[str]:
    """Names of what `offers` has too little of."""
    return [name for name, amount in needs.items() if offers.get(name, 0.0) < amount]


def shown(name: str, amount: float) -> str:
    """`rtl=1`, `memory=8,192 MiB`."""
    return f"memory={int(amount) >> 20:,} MiB" if name == MEMORY else f"{name}={amount:g}"

"""Suites: YAML files that say which workloads run on which configurations, devices, memories.

Besides the files in `suites/` beside this module, any file of that form can be run. Its keys:

    description   text
    limit_s       seconds that a run may take (600); build_limit_s: a simulator's build (1800)
    memory_limit_mib   memory that a run may take (0: any)
    entries       a list; each is the product of its lists:
      workloads     kernels with shapes, networks: [matmul:3x17x65, digits]
      networks      all, or names and groups of them: [nets, wide, transformers, bert_tiny]
      without       names of networks to leave out of groups
      random        how many random kernels, drawn per configuration and seed: of what it has
      programs      random programs on the RTL, in multiples of the test's own count
      conformance   official TOSA tests: how many per operator, drawn by the seed, or names
      operators     which operators that takes (all)
      configs       presets, changed with `+`: [tiny, default+bus_bytes=32]
      devices       [golden, rtl] if left out
      memories      of the RTL, a run for each: {latency: 100, stall: 0.3}, {kind: ddr4}, random
      seeds         a list, or how many from 0 on (1)
      limit_s       of this entry's runs; memory_limit_mib: the same
"""

from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from spec.config import NpuConfig
from spec.names import did_you_mean
from sw.campaign.measures.conformance import check_config, named_workloads, sample_workloads
from sw.campaign.plan import (
    BUILD_LIMIT_S,
    Plan,
    build_tasks,
    config_of,
    memory_of,
    unique,
    with_build,
)
from sw.campaign.workloads import GROUPS, check_workloads, kernel_text, network_names
from sw.campaign.yamlfile import Node, read_yaml
from sw.models.random_kernels import random_case
from sw.results.task import CampaignError, Kind, Task
from sw.runtime.session import DEVICES

SUITES = Path(__file__).with_name("suites")
LIMIT_S = 600.0
MOST_RUNS = 20_000
"""Runs of a plan. More is a slip of the pen: the shortest takes a tenth of a second."""


def suite_names() -> list[str]:
    """The suites that come with this release."""
    return sorted(path.stem for path in SUITES.glob("*.yaml"))


def load_suite(name: str, *, only: str = "", limit_s: float | None = None) -> Plan:
    """The plan of a suite: a name of `suite_names()`, or a file.

    only: keep runs whose title has this text, and what they need. limit_s: of every run, instead
    of the file's. `CampaignError` if there is no such suite or something is wrong in it.
    """
    path = SUITES / f"{name}.yaml" if name in suite_names() else Path(name)
    if not path.exists():
        known = ", ".join(suite_names())
        near = did_you_mean(name, suite_names())
        raise CampaignError(f"suite {name!r}: no such suite or file{near}; suites are {known}")
    root = read_yaml(path)
    root.keys("description", "limit_s", "build_limit_s", "memory_limit_mib", "entries")
    default = root.number("limit_s", LIMIT_S)
    memory = root.whole("memory_limit_mib", 0)
    runs: list[Task] = []
    for entry in root.nodes("entries"):
        limit_mib = entry.whole("memory_limit_mib", memory)
        for task in _entry(entry, default):
            if len(runs) == MOST_RUNS:
                raise entry.error(f"more than {MOST_RUNS:,} runs; each takes seconds")
            runs.append(replace(task, memory_limit_mib=limit_mib))
    runs = [t for t in unique(runs) if only in t.title]
    if limit_s is not None:
        runs = [_limited(t, limit_s) for t in runs]
    builds = build_tasks(runs, root.number("build_limit_s", BUILD_LIMIT_S))
    return Plan(name=path.stem, tasks=(*builds, *(with_build(t) for t in runs)))


def _limited(task: Task, limit_s: float) -> Task:
    return replace(task, limit_s=limit_s)


_ENTRY = (
    *("workloads", "networks", "without", "random", "programs", "conformance", "operators"),
    *("configs", "devices", "memories", "seeds", "limit_s"),
    "memory_limit_mib",
)


def _entry(entry: Node, default_limit: float) -> Iterator[Task]:
    entry.keys(*_ENTRY)
    limit = entry.number("limit_s", default_limit)
    devices = entry.texts("devices", ["golden", "rtl"])
    for device in devices:
        if device not in DEVICES:
            raise entry.error(f"device {device!r}: must be one of {', '.join(DEVICES)}")
    fixed = [*check_workloads(entry.texts("workloads"))] if entry.has("workloads") else []
    fixed += _networks(entry)
    count, programs = entry.whole("random", 0, MOST_RUNS), entry.whole("programs", 0, MOST_RUNS)
    official = _conformance(entry)
    if not (fixed or count or programs or official):
        raise entry.error("has no workloads, networks, random, programs or conformance")
    for config in [config_of(text) for text in entry.texts("configs")]:
        for seed in _seeds(entry):
            works = [*fixed, *_random(config, seed, count)]
            yield from _official(config, official, devices, seed, limit)
            for device, work in product(devices, works):
                task = Task(
                    kind=Kind.RUN,
                    config=config,
                    workload=work,
                    device=device,
                    seed=seed,
                    limit_s=limit,
                )
                for memory in _memories(entry, task):
                    yield replace(task, **memory)
            if programs:
                yield Task(
                    kind=Kind.PROGRAMS,
                    config=config,
                    workload=f"programs:{programs}",
                    device="rtl",
                    seed=seed,
                    limit_s=limit,
                )


def _networks(entry: Node) -> list[str]:
    if not entry.has("networks"):
        return []
    names = network_names()
    if entry.value("networks") != "all":
        names = [n for text in entry.texts("networks") for n in GROUPS.get(text, (text,))]
    left_out = entry.texts("without", [])
    for name in left_out:
        if name not in names:
            raise entry.error(
                f"without {name!r}: not among the networks{did_you_mean(name, names)}"
            )
    return check_workloads([name for name in names if name not in left_out])


def _conformance(entry: Node) -> list[str]:
    """The workloads of official tests that an entry asks for."""
    if not entry.has("conformance") or isinstance(entry.value("conformance"), int):
        operators = entry.texts("operators", [])
        return sample_workloads(entry.whole("conformance", 0, MOST_RUNS), operators)
    if entry.has("operators"):
        raise entry.error("operators: conformance has names of tests, which say their operators")
    return named_workloads(entry.texts("conformance"))


def _official(
    config: NpuConfig, works: list[str], devices: list[str], seed: int, limit: float
) -> Iterator[Task]:
    if works:
        check_config(config)
    for device, work in product(devices, works):
        yield Task(
            kind=Kind.CONFORMANCE,
            config=config,
            workload=work,
            device=device,
            seed=seed,
            limit_s=limit,
        )


def _random(config: NpuConfig, seed: int, count: int) -> list[str]:
    rng = _generator(config, seed, "kernels")
    return [kernel_text(*random_case(rng, config)) for _ in range(count)]


def _seeds(entry: Node) -> list[int]:
    if not entry.has("seeds") or isinstance(entry.value("seeds"), int):
        return list(range(entry.whole("seeds", 1, MOST_RUNS)))
    return entry.wholes("seeds")


def _memories(entry: Node, task: Task) -> list[dict[str, Any]]:
    if task.device != "rtl" or task.config is None or not entry.has("memories"):
        return [{}]
    return [
        memory_of(node, _generator(task.config, task.seed, f"memory {i} of {task.workload}"))
        for i, node in enumerate(entry.nodes("memories"))
    ]


def _generator(config: NpuConfig, seed: int, purpose: str) -> np.random.Generator:
    """The same numbers for the same run of every plan."""
    return np.random.default_rng([seed, *f"{config.name} {purpose}".encode()])

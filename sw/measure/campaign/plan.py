"""Suites: YAML files that say which workloads run on which configurations, devices, memories.

Besides the files in `suites/` beside this module, any file of that form can be run. Its keys:

    description   text
    limit_s       seconds that a run may take (600); build_limit_s: a simulator's build (1800)
    entries       a list; each is the product of its lists:
      workloads     kernels with shapes, networks: [matmul:3x17x65, digits]
      networks      all, or names; every network of the release, or those
      random        how many random kernels, drawn per configuration and seed
      programs      random programs on the RTL, in multiples of the test's own count
      configs       presets, changed with `+`: [tiny, default+bus_bytes=32]
      devices       [golden, rtl] if left out
      memories      of the RTL: {latency: 100, stall: 0.3}, or random; a run for each (latency 100)
      seeds         a list, or how many from 0 on (1)
      limit_s       of this entry's runs
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from spec.config import NpuConfig, parse_settings, preset
from spec.names import did_you_mean
from sw.measure.campaign.task import CampaignError, Kind, Task
from sw.measure.campaign.workloads import check_workloads, kernel_text
from sw.measure.campaign.yamlfile import Node, read_yaml, shown
from sw.measure.targets import model_names
from sw.models.random_kernels import random_case
from sw.runtime.session import DEVICES

SUITES = Path(__file__).with_name("suites")
LIMIT_S, BUILD_LIMIT_S = 600.0, 1800.0
MOST_RUNS = 20_000
"""Runs of a plan. More is a slip of the pen: the shortest takes a tenth of a second."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A name for the campaign, and its tasks in the order in which they should run."""

    name: str
    tasks: tuple[Task, ...]


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
    root.keys("description", "limit_s", "build_limit_s", "entries")
    default = root.number("limit_s", LIMIT_S)
    runs: list[Task] = []
    for entry in root.nodes("entries"):
        for task in _entry(entry, default):
            if len(runs) == MOST_RUNS:
                raise entry.error(f"more than {MOST_RUNS:,} runs; each takes seconds")
            runs.append(task)
    runs = [t for t in unique(runs) if only in t.title]
    if limit_s is not None:
        runs = [_limited(t, limit_s) for t in runs]
    builds = build_tasks(runs, root.number("build_limit_s", BUILD_LIMIT_S))
    return Plan(name=path.stem, tasks=(*builds, *(with_build(t) for t in runs)))


def unique(tasks: Sequence[Task]) -> list[Task]:
    """Each task once, the first of equals."""
    first: dict[str, Task] = {}
    for task in tasks:
        first.setdefault(task.key, task)
    return list(first.values())


def build_tasks(runs: Sequence[Task], limit_s: float) -> list[Task]:
    """What makes the simulators that `runs` need, one per configuration."""
    configs = {t.digest: t.config for t in runs if t.device == "rtl"}
    return [build_task(config, limit_s) for config in configs.values() if config is not None]


def build_task(config: NpuConfig, limit_s: float = BUILD_LIMIT_S, needs: str = "") -> Task:
    needed = (needs,) if needs else ()
    return Task(kind=Kind.BUILD, config=config, limit_s=limit_s, needs=needed)


def with_build(task: Task) -> Task:
    """`task`, which on RTL needs its simulator."""
    if task.device != "rtl" or task.config is None:
        return task
    return replace(task, needs=(*task.needs, build_task(task.config).key))


def _limited(task: Task, limit_s: float) -> Task:
    return replace(task, limit_s=limit_s)


def config_of(text: str) -> NpuConfig:
    """`default+rows=8+cols=8`: a preset with changes; `ConfigError` if it is illegal."""
    name, *settings = text.split("+")
    return preset(name).with_settings(parse_settings(settings))


_ENTRY = (
    *("workloads", "networks", "random", "programs"),
    *("configs", "devices", "memories", "seeds", "limit_s"),
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
    if not (fixed or count or programs):
        raise entry.error("has no workloads, networks, random or programs")
    for config in [config_of(text) for text in entry.texts("configs")]:
        for seed in _seeds(entry):
            works = [*fixed, *_random(config, seed, count)]
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
    if entry.value("networks") == "all":
        return model_names()
    return check_workloads(entry.texts("networks"))


def _random(config: NpuConfig, seed: int, count: int) -> list[str]:
    rng = _generator(config, seed, "kernels")
    return [kernel_text(*random_case(rng)) for _ in range(count)]


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


def memory_of(node: Node, rng: np.random.Generator) -> dict[str, Any]:
    """Latency and stall probability that a suite or space asks for."""
    if node.plain == "random":
        return {
            "latency": int(rng.integers(1, 401)),
            "stall": round(float(rng.uniform(0, 0.5)), 3) if rng.random() < 0.7 else 0.0,
        }
    if not isinstance(node.plain, Mapping):
        raise node.error(
            f"{shown(node.plain)}: must be random or like {{latency: 100, stall: 0.3}}"
        )
    node.keys("latency", "stall")
    latency, stall = node.whole("latency", 100), node.number("stall", 0.0)
    if latency < 1 or not 0 <= stall <= 0.95:
        raise node.error(f"{node.plain}: latency must be 1 or more, stall 0…0.95")
    return {"latency": latency, "stall": stall}


def _generator(config: NpuConfig, seed: int, purpose: str) -> np.random.Generator:
    """The same numbers for the same run of every plan."""
    return np.random.default_rng([seed, *f"{config.name} {purpose}".encode()])

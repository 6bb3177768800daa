"""What a campaign is made of: a plan of tasks, and how parts of it are said in YAML files."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from spec.config import NpuConfig, parse_settings, preset
from spec.dram import IDEAL, MEMORIES
from spec.names import did_you_mean
from sw.campaign.yamlfile import Node, shown
from sw.results.task import Kind, Task

BUILD_LIMIT_S = 1800.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A name for the campaign, and its tasks in the order in which they should run."""

    name: str
    tasks: tuple[Task, ...]


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


def config_of(text: str) -> NpuConfig:
    """`default+rows=8+cols=8`: a preset with changes; `ConfigError` if it is illegal."""
    name, *settings = text.split("+")
    return preset(name).with_settings(parse_settings(settings))


def memory_of(node: Node, rng: np.random.Generator) -> dict[str, Any]:
    """The fields of a task that say which memory a suite or space asks for."""
    if node.plain == "random":
        return {
            "latency": int(rng.integers(1, 401)),
            "stall": round(float(rng.uniform(0, 0.5)), 3) if rng.random() < 0.7 else 0.0,
        }
    if not isinstance(node.plain, Mapping):
        raise node.error(
            f"{shown(node.plain)}: must be random or like {{latency: 100, stall: 0.3}} or "
            "{kind: ddr4}"
        )
    node.keys("kind", "latency", "stall")
    kind = node.text("kind", IDEAL)
    if kind not in MEMORIES:
        near = did_you_mean(kind, MEMORIES)
        raise node.error(f"kind {kind!r}: must be one of {', '.join(MEMORIES)}{near}")
    latency, stall = node.whole("latency", 100), node.number("stall", 0.0)
    if latency < 1 or not 0 <= stall <= 0.95:
        raise node.error(f"{node.plain}: latency must be 1 or more, stall 0…0.95")
    if kind != IDEAL and node.has("latency"):
        raise node.error(f"latency {latency}: {kind} has its own latency; leave it out")
    return {"memory": kind, "latency": latency, "stall": stall}

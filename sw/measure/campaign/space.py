"""Spaces: YAML files that name hardware configurations to try. Their keys:

description   text
base          the preset that the others change (default)
axes          configuration fields, each with its values; the space is their product
points        more points, each a mapping of fields (and perhaps base)
workloads     what runs on each: [matmul:64x64x64, digits, my_model.safetensors]
memory        of the RTL: {latency: 100, stall: 0}
seed          of data and stalls (0)
limit_s       seconds that a run may take (1800); build_limit_s: lint and build (1800)
"""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from spec.config import ConfigError, NpuConfig, preset
from spec.names import did_you_mean
from sw.measure.campaign.plan import BUILD_LIMIT_S, Plan, build_task, memory_of, unique, with_build
from sw.measure.campaign.task import CampaignError, Kind, Task
from sw.measure.campaign.workloads import check_workloads
from sw.measure.campaign.yamlfile import Node, read_yaml, shown

MOST_POINTS = 4096
"""More is a slip of the pen: each point costs minutes."""
_LIMIT_S = 1800.0
_FIELDS = {f.name: f.type for f in dataclasses.fields(NpuConfig) if f.name != "name"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One combination: the preset, the changes, and the configuration or why there is none."""

    base: str
    changes: Mapping[str, int | bool]
    config: NpuConfig | None
    reason: str = ""

    @property
    def label(self) -> str:
        """`tiny+rows=8`: what the configuration is called."""
        return "+".join([self.base, *(f"{k}={v}" for k, v in self.changes.items())])


def load_space(path: Path, workloads: Sequence[str] = (), *, only: str = "") -> Plan:
    """The plan of a space: per legal point lint, build, then each workload on golden and RTL.

    workloads: instead of the file's. only: keep points whose name has this text. Points that are
    the same hardware are tried once. `CampaignError` if something is wrong in the file; an illegal
    point is none, but a task that says so.
    """
    root = read_yaml(path)
    root.keys(
        *("description", "base", "axes", "points", "workloads"),
        *("memory", "seed", "limit_s", "build_limit_s"),
    )
    works = check_workloads(list(workloads) or root.texts("workloads"))
    memory = memory_of(root.child("memory"), np.random.default_rng(0)) if root.has("memory") else {}
    plain = Task(
        kind=Kind.RUN,
        config=None,
        seed=root.whole("seed", 0),
        limit_s=root.number("limit_s", _LIMIT_S),
    )
    limit = root.number("build_limit_s", BUILD_LIMIT_S)
    tasks: list[Task] = []
    for point in [p for p in points(root) if only in p.label]:
        if point.config is None:
            reason = point.reason
            tasks.append(Task(kind=Kind.POINT, config=None, label=point.label, reason=reason))
            continue
        lint = Task(kind=Kind.LINT, config=point.config, limit_s=limit)
        tasks += [lint, build_task(point.config, limit, needs=lint.key)]
        for work in works:
            run = dataclasses.replace(plain, config=point.config, workload=work)
            tasks.append(dataclasses.replace(run, device="golden"))
            tasks.append(with_build(dataclasses.replace(run, device="rtl", **memory)))
    return Plan(name=path.stem, tasks=tuple(unique(tasks)))


def points(root: Node) -> list[Point]:
    """Every point of a space, the grid first."""
    base = root.text("base", "default")
    axes = root.child("axes") if root.has("axes") else Node({}, root.place)
    if not isinstance(axes.plain, Mapping):
        raise axes.error(f"{shown(axes.plain)}: must map fields to lists of values")
    values = {name: [_value(n, name) for n in axes.nodes(name)] for name in axes.plain}
    count = math.prod(map(len, values.values()))
    if count > MOST_POINTS:
        raise axes.error(f"{count:,} points: at most {MOST_POINTS:,}; each one costs minutes")
    grid = [
        dict(zip(values, combination, strict=True)) for combination in product(*values.values())
    ]
    found = [_point(root, base, changes) for changes in grid] if values else []
    if root.has("points") and len(root.nodes("points")) > MOST_POINTS:
        raise root.error(f"more than {MOST_POINTS:,} points; each one costs minutes")
    for node in root.nodes("points") if root.has("points") else []:
        node.keys("base", *_FIELDS)
        changes = {name: _value(node.child(name), name) for name in node.plain if name != "base"}
        found.append(_point(node, node.text("base", base), changes))
    if not found:
        raise root.error("has neither axes nor points")
    return found


def _point(node: Node, base: str, changes: Mapping[str, int | bool]) -> Point:
    try:
        start = preset(base)
    except ConfigError as error:
        raise node.error(str(error)) from None
    try:
        config = start.with_settings({name: str(value) for name, value in changes.items()})
    except ConfigError as error:
        return Point(base=base, changes=changes, config=None, reason=str(error))
    return Point(base=base, changes=changes, config=config)


def _value(node: Node, name: str) -> Any:
    """A value that the field can have as far as its type goes."""
    if name not in _FIELDS:
        raise CampaignError(
            f"{node.place}: {name!r}: no such configuration field{did_you_mean(name, _FIELDS)}; "
            f"fields are {', '.join(_FIELDS)}"
        )
    if type(node.plain) is not _FIELDS[name]:
        kind = "true or false" if _FIELDS[name] is bool else "a whole number"
        raise node.error(f"{shown(node.plain)}: {name} must be {kind}")
    return node.plain

"""Spaces: YAML files that name hardware configurations to try. Their keys:

description   text
base          the preset that the others change (default)
axes          configuration fields, each with its values: a list, {from: 4, to: 32, step: 4} or
              {from: 4, to: 32, times: 2}; the space is their product. `size` stands for rows and
              cols at once, `acc_vectors` for an acc_kib that holds so many vectors
points        more points, each a mapping of fields (and perhaps base)
workloads     what runs on each: [matmul:64x64x64, digits, my_model.safetensors]
cycles        rtl: of the simulated RTL (default); model: of the compiler's timing model
smoke         whether each point's RTL is linted, built and proven on small kernels (true)
synth         area and clock: {target: generic|ecp5|liberty, effort: quick|full|none, liberty: FILE}
energy        whether an inference's energy is sampled on the netlist (false)
objectives    what is sought, of sw/campaign/sweep/objectives.py: [area, rate]
memory        of the NPU: {latency: 100, stall: 0}, or {kind: ddr4}
seed          of data and stalls (0)
limit_s       seconds that a run may take (1800); build_limit_s: lint, build, synthesis (1800)
memory_limit_mib   memory that each of its tasks may take (0: any)
"""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from spec.config import ConfigError, NpuConfig, preset
from spec.dram import IDEAL
from sw.campaign.measures.prediction import check_memory
from sw.campaign.measures.synthesis import Synthesis
from sw.campaign.plan import BUILD_LIMIT_S, memory_of
from sw.campaign.sweep.axes import FIELDS, Choice, axis_values, changed_fields, point_value
from sw.campaign.sweep.objectives import Objective, check_objectives
from sw.campaign.workloads import check_workloads
from sw.campaign.yamlfile import Node, read_yaml, shown
from sw.results.task import CampaignError

MOST_POINTS = 4096
"""Of a grid. More is a slip of the pen: each point costs minutes. A search may have more."""
_LIMIT_S = 1800.0
_SHOWN_RULES = 4
RTL, MODEL = "rtl", "model"
_KEYS = (
    *("description", "base", "axes", "points", "workloads", "cycles", "smoke", "synth", "energy"),
    *("objectives", "memory", "seed", "limit_s", "build_limit_s"),
    "memory_limit_mib",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One combination: the preset, the changes, and the configuration or why there is none."""

    base: str
    changes: Choice
    config: NpuConfig | None
    reason: str = ""

    @property
    def label(self) -> str:
        """`tiny+rows=8`: what the configuration is called."""
        return "+".join([self.base, *(f"{k}={_plain(v)}" for k, v in self.changes.items())])


@dataclass(frozen=True, slots=True, kw_only=True)
class Space:
    """What a space file says, checked. points: those that it names besides its axes."""

    name: str
    place: str
    base: str
    axes: Mapping[str, Sequence[int | bool]]
    points: Sequence[Point]
    workloads: Sequence[str]
    cycles: str = RTL
    smoke: bool = True
    synth: Synthesis = field(default_factory=Synthesis)
    energy: bool = False
    objectives: Sequence[Objective] = ()
    memory: Mapping[str, Any] = field(default_factory=dict)
    seed: int = 0
    limit_s: float = _LIMIT_S
    build_limit_s: float = BUILD_LIMIT_S
    memory_limit_mib: int = 0

    @property
    def size(self) -> int:
        """Combinations of the axes, legal or not."""
        return math.prod(map(len, self.axes.values())) if self.axes else 0

    @property
    def only_models(self) -> bool:
        """Whether no measure of a point needs its RTL."""
        return self.cycles == MODEL and not (self.smoke or self.energy or self.synthesized)

    @property
    def synthesized(self) -> bool:
        return self.synth.effort != "none"

    def point(self, choice: Choice) -> Point:
        """The point of one value for each axis."""
        return point_of(self.base, changed_fields(preset(self.base), choice))

    def grid(self) -> Iterator[Point]:
        """Every combination of the axes, then the points that the file names.

        `CampaignError` if they are too many to try each.
        """
        if self.size > MOST_POINTS:
            raise CampaignError(
                f"{self.place}: axes: {self.size:,} points: at most {MOST_POINTS:,} are tried one "
                "by one; search them (--search nsga2), or leave some out"
            )
        for values in product(*self.axes.values()) if self.axes else ():
            yield self.point(dict(zip(self.axes, values, strict=True)))
        yield from self.points


def load_space(
    path: Path,
    workloads: Sequence[str] = (),
    *,
    cycles: str = "",
    objectives: Sequence[str] = (),
) -> Space:
    """The space of a file. workloads, cycles, objectives: instead of the file's.

    `CampaignError` if something is wrong in the file; an illegal point is none.
    """
    root = read_yaml(path)
    root.keys(*_KEYS)
    base = root.text("base", "default")
    try:
        preset(base)
    except ConfigError as error:
        raise root.error(str(error)) from None
    chosen = cycles or root.text("cycles", RTL)
    if chosen not in (RTL, MODEL):
        raise root.error(f"cycles {chosen!r}: must be {RTL} or {MODEL}")
    works = check_workloads(list(workloads) or root.texts("workloads"))
    space = Space(
        name=path.stem,
        place=root.place,
        base=base,
        axes=_axes(root),
        points=_points(root, base),
        workloads=works,
        cycles=chosen,
        smoke=_flag(root, "smoke", default=True),
        synth=_synthesis(root),
        energy=_flag(root, "energy", default=False),
        memory=_memory(root),
        seed=root.whole("seed", 0),
        limit_s=root.number("limit_s", _LIMIT_S),
        build_limit_s=root.number("build_limit_s", BUILD_LIMIT_S),
        memory_limit_mib=root.whole("memory_limit_mib", 0),
        objectives=check_objectives(list(objectives) or root.texts("objectives", []), works),
    )
    _check(space, root)
    return space


def all_illegal(place: str, points: Sequence[Point]) -> CampaignError:
    """The error that none of `points` is legal: the rules that they break, most frequent first."""
    first: dict[str, str] = {}
    for point in points:
        first.setdefault(point.reason.partition("=")[0], point.reason)
    counts = Counter(point.reason.partition("=")[0] for point in points)
    rules = [f"  {n:,} × {first[name]}" for name, n in counts.most_common(_SHOWN_RULES)]
    more = len(counts) - len(rules)
    text = "\n".join([*rules, *([f"  and {more} other rules"] if more else [])])
    return CampaignError(f"{place}: none of {len(points):,} points is legal:\n{text}")


def point_of(base: str, changes: Choice) -> Point:
    """The point of a preset with changed fields, legal or not."""
    try:
        settings = {name: _plain(value) for name, value in changes.items()}
        config = preset(base).with_settings(settings)
    except ConfigError as error:
        return Point(base=base, changes=changes, config=None, reason=str(error))
    return Point(base=base, changes=changes, config=config)


def _plain(value: int | bool) -> str:
    return str(value).lower()


def _check(space: Space, root: Node) -> None:
    if not space.axes and not space.points:
        raise root.error("has neither axes nor points")
    if space.cycles == MODEL:
        told = {"memory": IDEAL, "latency": 100, "stall": 0.0, **space.memory}
        check_memory(told["memory"], told["latency"], told["stall"])
    if space.energy and (not space.synthesized or space.synth.target == "ecp5"):
        raise root.error(
            "energy: is sampled on a netlist of cells; it needs synth with target generic or "
            "liberty, and effort quick or full"
        )
    if space.energy and not space.smoke:
        raise root.error("energy: needs RTL that is proven; leave smoke: false out")
    for objective in space.objectives:
        objective.check(space.synth, energy=space.energy)


def _axes(root: Node) -> dict[str, Sequence[int | bool]]:
    axes = root.child("axes") if root.has("axes") else Node({}, root.place)
    if not isinstance(axes.plain, Mapping):
        raise axes.error(f"{shown(axes.plain)}: must map fields to lists of values")
    found = {str(name): axis_values(axes, str(name)) for name in axes.plain}
    for name in ("rows", "cols"):
        if "size" in found and name in found:
            raise axes.error(f"size stands for rows and cols; leave {name} out")
    if "acc_vectors" in found and "acc_kib" in found:
        raise axes.error("acc_vectors stands for acc_kib; leave one of them out")
    return found


def _points(root: Node, base: str) -> list[Point]:
    if not root.has("points"):
        return []
    nodes = root.nodes("points")
    if len(nodes) > MOST_POINTS:
        raise root.error(f"more than {MOST_POINTS:,} points; each one costs minutes")
    found = []
    for node in nodes:
        node.keys("base", *FIELDS)
        changes = {
            name: point_value(node.child(name), name) for name in node.plain if name != "base"
        }
        own = node.text("base", base)
        try:
            preset(own)
        except ConfigError as error:
            raise node.error(str(error)) from None
        found.append(point_of(own, changes))
    return found


def _memory(root: Node) -> dict[str, Any]:
    return memory_of(root.child("memory"), np.random.default_rng(0)) if root.has("memory") else {}


def _synthesis(root: Node) -> Synthesis:
    if not root.has("synth"):
        return Synthesis()
    node = root.child("synth")
    node.keys("target", "effort", "liberty")
    texts = node.text("target", "generic"), node.text("effort", "quick"), node.text("liberty", "")
    try:
        return Synthesis.checked(*texts)
    except CampaignError as error:
        raise node.error(str(error)) from None


def _flag(root: Node, name: str, *, default: bool) -> bool:
    value = root.plain.get(name, default)
    if type(value) is not bool:
        raise root.error(f"{name} {shown(value)}: must be true or false")
    return value

"""What is done at each point of a space, as tasks."""

from collections.abc import Iterable
from dataclasses import replace

from spec.config import NpuConfig
from spec.dram import IDEAL
from sw.campaign.plan import Plan, build_task, unique, with_build
from sw.campaign.sweep.space import MODEL, Point, Space, all_illegal
from sw.results.task import Kind, Task

SMOKE = ("matmul:9x17x11", "conv2d:h=7,w=5,c=9,oc=10,k=3,p=1")
"""What proves the RTL of every point, whatever its cycles come from: sizes that are no multiple of
an array's, in the form in which `check_workload` names them."""


def grid_plan(space: Space, *, only: str = "") -> Plan:
    """Every point of a space, once if several are the same hardware; `CampaignError` if all are
    illegal. only: points whose name has this text.
    """
    points = list(space.grid())
    if all(point.config is None for point in points):
        raise all_illegal(space.place, points)
    chosen = [point for point in points if only in point.label]
    return Plan(name=space.name, tasks=tasks_of(space, chosen))


def tasks_of(space: Space, points: Iterable[Point]) -> tuple[Task, ...]:
    """The tasks of some points, each task once, in the order in which they should run."""
    tasks: list[Task] = []
    for point in points:
        if point.config is None:
            reason = point.reason
            tasks.append(Task(kind=Kind.POINT, config=None, label=point.label, reason=reason))
        else:
            tasks += point_tasks(space, point.config)
    return tuple(unique(tasks))


def point_tasks(space: Space, config: NpuConfig) -> list[Task]:
    """Of one legal point: lint, build, smoke, each workload, synthesis and energy.

    The smoke stands before all that takes long.
    """
    limit = space.build_limit_s
    plain = Task(
        kind=Kind.RUN,
        config=config,
        seed=space.seed,
        limit_s=space.limit_s,
        memory_limit_mib=space.memory_limit_mib,
    )
    on_rtl = replace(plain, device="rtl", **space.memory)
    # A task on another device than the RTL has no memory in its key.
    kind = on_rtl.memory
    device = "model" if kind == IDEAL else f"model-{kind}"
    on_model = replace(on_rtl, kind=Kind.PREDICT, device=device)
    tasks: list[Task] = []
    proven: tuple[str, ...] = ()
    if space.smoke or space.cycles != MODEL:
        lint = Task(kind=Kind.LINT, config=config, limit_s=limit)
        tasks += [lint, build_task(config, limit, needs=lint.key)]
    if space.smoke:
        smoke = [with_build(replace(on_rtl, workload=work)) for work in SMOKE]
        proven = tuple(task.key for task in smoke)
        tasks += smoke
    for work in space.workloads:
        if space.cycles == MODEL:
            tasks.append(replace(on_model, workload=work))
            continue
        tasks.append(replace(plain, workload=work, device="golden"))
        run = with_build(replace(on_rtl, workload=work))
        tasks.append(run if run.key in proven else replace(run, needs=(*run.needs, *proven)))
    cells = replace(on_rtl, device=space.synth.device, limit_s=limit, needs=proven)
    if space.synthesized:
        tasks.append(replace(cells, kind=Kind.SYNTH))
    if space.energy:
        netlist = replace(cells, kind=Kind.NETLIST)
        sampled = replace(cells, kind=Kind.ENERGY, needs=(*proven, netlist.key))
        tasks += [netlist, *(replace(sampled, workload=work) for work in space.workloads)]
    return tasks

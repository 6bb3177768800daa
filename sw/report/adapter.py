"""The page's records from the rows of campaigns: the only place that knows both."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from spec.config import PRESETS, NpuConfig
from sw.campaign.summary import column, is_quarantined, repeat_command
from sw.report.data import Failure, Measurement, Mismatch, Point
from sw.results.store import Run
from sw.results.task import Kind, Outcome, Status, Task

_NOT_BAD = (Status.PASSED, Status.WAITING, Status.RUNNING, Status.ILLEGAL)
_OWN = ("area_ge", "fmax_mhz", "critical_ns", "sram_bits", "blocks")
"""Figures of a synthesis that are fields of a point; the others are in its `synth`."""


def points_of(campaign: int, runs: Sequence[Run]) -> tuple[list[Point], dict[str, dict[str, Any]]]:
    """(the points of a sweep in the order of its rows, the configurations that they change)."""
    groups: dict[str, list[Run]] = {}
    for run in runs:
        groups.setdefault(run.task.digest or run.task.label, []).append(run)
    bases: dict[str, dict[str, Any]] = {}
    sought = _sought(runs)
    points = []
    for members in groups.values():
        task = members[0].task
        if task.config is None:
            mark = f"c{campaign}-{task.label}"
            points.append(
                Point(id=mark, campaign=campaign, label=task.label, reason=task.reason or "illegal")
            )
            continue
        base = _base(task.config)
        bases.setdefault(base.name, _fields(base))
        points.append(_point(campaign, task.config, base, members, sought))
    return points, bases


def _base(config: NpuConfig) -> NpuConfig:
    """The preset that the name begins with; the configuration itself if it is none."""
    return PRESETS.get(config.name.partition("+")[0], config)


def _fields(config: NpuConfig) -> dict[str, Any]:
    return {name: value for name, value in asdict(config).items() if name != "name"}


def _sought(runs: Sequence[Run]) -> list[str]:
    """The workloads of a space. Golden or the model has each; what only RTL has proves the RTL."""
    names = [r.task.workload for r in runs if r.task.device in ("golden", "model")]
    return list(dict.fromkeys(names or [r.task.workload for r in runs if r.task.workload]))


def _point(
    campaign: int, config: NpuConfig, base: NpuConfig, runs: Sequence[Run], sought: Sequence[str]
) -> Point:
    before = _fields(base)
    synth = _figures(runs, "synth")
    small = config.param_bytes + config.table_bytes
    return Point(
        id=f"c{campaign}-{config.digest_hex}",
        campaign=campaign,
        label=config.name,
        base=base.name,
        changes={k: v for k, v in _fields(config).items() if v != before[k]},
        digest=config.digest_hex,
        pes=config.pes,
        bus_bytes=config.bus_bytes,
        memory_kib=config.spad_kib + config.acc_kib + small / 1024,
        area_ge=synth.get("area_ge"),
        fmax_mhz=synth.get("fmax_mhz"),
        critical_ns=synth.get("critical_ns"),
        sram_bits=synth.get("sram_bits"),
        blocks={str(k): float(v) for k, v in (synth.get("blocks") or {}).items()},
        synth={k: v for k, v in synth.items() if k not in _OWN and v is not None},
        notes=tuple(_notes(runs, sought)),
        measurements=tuple(_measurements(runs, sought)),
        command=f"systola config show {config.options}",
    )


def _figures(runs: Sequence[Run], kind: str) -> Mapping[str, Any]:
    """What the passed tasks of a kind measured."""
    found: dict[str, Any] = {}
    for run in runs:
        if run.task.kind == kind and run.status is Status.PASSED and run.outcome is not None:
            found |= run.outcome.figures
    return found


def _notes(runs: Sequence[Run], sought: Sequence[str]) -> list[str]:
    """What went wrong at the point besides its workloads: lint, build, smoke, synthesis."""
    return [
        f"{run.task.title}: {column(run.status)}" + (f": {_message(run)}" if _message(run) else "")
        for run in runs
        if run.task.workload not in sought and run.status not in _NOT_BAD
    ]


def _measurements(runs: Sequence[Run], sought: Sequence[str]) -> list[Measurement]:
    own = {name: [run for run in runs if run.task.workload == name] for name in sought}
    return [_measured(name, members) for name, members in own.items() if members]


def _measured(workload: str, runs: Sequence[Run]) -> Measurement:
    """One workload from its rows. Cycles count only where every one of them passed.

    A figure of the RTL goes before one of the compiler's model.
    """
    bad = next((run for run in runs if run.status is not Status.PASSED), None)
    rtl = next((run for run in runs if run.task.device == "rtl"), None)
    shown = bad or rtl or runs[0]
    found = _of_model(runs) | _of_rtl(rtl)
    if bad is not None:
        found = {}
    return Measurement(
        workload=workload,
        status=column(shown.status),
        energy_uj=_figures(runs, "energy").get("energy_uj"),
        message=_message(shown) if bad else "",
        mismatch=mismatch_of(shown.outcome),
        quarantine=_quarantine(shown),
        command=_command(shown.task),
        **found,
    )


def _command(task: Task) -> str:
    """What does the same once more; a run on golden says what the compiler predicts."""
    if task.kind is Kind.PREDICT:
        task = replace(task, kind=Kind.RUN, device="golden")
    return repeat_command(task)


def _of_model(runs: Sequence[Run]) -> dict[str, Any]:
    """What the compiler's model predicts."""
    figures = _figures(runs, "predict")
    cycles = figures.get("predicted_cycles")
    if cycles is None:
        return {}
    macs = next((run.outcome.macs for run in runs if run.outcome and run.outcome.macs), None)
    return {
        "cycles": cycles,
        "predicted": True,
        "error_pct": figures.get("error_pct"),
        "predicted_cycles": cycles,
        "macs": macs,
        "read_bytes": figures.get("read_bytes"),
        "write_bytes": figures.get("write_bytes"),
    }


def _of_rtl(run: Run | None) -> dict[str, Any]:
    """What the hardware counted."""
    outcome = run.outcome if run else None
    if outcome is None or not outcome.cycles:
        return {}
    found: dict[str, Any] = {
        "cycles": outcome.cycles,
        "predicted": False,
        "error_pct": None,
        "macs": outcome.macs,
        "read_bytes": outcome.read_bytes,
        "write_bytes": outcome.write_bytes,
        "counters": outcome.counters,
    }
    predicted = outcome.predicted_cycles or outcome.figures.get("predicted_cycles")
    return found | ({"predicted_cycles": predicted} if predicted else {})


def failure_of(campaign: int, run: Run) -> Failure | None:
    """The run as a failure; None if it is good, illegal or not done."""
    if run.status in _NOT_BAD:
        return None
    task = run.task
    return Failure(
        campaign=campaign,
        title=task.title,
        kind=task.kind.value,
        workload=task.workload,
        config=task.config_name,
        device=task.device,
        status=column(run.status),
        message=_message(run),
        mismatch=mismatch_of(run.outcome),
        quarantine=_quarantine(run),
        command=repeat_command(task),
    )


def mismatch_of(outcome: Outcome | None) -> Mismatch | None:
    found = outcome.mismatch if outcome else None
    if not found:
        return None
    number = found.get("instruction")
    return Mismatch(
        instruction=number if isinstance(number, int) else None,
        **{
            name: "" if found.get(name) is None else str(found[name])
            for name in ("layer", "text", "element", "expected", "got")
        },
    )


def _quarantine(run: Run) -> str:
    """Why the failure does not count; empty where it does, or where there is none."""
    return run.task.quarantine if is_quarantined(run) else ""


def _message(run: Run) -> str:
    return run.outcome.message if run.outcome else ""

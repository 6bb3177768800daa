"""What a campaign came to: counts, everything that is not good, an exit code."""

import shlex
from collections import Counter
from collections.abc import Sequence
from typing import Any

from sw.measure.campaign.store import Run
from sw.measure.campaign.task import Kind, Status, Task
from sw.measure.campaign.workloads import file_name
from sw.models.kernels import kernel_names
from sw.runtime.session import DeviceOptions
from sw.runtime.tables import FittedTable, left, right

_NOT_RUN = (Status.WAITING, Status.RUNNING, Status.BLOCKED)
_COLUMNS = ("passed", "failed", "timed out", "error", "did not run")


def column(status: Status) -> str:
    """Under which heading a status counts."""
    if status in _NOT_RUN:
        return "did not run"
    return {Status.TIMEOUT: "timed out"}.get(status, status.value)


def count(runs: Sequence[Run]) -> Counter[str]:
    """How many of each: passed, failed, timed out, error, did not run, illegal."""
    return Counter(column(run.status) for run in runs)


def exit_code(runs: Sequence[Run]) -> int:
    """0 if there are runs and every one that is legal passed, else 1."""
    counts = count(runs)
    return 0 if counts["passed"] and counts["passed"] + counts["illegal"] == len(runs) else 1


def status_table(runs: Sequence[Run]) -> FittedTable:
    """Counts by configuration and device."""
    table = FittedTable([left("configuration", fold=14), left("device"), *map(right, _COLUMNS)])
    groups: dict[tuple[str, str], list[Run]] = {}
    for run in runs:
        if run.task.kind is not Kind.POINT:
            device = run.task.device or run.task.kind.value
            groups.setdefault((run.task.config_name, device), []).append(run)
    for (config, device), members in groups.items():
        counts = count(members)
        table.add_row(config, device, *(str(counts[name] or "–") for name in _COLUMNS))
    return table


def complaints(runs: Sequence[Run]) -> list[str]:
    """Every run that is not good, with its message and how to repeat it."""
    lines = []
    for run in runs:
        if run.status in (Status.PASSED, Status.WAITING, Status.RUNNING):
            continue
        head = f"{column(run.status).upper()}  {run.task.title}"
        message = run.outcome.message if run.outcome else ""
        lines += [head, *(f"    {line}" for line in message.splitlines())]
        command = repeat_command(run.task)
        if command and run.status in (Status.FAILED, Status.TIMEOUT, Status.ERROR):
            lines.append(f"    repeat: {command}")
    return lines


def verdict(what: str, runs: Sequence[Run], seconds: float, where: str) -> str:
    """The last line: every count, so that nothing is left to guess."""
    counts = count(runs)
    parts = [f"{counts[name]} {name}" for name in _COLUMNS]
    if counts["illegal"]:
        parts.append(f"{counts['illegal']} illegal")
    bad = counts["failed"] + counts["timed out"] + counts["error"]
    word = "PASS" if exit_code(runs) == 0 else "FAIL" if bad else "INCOMPLETE"
    return f"{word}  {what}: {', '.join(parts)} of {len(runs)}, {seconds:.0f} s; {where}"


def repeat_command(task: Task) -> str:
    """The command that does the same once more, outside a campaign."""
    if task.config is None or task.kind is not Kind.RUN:
        return ""
    name, _, shape = task.workload.partition(":")
    command = ["systola"]
    if name in kernel_names():
        command += ["sim", name, *(["--shape", shape] if shape else []), "--seed", str(task.seed)]
    else:
        command += ["run", file_name(name) or name, "--limit", str(task.seed + 1)]
    command += [*task.config.options.split(), "--device", task.device]
    plain = DeviceOptions()
    if task.device == "golden":
        command.append("--verify")
    elif (task.latency, task.stall) != (plain.latency, plain.stall):
        command += ["--latency", str(task.latency), "--stall", str(task.stall)]
    return shlex.join(command)


def to_json(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """Every row, for other programs."""
    rows = []
    for run in runs:
        task, outcome = run.task, run.outcome
        rows.append(
            {
                "kind": task.kind.value,
                "workload": task.workload,
                "device": task.device,
                "config": task.config_name,
                "config_digest": task.digest,
                "seed": task.seed,
                "latency": task.latency,
                "stall": task.stall,
                "status": run.status.value,
                "started_at": run.started_at,
                "finished_at": run.finished_at,
                **({} if outcome is None else outcome.to_json()),
            }
        )
    return rows

"""What a campaign came to: counts, everything that is not good, an exit code."""

import shlex
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from spec.config import NpuConfig
from spec.errors import SystolaError
from sw.campaign.workloads import file_name
from sw.models.kernels import kernel_names
from sw.results.store import Run
from sw.results.task import Kind, Status, Task
from sw.runtime.session import DeviceOptions
from sw.runtime.tables import FittedTable, left, right

_BAD = (Status.FAILED, Status.TIMEOUT, Status.ERROR)
_NOT_RUN = (Status.WAITING, Status.RUNNING, Status.BLOCKED)
_COLUMNS = ("passed", "failed", "timed out", "error", "did not run")


def is_quarantined(run: Run) -> bool:
    """Whether it did not pass, which is known and does not count."""
    return bool(run.task.quarantine) and run.status in _BAD


def column(status: Status) -> str:
    """Under which heading a status counts."""
    if status in _NOT_RUN:
        return "did not run"
    return {Status.TIMEOUT: "timed out"}.get(status, status.value)


def heading(run: Run) -> str:
    """Under which heading a row counts."""
    return "quarantined" if is_quarantined(run) else column(run.status)


def count(runs: Sequence[Run]) -> Counter[str]:
    """How many of each: passed, failed, timed out, error, did not run, quarantined, illegal."""
    return Counter(heading(run) for run in runs)


def exit_code(runs: Sequence[Run]) -> int:
    """0 if there are runs and every one passed that is legal and not quarantined, else 1."""
    counts = count(runs)
    good = counts["passed"] + counts["quarantined"]
    return 0 if good and good + counts["illegal"] == len(runs) else 1


def status_table(runs: Sequence[Run]) -> FittedTable:
    """Counts by configuration and device."""
    columns = [*_COLUMNS, *(["quarantined"] if any(map(is_quarantined, runs)) else [])]
    table = FittedTable([left("configuration", fold=14), left("device"), *map(right, columns)])
    groups: dict[tuple[str, str], list[Run]] = {}
    for run in runs:
        if run.task.kind is not Kind.POINT:
            device = run.task.device or run.task.kind.value
            groups.setdefault((run.task.config_name, device), []).append(run)
    for (config, device), members in groups.items():
        counts = count(members)
        table.add_row(config, device, *(str(counts[name] or "–") for name in columns))
    return table


def complaints(runs: Sequence[Run]) -> list[str]:
    """Every run that is not good, with its message and how to repeat it."""
    lines = []
    for run in runs:
        if run.status in (Status.PASSED, Status.WAITING, Status.RUNNING):
            continue
        head = f"{heading(run).upper()}  {run.task.title}"
        message = run.outcome.message if run.outcome else ""
        lines += [head, *(f"    {line}" for line in message.splitlines())]
        if is_quarantined(run):
            lines.append(f"    {run.status.value}, quarantined: {run.task.quarantine}")
        command = repeat_command(run.task)
        if command and run.status in _BAD:
            lines.append(f"    repeat: {command}")
    return lines


def verdict(what: str, runs: Sequence[Run], seconds: float, where: str) -> str:
    """The last line: every count, so that nothing is left to guess."""
    counts = count(runs)
    parts = [f"{counts[name]} {name}" for name in _COLUMNS]
    parts += [f"{counts[n]} {n}" for n in ("quarantined", "illegal") if counts[n]]
    bad = counts["failed"] + counts["timed out"] + counts["error"]
    word = "PASS" if exit_code(runs) == 0 else "FAIL" if bad else "INCOMPLETE"
    return f"{word}  {what}: {', '.join(parts)} of {len(runs)}, {seconds:.0f} s; {where}"


def repeat_command(task: Task) -> str:
    """The command that does the same once more, outside a campaign."""
    if task.config is None or task.kind not in _REPEATS:
        return ""
    return _REPEATS[task.kind](task, task.config)


def _repeat_run(task: Task, config: NpuConfig) -> str:
    name, _, shape = task.workload.partition(":")
    command = ["systola"]
    if name in kernel_names():
        command += ["sim", name, *(["--shape", shape] if shape else []), "--seed", str(task.seed)]
    else:
        command += ["run", file_name(name) or name, "--limit", str(task.seed + 1)]
    command += [*config.options.split(), "--device", task.device]
    plain = DeviceOptions()
    if task.device == "golden":
        command.append("--verify")
    elif task.memory != plain.memory:
        command += ["--memory", task.memory, *(["--stall", str(task.stall)] if task.stall else [])]
    elif (task.latency, task.stall) != (plain.latency, plain.stall):
        command += ["--latency", str(task.latency), "--stall", str(task.stall)]
    return shlex.join(command)


def _repeat_programs(task: Task, config: NpuConfig) -> str:
    settings = {
        "SYSTOLA_RANDOM": task.workload.partition(":")[2] or "1",
        "SYSTOLA_RANDOM_FIRST": str(task.seed),
        "SYSTOLA_RANDOM_CONFIGS": config.name,
    }
    words = " ".join(f"{name}={value}" for name, value in settings.items())
    return f"{words} python -m pytest -q -m rtl tests/test_random_rtl.py"


def _repeat_conformance(task: Task, config: NpuConfig) -> str:
    operator = task.workload.split(":")[1]
    command = ["systola", "conformance", operator, "--config", config.name]
    return shlex.join([*command, "--device", task.device])


_REPEATS: Mapping[Kind, Callable[[Task, NpuConfig], str]] = {
    Kind.RUN: _repeat_run,
    Kind.PROGRAMS: _repeat_programs,
    Kind.CONFORMANCE: _repeat_conformance,
}


def repeat_row(row: Mapping[str, Any], kind: str, name: str) -> str:
    """The command that repeats a stored run of the campaign `kind` `name`; "" if none does."""
    workload, config = row["workload"], row["config"]
    try:
        task = Task.from_json(row["task"])
    except (SystolaError, TypeError, KeyError, ValueError):
        return ""  # a row of another release, whose configurations had other fields
    if kind == "bench" and task.config is not None:
        options = task.config.options.split()
        suite = (row["figures"] or {}).get("suite", name)
        return shlex.join(["systola", "bench", "--suite", suite, "--only", workload, *options])
    if kind == "conformance":
        operator = (row["figures"] or {}).get("operator", workload)
        return shlex.join(
            ["systola", "conformance", operator, "--device", row["device"], "--config", config]
        )
    if kind == "mutants":
        return shlex.join(["systola", "mutants", "--only", workload or task.title])
    return repeat_command(task)


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
                "memory": task.memory,
                "status": run.status.value,
                "started_at": run.started_at,
                "finished_at": run.finished_at,
                **({} if outcome is None else outcome.to_json()),
            }
        )
    return rows

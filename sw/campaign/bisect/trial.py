"""A task at another commit: that commit's own code carries it out, in a process of its own.

What is asked of the code there is a command that every commit has since there are campaigns:
`systola regress FILE --db … --json … --jobs 1`. Its simulators come from the cache of builds, which
goes by sources.
"""

import dataclasses
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from spec.dram import IDEAL
from sw.campaign.plan import BUILD_LIMIT_S
from sw.results.revision import ROOT
from sw.results.task import Kind, Outcome, Status, Task
from sw.runtime.simulator.guarded import Guarded

_GRACE_S = 300.0
"""Seconds for what is not the run itself: imports, the look for the first wrong instruction."""
_PREPARING = (Kind.BUILD.value, Kind.LINT.value)
_FIELDS = {field.name for field in dataclasses.fields(Outcome)}


def try_task(task: Task, tree: Path, folder: Path) -> Outcome:
    """The outcome of `task` by the sources in `tree`; scratch files in `folder`.

    BLOCKED: the commit cannot say anything, because it cannot be built or does not know such a run.
    """
    suite, rows, log = folder / "bisect.yaml", folder / "rows.json", folder / "log"
    suite.write_text(suite_text(task), encoding="utf-8")
    rows.unlink(missing_ok=True)
    command = [
        *(sys.executable, "-m", "systola", "regress", str(suite)),
        *("--db", str(folder / "trial.sqlite"), "--json", str(rows), "--jobs", "1"),
    ]
    with log.open("wb") as out:
        program = Guarded(
            command,
            cwd=tree,
            env=_environment(tree),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
        )
        try:
            program.process.wait(task.limit_s + BUILD_LIMIT_S + _GRACE_S)
        except subprocess.TimeoutExpired:
            return Outcome(status=Status.TIMEOUT, message="the command did not end")
        finally:
            program.kill()
    return _outcome(rows, log)


def suite_text(task: Task) -> str:
    """A suite of the one run."""
    import yaml

    assert task.config is not None, task.title
    entry: dict[str, Any] = {"configs": [task.config.name], "seeds": [task.seed]}
    if task.kind is Kind.PROGRAMS:
        entry["programs"] = int(task.workload.partition(":")[2])
    elif task.kind is Kind.CONFORMANCE:
        _, operator, which = task.workload.split(":", 2)
        entry["devices"] = [task.device]
        if which.isdigit():
            entry |= {"conformance": int(which), "operators": [operator]}
        else:
            entry["conformance"] = which.split(",")
    else:
        entry |= {"workloads": [task.workload], "devices": [task.device]}
        entry |= {"memories": [_memory(task)]} if task.device == "rtl" else {}
    return yaml.safe_dump({"limit_s": task.limit_s, "entries": [entry]})


def _memory(task: Task) -> dict[str, float | str]:
    """As commits before DRAMs understand it, where it is ideal."""
    if task.memory == IDEAL:
        return {"latency": task.latency, "stall": task.stall}
    return {"kind": task.memory, "stall": task.stall}


def _environment(tree: Path) -> Mapping[str, str]:
    """Python that sees the tree's sources and not these."""
    path = [str(tree), *(p for p in sys.path if p and Path(p).resolve() != ROOT)]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path), "PYTHONHASHSEED": "0"}


def _outcome(rows: Path, log: Path) -> Outcome:
    tail = "\n".join(log.read_text(errors="replace").splitlines()[-8:])
    try:
        found = json.loads(rows.read_text())
        done = [row for row in found if row["kind"] not in _PREPARING]
        (row,) = done
        status = Status(row["status"])
    except (OSError, ValueError, KeyError, TypeError):
        return Outcome(status=Status.BLOCKED, message=f"it gave no result:\n{tail}")
    if status in (Status.WAITING, Status.RUNNING):
        return Outcome(status=Status.BLOCKED, message=f"it did not run:\n{tail}")
    facts = {key: value for key, value in row.items() if key in _FIELDS}
    return Outcome(**{**facts, "status": status})

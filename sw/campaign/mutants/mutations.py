"""Mutants: copies of the sources with one thing broken, and which check notices.

The mutations are data, `tests/mutations.yaml`. A mutant must still generate and build: only a
check that fails counts. Before any of them, the same checks must pass on an unchanged copy.
"""

import os
import shutil
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from spec.config import preset
from sw.campaign.plan import Plan
from sw.campaign.yamlfile import read_yaml
from sw.results.revision import ROOT
from sw.results.task import CampaignError, Kind, Outcome, Status, Task
from sw.runtime.scratch import Scratch

MUTATIONS = ROOT / "tests" / "mutations.yaml"
CONTROL = "unchanged"
LIMIT_S = 3600.0
CONFIG = "tiny"
_COPIED = (
    *("spec", "hw_gen", "rtl", "golden_model", "sw", "systola", "cocotb_tests", "tests"),
    *("pyproject.toml", "requirements"),
)
_BUILD = """
from spec.config import preset
from sw.runtime.simulator.build import build_simulator
build_simulator(preset("tiny")).release()
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """In `file`, the one place that says `find` says `replace` instead."""

    file: str
    find: str
    replace: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutation:
    """What is broken, and how. first: the check to try before the others."""

    name: str
    what: str
    edits: tuple[Edit, ...]
    first: str = ""


CHECKS: Mapping[str, tuple[str, ...]] = {
    "kernels": ("tests/test_rtl_kernels.py", "-k", "tiny"),
    "random programs": ("tests/test_random_rtl.py", "-m", "rtl"),
    "blocks": (
        *("tests/test_hw_load.py", "tests/test_hw_store.py", "tests/test_hw_sequencer.py"),
        *("tests/test_hw_scratchpad.py", "tests/test_hw_scratchpad_landed.py"),
        "tests/test_hw_accumulator.py",
        *("tests/test_hw_semaphores.py", "tests/test_hw_vector_lanes.py", "tests/test_hw_fetch.py"),
        *("tests/test_hw_index.py", "tests/test_hw_weights.py", "tests/test_hw_array.py"),
    ),
    "faults": ("tests/test_rtl_faults.py", "-k", "tiny"),
}
"""Parts of `make test`, each by the arguments of pytest, in the order in which they are tried."""


def load_mutations(path: Path = MUTATIONS) -> list[Mutation]:
    """The mutations; `CampaignError` if one does not apply to these sources."""
    root = read_yaml(path)
    root.keys("mutations")
    found = []
    for node in root.nodes("mutations"):
        node.keys("name", "what", "edits", "first")
        edits = []
        for edit in node.nodes("edits"):
            edit.keys("file", "find", "replace")
            made = Edit(**{key: edit.value(key) for key in ("file", "find", "replace")})
            times = _read(made, edit.place).count(made.find)
            if times != 1:
                raise edit.error(
                    f"{made.find!r} occurs {times} times in {made.file}, not once: the sources "
                    "have changed; write a mutation of them as they are now"
                )
            edits.append(made)
        first = node.text("first", "")
        if first and first not in CHECKS:
            raise node.error(f"first {first!r}: must be one of {', '.join(CHECKS)}")
        name, what = node.value("name"), node.value("what")
        found.append(Mutation(name=name, what=what, edits=tuple(edits), first=first))
    return found


def _read(edit: Edit, place: str) -> str:
    path = ROOT / edit.file
    if not path.is_file():
        raise CampaignError(f"{place}: {edit.file}: no such file")
    return path.read_text(encoding="utf-8")


def mutant_plan(*, only: str = "") -> Plan:
    """The unchanged copy, then every mutation whose name has `only`."""
    control = _task(CONTROL)
    chosen = [_task(m.name, control.key) for m in load_mutations() if only in m.name]
    return Plan(name="mutants", tasks=(control, *chosen) if chosen else ())


def _task(name: str, *needs: str) -> Task:
    config = preset(CONFIG)
    return Task(kind=Kind.MUTANT, config=config, workload=name, limit_s=LIMIT_S, needs=needs)


def carry_out(name: str) -> Outcome:
    """Build the mutant and try check after check until one fails."""
    mutation = next((m for m in load_mutations() if m.name == name), None)
    if mutation is None and name != CONTROL:
        raise CampaignError(f"mutation {name!r}: there is none of that name in {MUTATIONS}")
    with Scratch("mutant") as scratch:
        tree = scratch.path
        copy_sources(tree)
        if mutation is not None:
            apply(mutation, tree)
        built = _run(tree, ["-c", _BUILD])
        if built.returncode:
            tail = "\n".join(built.stderr.splitlines()[-15:])
            return Outcome(status=Status.ERROR, message=f"it does not build:\n{tail}")
        return _try_checks(tree, mutation)


def copy_sources(tree: Path) -> None:
    """What the checks need, in `tree`."""
    skip = shutil.ignore_patterns("__pycache__", "gen", "*.pyc")
    for name in _COPIED:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, tree / name, ignore=skip)
        else:
            shutil.copy(ROOT / name, tree / name)


def apply(mutation: Mutation, tree: Path) -> None:
    """Make the edits in the copy of the sources in `tree`."""
    for edit in mutation.edits:
        path = tree / edit.file
        path.write_text(path.read_text().replace(edit.find, edit.replace))


def _try_checks(tree: Path, mutation: Mutation | None) -> Outcome:
    first = mutation.first if mutation else ""
    names = sorted(CHECKS, key=lambda name: name != first)
    ran = 0
    for name in names:
        start = time.monotonic()
        tests, failed, tail = _check(tree, CHECKS[name])
        ran += tests
        if not tests:
            return Outcome(status=Status.ERROR, message=f"{name}: no test ran\n{tail}")
        if failed and mutation is None:
            return Outcome(status=Status.FAILED, message=f"{name} fails unchanged\n{tail}")
        if failed:
            seconds = round(time.monotonic() - start, 1)
            figures = {"caught_by": name, "test": failed, "seconds": seconds}
            message = f"caught by {failed}\n{_why(tail)}"
            return Outcome(status=Status.PASSED, message=message, figures=figures)
    if mutation is None:
        return Outcome(status=Status.PASSED, figures={"tests": ran})
    return Outcome(
        status=Status.FAILED,
        message=f"it survives: {ran} tests pass although {mutation.what}",
    )


def _check(tree: Path, arguments: Sequence[str]) -> tuple[int, str, str]:
    """(tests that ran, the first that failed, end of the output)."""
    results = tree / "results.xml"
    results.unlink(missing_ok=True)
    options = ["-q", "-x", "-p", "no:cacheprovider", f"--junitxml={results}"]
    done = _run(tree, ["-m", "pytest", *options, *arguments])
    tail = "\n".join(done.stdout.splitlines()[-25:])
    try:
        cases = list(ElementTree.parse(results).getroot().iter("testcase"))
    except (OSError, ElementTree.ParseError):
        return 0, "", tail
    ran = [case for case in cases if case.find("skipped") is None]
    for case in ran:
        if case.find("failure") is not None or case.find("error") is not None:
            where = case.get("classname", "").replace(".", "/")
            return len(ran), f"{where}.py::{case.get('name')}", tail
    return len(ran) if done.returncode == 0 else 0, "", tail


def _why(tail: str) -> str:
    """The lines of pytest's output that say what was wrong: a time-out is seen to be one."""
    return "\n".join(line for line in tail.splitlines() if line.startswith(("E  ", "FAILED")))


def _run(tree: Path, arguments: Sequence[str]) -> "subprocess.CompletedProcess[str]":
    """Python in the copy, which must not see these sources."""
    path = [str(tree), *(p for p in sys.path if p and Path(p).resolve() != ROOT)]
    env = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(path),
        "SYSTOLA_RANDOMCONFIGS": CONFIG,
    }
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=tree,
        env=env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )

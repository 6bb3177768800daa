"""A sample of the official TOSA tests of one operator, as a task of a campaign.

The workload is `conformance:OPERATOR:COUNT`, where the task's seed draws the sample, or
`conformance:OPERATOR:TEST,TEST,…` with the names of official tests. The whole suite is
`systola conformance`.
"""

import hashlib
import random
import shutil
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

from spec.config import PRESETS, NpuConfig
from sw.campaign.measures.bench import Bench
from sw.measure.conformance.chunk import Setting, Status, Verdict, run_chunk
from sw.measure.conformance.suite import (
    VERSION,
    ConformanceError,
    Suite,
    Tests,
    all_operators,
    generate,
    operator_of,
)
from sw.results.task import CampaignError, Outcome, Task
from sw.results.task import Status as Ended
from sw.runtime.scratch import Scratch
from sw.runtime.simulator.cache import BuildCache

PREFIX = "conformance"
_SHOWN = 5
"""Tests that did not pass in a message."""


def sample_workloads(count: int, operators: Sequence[str]) -> list[str]:
    """A workload of `count` tests for each operator (none given: for all of them)."""
    chosen = Suite(operators=tuple(operators or all_operators())).operators
    return [f"{PREFIX}:{operator}:{count}" for operator in chosen] if count else []


def named_workloads(names: Sequence[str]) -> list[str]:
    """A workload for each operator that the tests `names` are of."""
    groups: dict[str, list[str]] = {}
    for name in names:
        operator = operator_of(name)
        if operator not in all_operators():
            raise ConformanceError(f"conformance test {name!r}: its name begins with no operator")
        groups.setdefault(operator, []).append(name)
    return [f"{PREFIX}:{operator}:{','.join(found)}" for operator, found in groups.items()]


def check_config(config: NpuConfig) -> None:
    """`CampaignError` unless the test runner, which is given a name, can make `config`."""
    if PRESETS.get(config.name) != config:
        raise CampaignError(
            f"conformance on {config.name}: only presets can run these tests, of which there are "
            f"{', '.join(PRESETS)}"
        )


def conformance(task: Task, bench: Bench) -> Outcome:
    """Generate the operator's tests, run the chosen ones through the runner that judges them."""
    assert task.config is not None, task.title
    check_config(task.config)
    _, operator, which = task.workload.split(":", 2)
    with Scratch("conformance") as scratch:
        tests, available = _chosen(operator, which, task.seed, scratch.path / "tests")
        # A test that stands still costs the whole task: its limit is the campaign's to hold.
        setting = Setting(device=task.device, config=task.config.name, limit_s=task.limit_s)
        verdicts = run_chunk(tests, setting, scratch.path)
    return _outcome(verdicts, available, on_hardware=task.device == "rtl")


def _chosen(operator: str, which: str, seed: int, folder: Path) -> tuple[Tests, int]:
    """(the chosen tests, copied below `folder`; how many tests the operator has).

    The generator makes all tests of an operator, which takes 20 s on average. So those that were
    chosen are kept in the cache, for other devices and configurations.
    """
    facts = f"{VERSION} {version('tosa-tools')} {operator} {which} {seed}"
    key = f"official-{hashlib.sha256(facts.encode()).hexdigest()[:16]}"

    def make(entry: Path) -> None:
        with Scratch("generated") as scratch:
            tests = generate(Suite(operators=(operator,)), operator, scratch.path)
            for name in _names(tests, operator, which, seed):
                shutil.copytree(tests[name], entry / "tests" / name)
            (entry / "available").write_text(str(len(tests)))

    with BuildCache().obtain(key, make) as entry:
        shutil.copytree(entry.path / "tests", folder)
        available = int((entry.path / "available").read_text())
    return {path.name: path for path in sorted(folder.iterdir())}, available


def _names(tests: Tests, operator: str, which: str, seed: int) -> list[str]:
    """Of the chosen tests; `CampaignError` for a name that the operator has not."""
    if which.isdigit():
        count = min(int(which), len(tests))
        return sorted(random.Random(f"{seed} {operator}").sample(sorted(tests), count))
    names = which.split(",")
    for name in names:
        if name not in tests:
            raise CampaignError(
                f"conformance test {name!r}: {operator} has no such test among its {len(tests)}"
            )
    return names


def _outcome(verdicts: Sequence[Verdict], available: int, *, on_hardware: bool) -> Outcome:
    bad = [v for v in verdicts if v.status is not Status.PASSED]
    lines = [f"{len(bad)} of {len(verdicts)} tests did not pass"] if bad else []
    lines += [f"{v.test}: {v.status}: {v.message}" for v in bad[:_SHOWN]]
    if len(bad) > _SHOWN:
        lines.append(f"and {len(bad) - _SHOWN} more")
    if not verdicts:
        lines = ["no test was run"]
    return Outcome(
        status=Ended.FAILED if lines else Ended.PASSED,
        message="\n".join(lines),
        cycles=sum(v.cycles for v in verdicts) if on_hardware else None,
        wall_s=round(sum(v.seconds for v in verdicts), 3),
        mismatch={"test": bad[0].test, "element": bad[0].message} if bad else None,
        figures={
            "tests": len(verdicts),
            "tests_passed": len(verdicts) - len(bad),
            "tests_available": available,
        },
    )

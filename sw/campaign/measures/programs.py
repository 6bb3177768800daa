"""Random programs, and mutations of the RTL."""

import os
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

from sw.campaign.measures.bench import Bench, config_of, quiet
from sw.results.revision import ROOT
from sw.results.task import CampaignError, Outcome, Status, Task
from sw.runtime.scratch import Scratch


def programs(task: Task, bench: Bench) -> Outcome:
    """Random programs on the RTL: the source tree's own test of them, from seed on."""
    from sw.runtime.simulator.build import build_simulator

    test = ROOT / "tests" / "test_random_rtl.py"
    if not test.exists():
        raise CampaignError(f"programs: {test} is not there; run from the source tree")
    with bench.building():
        build_simulator(config_of(task), say=quiet).release()
    factor = task.workload.partition(":")[2] or "1"
    with Scratch("programs") as scratch:
        results = scratch.path / "results.xml"
        done = subprocess.run(
            [
                *(sys.executable, "-m", "pytest", "-q", "-x", "-m", "rtl"),
                *("-p", "no:cacheprovider", f"--junitxml={results}", str(test)),
            ],
            cwd=ROOT,
            env={
                **os.environ,
                "SYSTOLA_RANDOM": factor,
                "SYSTOLA_RANDOM_FIRST": str(task.seed),
                "SYSTOLA_RANDOM_CONFIGS": config_of(task).name,
            },
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
        )
        ran, failed = _counts(results)
    tail = "\n".join(done.stdout.splitlines()[-30:])
    if failed or done.returncode:
        status = Status.FAILED if failed else Status.ERROR
        return Outcome(status=status, message=tail)
    if not ran:
        return Outcome(status=Status.ERROR, message=f"no test ran\n{tail}")
    return Outcome(status=Status.PASSED, figures={"tests": ran})


def mutant(task: Task, bench: Bench) -> Outcome:
    """Whether a check notices the mutation that is the workload."""
    from sw.campaign.mutants import mutations as mutants

    return mutants.carry_out(task.workload)


def _counts(results: Path) -> tuple[int, int]:
    """(tests that ran, tests that failed) of a JUnit file; nothing if it is not there."""
    try:
        suites: list[Any] = list(ElementTree.parse(results).getroot().iter("testsuite"))
    except (OSError, ElementTree.ParseError):
        return 0, 0
    failed = sum(int(s.get("failures", 0)) + int(s.get("errors", 0)) for s in suites)
    skipped = sum(int(s.get("skipped", 0)) for s in suites)
    return sum(int(s.get("tests", 0)) for s in suites) - skipped, failed

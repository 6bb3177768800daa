"""How a task of each kind is carried out, in a worker process.

A function per kind, in `MEASURES`: another back end (synthesis, an FPGA) adds its own there.
"""

import os
import subprocess
import sys
import time
import traceback
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from golden_model import GoldenError
from spec.config import NpuConfig
from spec.errors import SystolaError
from sw.measure.campaign.task import CampaignError, Kind, Outcome, Status, Task
from sw.measure.campaign.workloads import Prepared, prepare
from sw.measure.divergence import find_divergence, layer_of
from sw.measure.revision import ROOT
from sw.runtime.device import RunResult
from sw.runtime.golden import GoldenDevice
from sw.runtime.report import Comparison, compare
from sw.runtime.rtl import DeviceFault, RtlDevice
from sw.runtime.scratch import Scratch
from sw.runtime.session import reference_comparison, run_image
from sw.runtime.simulator.errors import SimulationError

Tell = Callable[[Outcome], None]
_WRONG = (DeviceFault, SimulationError, GoldenError)
"""What a wrong machine or program leads to; any other error means that it could not be tried."""


class Bench:
    """What a worker keeps from task to task: one simulator, as starting it takes seconds.

    tell: hears an outcome that is certain already while the task still looks for its cause.
    """

    def __init__(self, tell: Tell) -> None:
        self.tell = tell
        self._device: RtlDevice | None = None

    def rtl(self, task: Task) -> RtlDevice:
        """The device of the task's configuration, with its memory."""
        config = _config(task)
        if self._device is None or self._device.config != config:
            self.drop()
            self._device = RtlDevice(config, say=_quiet)
        self._device.set_memory(latency=task.latency, stall=task.stall, seed=task.seed)
        return self._device

    def drop(self) -> None:
        """End the simulator; the next task gets a new one."""
        if self._device is not None:
            self._device.kill()
        self._device = None


def carry_out(task: Task, bench: Bench) -> Outcome:
    """The task's outcome, whatever happens; after one that is not good the simulator is new."""
    try:
        outcome = MEASURES[task.kind](task, bench)
    except SystolaError as error:
        status = Status.FAILED if isinstance(error, _WRONG) else Status.ERROR
        outcome = Outcome(status=status, message=str(error))
    except Exception:
        outcome = Outcome(status=Status.ERROR, message=traceback.format_exc(limit=-6))
    if outcome.status is not Status.PASSED:
        bench.drop()
    return outcome


def run(task: Task, bench: Bench) -> Outcome:
    """A workload: RTL against the golden model, or golden against the TOSA reference model."""
    work = prepare(task.workload, _config(task), task.seed)
    # Hazards do not depend on the device: the task on golden looks for them.
    alone = task.device == "golden"
    golden = GoldenDevice(_config(task), check=alone)
    want, result = run_image(work.image, work.inputs, golden)
    if alone:
        compared = reference_comparison(work.graph, work.inputs, want)
        return _outcome(work, result, compared, "the TOSA reference model")
    device = bench.rtl(task)
    try:
        got, result = run_image(work.image, work.inputs, device)
    except DeviceFault as fault:
        return _faulted(work, fault)
    outcome = _outcome(work, result, compare(want, got), "the golden model")
    if outcome.mismatch:
        bench.tell(outcome)
        outcome = _located(outcome, work, device)
    return outcome


def build(task: Task, bench: Bench) -> Outcome:
    """The configuration's simulator, from the cache or made now."""
    from sw.runtime.simulator.build import build_simulator

    start = time.monotonic()
    build_simulator(_config(task), say=_quiet).release()
    return Outcome(status=Status.PASSED, figures={"build_s": round(time.monotonic() - start, 1)})


def lint(task: Task, bench: Bench) -> Outcome:
    """Generate the RTL and read it with Verilator's -Wall."""
    from sw.runtime.simulator.lint import lint as check

    return Outcome(status=Status.PASSED, figures={"verilog_lines": check(_config(task))})


def programs(task: Task, bench: Bench) -> Outcome:
    """Random programs on the RTL: the source tree's own test of them, from seed on."""
    test = ROOT / "tests" / "test_random_rtl.py"
    if not test.exists():
        raise CampaignError(f"programs: {test} is not there; run from the source tree")
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
                "SYSTOLA_RANDOM_CONFIGS": _config(task).name,
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
    from sw.measure.campaign import mutants

    return mutants.carry_out(task.workload)


MEASURES: Mapping[Kind, Callable[[Task, Bench], Outcome]] = {
    Kind.RUN: run,
    Kind.BUILD: build,
    Kind.LINT: lint,
    Kind.PROGRAMS: programs,
    Kind.MUTANT: mutant,
}


def _outcome(work: Prepared, result: RunResult, compared: Comparison, other: str) -> Outcome:
    message = ""
    if not compared.elements:
        message = "nothing was compared"
    elif not compared.exact:
        message = (
            f"{compared.mismatches:,} of {compared.elements:,} elements differ from {other}; "
            f"first: {compared.first}"
        )
    for engine, row in result.counters.items():
        if not message and sum(row.values()) != result.cycles:
            message = f"counters of {engine} sum to {sum(row.values())}, not {result.cycles} cycles"
    on_hardware = result.cycles is not None
    return Outcome(
        status=Status.FAILED if message else Status.PASSED,
        message=message,
        cycles=result.cycles,
        macs=work.macs,
        compared=compared.elements,
        counters={engine: dict(row) for engine, row in result.counters.items()},
        wall_s=result.wall_s,
        read_bytes=result.read_bytes if on_hardware else None,
        write_bytes=result.write_bytes if on_hardware else None,
        mismatch={"element": compared.first} if compared.first else None,
        image_digest=work.digest,
    )


def _located(outcome: Outcome, work: Prepared, device: RtlDevice) -> Outcome:
    """The outcome with the layer and instruction at which the difference arises."""
    try:
        found = find_divergence(work.image, work.inputs, device)
    except SystolaError as error:
        return replace(outcome, message=f"{outcome.message}\nlooking for its cause: {error}")
    if found is None:
        return replace(outcome, message=f"{outcome.message}\na second run shows no difference")
    mismatch = {
        "layer": found.layer,
        "instruction": found.instruction,
        "text": found.text,
        "element": found.element,
        "expected": found.expected,
        "got": found.got,
    }
    message = f"{outcome.message}\nit arises in {found}"
    return replace(outcome, message=message, mismatch=mismatch)


def _faulted(work: Prepared, fault: DeviceFault) -> Outcome:
    layer = layer_of(work.image, fault.instruction)
    return Outcome(
        status=Status.FAILED,
        message=f"layer {layer or '?'}: {fault}",
        macs=work.macs,
        mismatch={"layer": layer, "instruction": fault.instruction, "element": str(fault)},
        image_digest=work.digest,
    )


def _counts(results: Path) -> tuple[int, int]:
    """(tests that ran, tests that failed) of a JUnit file; nothing if it is not there."""
    try:
        suites: list[Any] = list(ElementTree.parse(results).getroot().iter("testsuite"))
    except (OSError, ElementTree.ParseError):
        return 0, 0
    failed = sum(int(s.get("failures", 0)) + int(s.get("errors", 0)) for s in suites)
    skipped = sum(int(s.get("skipped", 0)) for s in suites)
    return sum(int(s.get("tests", 0)) for s in suites) - skipped, failed


def _config(task: Task) -> NpuConfig:
    assert task.config is not None, task.title
    return task.config


def _quiet(_: str) -> None:
    """The parent shows what its workers are at."""

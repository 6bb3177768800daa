"""Some tests through `tosa_verif_run_tests` in a process of its own, and its verdicts.

Verdicts are those of the runner's result.xml. A process that dies or stands still has written none:
the test that it was at gets the verdict `crashed`, the others run again without it.
"""

import json
import os
import subprocess
import time
import xml.etree.ElementTree as ET
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from sw.measure.conformance.suite import PROFILE, ConformanceError, Tests, tool
from sw.runtime.simulator.guarded import Guarded
from sw.runtime.verify import find_reference_model

SUT = "sw.measure.conformance.sut"
ROOT = Path(__file__).resolve().parents[3]
_POLL_S = 0.2


class Status(StrEnum):
    """What became of a test. `unsupported`: the compiler said so; `missing`: it never ran."""

    PASSED = "passed"
    FAILED = "failed"
    UNSUPPORTED = "unsupported"
    CRASHED = "crashed"
    MISSING = "missing"


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """seconds: of compiling and running; cycles: of the device, 0 on golden."""

    test: str
    status: Status
    message: str = ""
    seconds: float = 0.0
    cycles: int = 0
    instructions: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """Where tests run: device, preset, for how long one may stand still, the runner's module."""

    device: str
    config: str
    test_type: str = "positive"
    limit_s: float = 1200.0
    sut: str = SUT


def run_chunk(
    tests: Tests,
    setting: Setting,
    folder: Path,
    started: Callable[[Guarded], None] = lambda _: None,
) -> list[Verdict]:
    """A verdict for each of `tests`, whose folders get the results; scratch files in `folder`.

    `started` is given every runner that is started; `kill()` ends it with what it started.
    """
    left: Tests = dict(tests)
    verdicts: list[Verdict] = []
    while left:
        why = _run(left, setting, folder, started)
        journal = _journal(folder)
        result = folder / "result.xml"
        if result.is_file():
            return verdicts + _verdicts(result, left, journal, setting.sut)
        begun = [entry["test"] for entry in journal if entry["event"] == "begin"]
        if not begun:
            log = (folder / "runner.log").read_text(errors="replace")
            raise ConformanceError(f"the test runner ended ({why}) before a test:\n{log[-1500:]}")
        verdicts.append(Verdict(test=begun[-1], status=Status.CRASHED, message=why))
        del left[begun[-1]]
    return verdicts


def _run(tests: Tests, setting: Setting, folder: Path, started: Callable[[Guarded], None]) -> str:
    """Run the official runner to its end, or until a test stands still; why it ended badly."""
    for name in ("result.xml", "journal"):
        (folder / name).unlink(missing_ok=True)
    (folder / "list.txt").write_text("".join(f"{path}\n" for path in tests.values()))
    arguments = {
        "device": setting.device,
        "config": setting.config,
        "journal": str(folder / "journal"),
    }
    command = [
        tool("tosa_verif_run_tests"), "--test-list", str(folder / "list.txt"), "--binary",
        "--ref-model-path", find_reference_model()[0], "--no-color", "--jobs", "1",
        "--profile", PROFILE, "--extension", "none", "--test-type", setting.test_type,
        "--sut-module", setting.sut,
        "--sut-module-args", *(f"{setting.sut}:{k}={v}" for k, v in arguments.items()),
        "--xunit-file", str(folder / "result.xml"),
    ]  # fmt: skip
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    environment = {**os.environ, "PYTHONPATH": path}
    with (folder / "runner.log").open("wb") as log:
        runner = Guarded(
            command, cwd=folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment
        )
    started(runner)
    return _watch(runner, folder / "journal", setting.limit_s)


def _watch(runner: Guarded, journal: Path, limit_s: float) -> str:
    """Wait for the process; "" or why it did not end well. It is gone afterwards."""
    since, size = time.monotonic(), -1
    process = runner.process
    try:
        while process.poll() is None:
            time.sleep(_POLL_S)
            now = journal.stat().st_size if journal.exists() else 0
            if now != size:
                since, size = time.monotonic(), now
            elif time.monotonic() - since > limit_s:
                return f"did not end within {limit_s:g} s"
    finally:
        runner.kill()
    return f"the process ended with {process.returncode}" if process.returncode else ""


def _journal(folder: Path) -> list[dict[str, Any]]:
    path = folder / "journal"
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text().splitlines() if line.endswith("}")]


def _verdicts(
    result: Path, tests: Tests, journal: list[dict[str, Any]], module: str
) -> list[Verdict]:
    """What result.xml says of the NPU; tests that it does not name are missing."""
    figures = {entry["test"]: entry for entry in journal if entry["event"] == "end"}
    cases: dict[str, ET.Element] = {}
    for suite in ET.parse(result).getroot().iter("testsuite"):
        if suite.get("name") == module:
            cases.update({Path(case.get("name", "")).name: case for case in suite.iter("testcase")})
    return [_verdict(name, cases.get(name), figures.get(name, {})) for name in tests]


def _verdict(name: str, case: ET.Element | None, figures: Mapping[str, Any]) -> Verdict:
    status, message = Status.PASSED, ""
    if case is None or case.find("skipped") is not None:
        status, message = Status.MISSING, "the runner did not run it"
    elif (failure := case.find("failure")) is not None:
        message = (failure.text or "").strip()
        _, found, reason = message.partition("unsupported: ")
        status = Status.UNSUPPORTED if found else Status.FAILED
        message = reason or message
    return Verdict(
        test=name,
        status=status,
        message=message,
        seconds=figures.get("seconds", 0.0),
        cycles=figures.get("cycles", 0),
        instructions=figures.get("instructions", 0),
    )

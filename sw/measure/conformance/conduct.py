"""A whole run: operators side by side, their tests in chunks, data deleted on the way."""

import shutil
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from threading import Event

from sw.measure.conformance.chunk import Setting, Status, Verdict, run_chunk
from sw.measure.conformance.store import Verdicts
from sw.measure.conformance.suite import Suite, Tests, generate, listed, operator_of
from sw.runtime.scratch import Scratch
from sw.runtime.simulator.guarded import Guarded

CHUNK = 32
"""Tests in one process of the runner: what is lost if it dies, and how often a device starts."""

Progress = Callable[[str, list[Verdict]], None]


@dataclass(slots=True)
class _Processes:
    """Runner processes that are alive, so that an interruption can end them."""

    running: list[Guarded] = field(default_factory=list)
    stopped: Event = field(default_factory=Event)

    def started(self, runner: Guarded) -> None:
        self.running.append(runner)
        if self.stopped.is_set():
            runner.kill()

    def stop(self) -> None:
        self.stopped.set()
        for runner in self.running:
            runner.kill()


def conduct(
    suite: Suite,
    setting: Setting,
    store: Verdicts,
    *,
    jobs: int = 1,
    progress: Progress = lambda _op, _new: None,
) -> dict[str, Verdict]:
    """Run every test of `suite` that has no verdict yet; the verdicts of all of them by test.

    Tests that should be there and were not generated are `missing`. Generated data is deleted when
    a chunk has its verdicts, and when anything ends the run.
    """
    with Scratch("conformance") as scratch:
        root, processes = scratch.path, _Processes()
        expected = set() if suite.random else listed(suite, root)
        pool = ThreadPoolExecutor(max_workers=jobs)
        try:
            work = [
                pool.submit(
                    _operator, suite, op, setting, store, expected, root, processes, progress
                )
                for op in _to_do(suite, expected, store)
            ]
            for done in as_completed(work):
                expected |= done.result()
        except BaseException:
            processes.stop()
            pool.shutdown(wait=True, cancel_futures=True)
            raise
        pool.shutdown()
    known = store.all()
    if suite.random:  # operators that were complete before this run
        expected |= {t for t in known if operator_of(t) in suite.operators}
    lost = {t: Verdict(test=t, status=Status.MISSING, message="not generated") for t in expected}
    return {test: known.get(test, lost[test]) for test in sorted(expected)}


def _to_do(suite: Suite, expected: set[str], store: Verdicts) -> list[str]:
    """Operators with tests that have no verdict, those with the most tests first."""
    done = list(map(operator_of, store.all()))
    counts = {op: done.count(op) for op in suite.operators}
    if suite.random:
        return [op for op in suite.operators if counts[op] < suite.random]
    wanted = {op: sum(operator_of(t) == op for t in expected) for op in suite.operators}
    left = [op for op in suite.operators if counts[op] < wanted[op]]
    return sorted(left, key=lambda op: -wanted[op])


def _operator(
    suite: Suite,
    operator: str,
    setting: Setting,
    store: Verdicts,
    expected: set[str],
    root: Path,
    processes: _Processes,
    progress: Progress,
) -> set[str]:
    """Generate and run what has no verdict yet of one operator; the names of all its tests."""
    if processes.stopped.is_set():
        return set()
    folder = Path(tempfile.mkdtemp(prefix=f"{operator}-", dir=root))
    try:
        tests = generate(suite, operator, folder)
        known = store.all()
        left = {name: path for name, path in tests.items() if name not in known}
        for chunk in _chunks(left):
            if processes.stopped.is_set():
                break
            verdicts = run_chunk(chunk, setting, folder, processes.started)
            if processes.stopped.is_set():
                break  # killed by us: what it says is no verdict
            store.add(verdicts)
            progress(operator, verdicts)
            for path in chunk.values():
                shutil.rmtree(path, ignore_errors=True)
        return set(tests)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _chunks(tests: Tests) -> Iterator[Tests]:
    items = iter(tests.items())
    while chunk := dict(islice(items, CHUNK)):
        yield chunk

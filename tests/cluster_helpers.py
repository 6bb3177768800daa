"""Schedulers and workers on loopback, each a process of its own, as users start them."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from campaign_helpers import ROOT, wait_for

from sw.runtime.simulator.guarded import Guarded

TESTS = ROOT / "tests"


class Cluster:
    """A scheduler at `address`; `folder` takes the logs."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._started: list[Guarded] = []
        file = folder / "scheduler.json"
        self.scheduler = self.start(
            "scheduler",
            *("-m", "dask", "scheduler", "--host", "127.0.0.1", "--port", 0),
            *("--dashboard-address", "127.0.0.1:0", "--scheduler-file", file),
        )
        self.address = wait_for(lambda: _address(file))

    def start(self, name: str, *arguments: object, root: Path = ROOT) -> Guarded:
        """Python with these arguments; `root`: where its sources are. Ends with the cluster."""
        path = os.pathsep.join([str(root), str(TESTS)])
        with (self.folder / f"{name}.log").open("wb") as log:
            program = Guarded(
                [sys.executable, *map(str, arguments)],
                cwd=self.folder,
                env={**os.environ, "PYTHONPATH": path},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        self._started.append(program)
        return program

    def worker(self, name: str, jobs: int = 1, root: Path = ROOT) -> Guarded:
        """`systola worker`, once it says that it takes tasks."""
        arguments = ("-m", "systola", "worker", self.address, "--jobs", jobs)
        worker = self.start(name, *arguments, root=root)
        wait_for(lambda: "takes" in self.log(name))
        return worker

    def dask_worker(self, name: str, *options: object) -> Guarded:
        """`dask worker` with one thread."""
        known = ("--nthreads", 1, "--dashboard-address", "127.0.0.1:0", "--name", name)
        start = ("-m", "dask", "worker", self.address)
        worker = self.start(name, *start, "--host", "127.0.0.1", *known, *options)
        wait_for(lambda: "Registered to" in self.log(name))
        return worker

    def log(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text(errors="replace")

    def close(self) -> None:
        for program in reversed(self._started):
            program.kill()


def _address(file: Path) -> str:
    """The scheduler's; empty as long as its file is not there, or not written to its end."""
    text = file.read_text() if file.exists() else ""
    try:
        return str(json.loads(text)["address"])
    except json.JSONDecodeError:
        return ""


@contextmanager
def cluster(folder: Path) -> Iterator[Cluster]:
    one = Cluster(folder)
    try:
        yield one
    finally:
        one.close()

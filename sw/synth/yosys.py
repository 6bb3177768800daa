"""Runs a Yosys script in a process of its own: progress from its log, its warnings by class."""

import os
import re
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from sw.runtime.progress import Say
from sw.synth.errors import SynthError
from sw.synth.recipe import MARK
from sw.synth.tools import Tool, run_logged

ROOT = Path(__file__).resolve().parents[2]

_CLASSES = (
    (r"Replacing memory .* with list of registers", "arrays made of registers"),
    (r"found logic loop|combinational loop", "combinational loops"),
    (r"multiple conflicting drivers", "nets with several drivers"),
    (r"is used but has no driver", "nets without a driver"),
    (r"[Ll]atch inferred", "latches"),
)
"""Kinds of warnings: what the log says, what the report calls it."""


def run_yosys(tool: Tool, script: str, folder: Path, say: Say) -> Path:
    """Run a script in `folder`; the log, which stays there. `SynthError` has its last lines."""
    path = folder / "script.ys"
    log = folder / "yosys.log"
    path.write_text(script)
    env = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]),
    }
    command = [*tool.command, str(path)]
    code = run_logged(command, log, _step, say, cwd=folder, env=env, stdin=subprocess.DEVNULL)
    if code:
        tail = "\n".join(log.read_text().splitlines()[-12:])
        raise SynthError(f"Yosys failed (exit code {code}, {tool.version}):\n{tail}")
    return log


_MODULE = re.compile(r"Extracting gate netlist of module `\\?(.*?)' to")


def _step(line: str) -> str:
    """What to show for a line of the log, or nothing."""
    if line.startswith(MARK):
        return line[len(MARK) :].strip()
    module = _MODULE.search(line)
    return f"mapping {_block(module[1])}" if module else ""


def _block(module: str) -> str:
    """A module's name without the top's and without what Yosys adds: `matrix.array`."""
    return re.sub(r"\$\d+", "", module.split("\\")[-1].removeprefix("systola_npu."))


def warnings(log: Path) -> dict[str, list[str]]:
    """Each warning once, by class; `other` for those of no known one."""
    found: dict[str, list[str]] = {}
    counted = Counter(_warnings(log))
    for text in counted:
        name = next((name for pattern, name in _CLASSES if re.search(pattern, text)), "other")
        found.setdefault(name, []).append(text)
    return found


def _warnings(log: Path) -> Iterator[str]:
    with log.open() as file:
        for line in file:
            if line.startswith("Warning:"):
                yield line.removeprefix("Warning:").strip()

"""FuseSoC generator: a program with memory image and expected outputs, for rtl/check_main.cpp.

FuseSoC calls it with a YAML file that names parameters, the core's folder and its name.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import yaml

FILES = ("memory.bin", "control.bin", "expected.bin", "check.txt")


def main() -> int:
    request = yaml.safe_load(Path(sys.argv[1]).read_text())
    parameters = request.get("parameters") or {}
    # A core elsewhere may call this one: the sources are those around this file.
    root = Path(__file__).resolve().parent.parent
    command = [sys.executable, "-m", "sw.cli.export_check", "--out", str(Path.cwd())]
    for name in ("config", "kernel", "shape"):
        if name in parameters:
            command += [f"--{name}", str(parameters[name])]
    for setting in parameters.get("set", []):
        command += ["--set", str(setting)]
    done = subprocess.run(command, cwd=root, env={**os.environ, "PYTHONPATH": str(root)})
    if done.returncode:
        return done.returncode
    core = {
        "name": request["vlnv"],
        "filesets": {
            "program": {"files": [{n: {"file_type": "user", "copyto": n}} for n in FILES]}
        },
        "targets": {"default": {"filesets": ["program"]}},
    }
    # JSON is YAML.
    name = request["vlnv"].replace(":", "_").strip("_")
    Path(f"{name}.core").write_text("CAPI=2:\n" + json.dumps(core, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""FuseSoC generator: the RTL of one configuration as a core.

FuseSoC calls it with a YAML file that names parameters, the core's folder and its name.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import yaml


def main() -> int:
    request = yaml.safe_load(Path(sys.argv[1]).read_text())
    parameters = request.get("parameters") or {}
    root = Path(request["files_root"])
    command = [sys.executable, "-m", "hw_gen", "--config", str(parameters.get("config", "default"))]
    for setting in parameters.get("set", []):
        command += ["--set", str(setting)]
    out = Path.cwd()
    # Only a fixed hash seed gives the same Verilog each time.
    env = {**os.environ, "PYTHONHASHSEED": "0", "PYTHONPATH": str(root)}
    done = subprocess.run([*command, "--out", str(out)], cwd=root, env=env)
    if done.returncode:
        return done.returncode
    files = sorted(
        (p for p in out.iterdir() if p.suffix in (".sv", ".v")),
        key=lambda p: (not p.stem.endswith("_pkg"), p.name),
    )
    listed = [
        {p.name: {"file_type": "systemVerilogSource" if p.suffix == ".sv" else "verilogSource"}}
        for p in files
    ]
    core = {
        "name": request["vlnv"],
        "filesets": {"rtl": {"files": listed}},
        "targets": {"default": {"filesets": ["rtl"]}},
    }
    # JSON is YAML.
    name = request["vlnv"].replace(":", "_").strip("_")
    Path(f"{name}.core").write_text("CAPI=2:\n" + json.dumps(core, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())

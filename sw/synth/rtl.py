"""The RTL of a configuration, with the line of the generator that each signal comes from."""

import os
import subprocess
import sys
from pathlib import Path

from spec.config import NpuConfig
from sw.synth.errors import SynthError

ROOT = Path(__file__).resolve().parents[2]
TOP = "systola_npu"


def generate(config: NpuConfig, folder: Path) -> list[Path]:
    """The Verilog files of the NPU, in a folder `rtl` in `folder`.

    In a process of its own, because only a hash seed set before Python starts gives the same
    Verilog each time.
    """
    out = folder / "rtl"
    fields = config.to_dict()
    settings = [f"--set={name}={value}" for name, value in fields.items() if name != "name"]
    command = [sys.executable, "-m", "hw_gen", "--config", "default", *settings]
    command += ["--source-lines", "--out", str(out)]
    path = os.pathsep.join([str(ROOT), *filter(None, sys.path)])
    env = {**os.environ, "PYTHONHASHSEED": "0", "PYTHONPATH": path}
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True)
    if done.returncode:
        tail = "\n".join((done.stdout + done.stderr).splitlines()[-25:])
        raise SynthError(f"generating the RTL of {config.name} failed:\n{tail}")
    return sorted(p for p in out.iterdir() if p.suffix in (".v", ".sv") and "_pkg" not in p.name)

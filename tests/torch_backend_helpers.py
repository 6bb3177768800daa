"""What the tests of the torch.compile backend share."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import torch

import systola

ROOT = Path(__file__).resolve().parent.parent

OPTIONS = {"config": "tiny", "verify": True, "check": True, "cache": False}
"""Small and strict: every run is compared with the interpreter and looked over for hazards.

Nothing is left in the user's cache.
"""


def pcc(a, b):
    a, b = (np.ravel(t.detach().numpy()).astype(float) for t in (a, b))
    return float(np.corrcoef(a, b)[0, 1])


def compiled(module, **options):
    """`module` through the backend; the entry point is tested where nothing is imported."""
    from sw.torch_backend.entry import systola as backend

    torch._dynamo.reset()
    torch._dynamo.utils.clear_compilation_metrics()
    dynamic = options.pop("dynamic", None)
    return torch.compile(module, backend=backend, dynamic=dynamic, options={**OPTIONS, **options})


def report(module):
    return systola.compile_report(module).to_dict()


def rows(module):
    """(operator, where, reason) of every node of every variant."""
    return [
        (row["target"], row["where"], row["reason"])
        for graph in report(module)["graphs"]
        for variant in graph["variants"]
        for row in variant["nodes"]
    ]


def metadata(folder):
    """A folder for PYTHONPATH that holds the package's metadata as an installation would."""
    for name in ("pyproject.toml", "README.md"):
        shutil.copy(ROOT / name, folder)
    shutil.copytree(ROOT / "requirements", folder / "requirements")
    code = "import setuptools.build_meta as b, sys; b.prepare_metadata_for_build_wheel(sys.argv[1])"
    site = folder / "site"
    site.mkdir()
    subprocess.run(
        [sys.executable, "-c", code, str(site)], cwd=folder, check=True, capture_output=True
    )
    return site


def run_script(code, site, folder):
    """Run a program that knows the backend by its name only; the reports that it wrote, by name."""
    path = [str(site), str(ROOT)]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(path), "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=folder, env=env, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return {p.stem: json.loads(p.read_text()) for p in folder.glob("*.json")}

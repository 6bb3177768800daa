"""The example that compiles a PyTorch module does what its docstring says."""

import subprocess
import sys
from pathlib import Path

EXAMPLE = Path(__file__).resolve().parents[1] / "examples" / "compile_module.py"


def test_example_runs_and_is_short(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(EXAMPLE), "--config", "small"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert "NPU (golden, small): [" in done.stdout
    last = done.stdout.strip().splitlines()[-1]
    assert last.startswith("largest difference to PyTorch's int8 graph: ")
    assert len(EXAMPLE.read_text().splitlines()) < 100

"""Runs a cocotb test module on one block: builds it (cached), runs it, checks that tests ran."""

import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from sw.runtime.simulator.cache import BuildCache
from sw.runtime.simulator.cocotb_env import check_results, cocotb_environment
from sw.runtime.simulator.generated import RTL
from sw.runtime.simulator.recipe import Recipe, cook
from sw.runtime.simulator.verilator import digest


def run_bench(
    module: str,
    top: str,
    verilog: Sequence[Path],
    *,
    cpp: Sequence[Path] = (),
    public: Path | None = None,
    parameters: Mapping[str, int] | None = None,
    plusargs: Sequence[str] = (),
    env: Mapping[str, str] | None = None,
    folder: Path | None = None,
    at_least: int = 1,
    timeout_s: float = 300,
) -> str:
    """Run the cocotb tests of `module` on `top`.

    cpp: DPI sources. public: `.vlt` file of the signals that are visible; without it all are.
    at_least: so many tests must run. `AssertionError` with the log's tail unless they do and all
    pass; returns the log.
    """
    recipe = Recipe(
        title=f"building bench of {top}",
        top=top,
        verilog=verilog,
        controls=[public] if public else [],
        cpp=[RTL / "sim_main.cpp", *cpp],
        flags=["-O2", "--timing", "--assert", *([] if public else ["--public-flat-rw"])],
        make=["OPT_FAST=-O1", "OPT_SLOW=-O0", "OPT_GLOBAL=-O1"],
        parameters=parameters or {},
    )
    headers = [h for p in recipe.cpp for h in sorted(p.parent.glob("*.h"))]
    files = [*recipe.controls, *verilog, *recipe.cpp, *headers]
    key = f"bench-{top}-{digest([recipe.settings()], files)}"
    cache = BuildCache()
    with (
        cache.obtain(key, lambda path: cook(recipe, path, cache, lambda text: None)) as entry,
        tempfile.TemporaryDirectory(prefix="systola-bench-") as scratch,
    ):
        work = folder or Path(scratch)
        results = work / "results.xml"
        results.unlink(missing_ok=True)
        done = subprocess.run(
            [str(entry.path / "simulator"), *plusargs],
            cwd=work,
            env={**cocotb_environment(top, module, results), **(env or {})},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=timeout_s,
        )
        problem = check_results(results, done.returncode, at_least)
    tail = "\n".join(done.stdout.splitlines()[-60:])
    assert problem is None, f"{module} on {top}: {problem}\n{tail}"
    return done.stdout

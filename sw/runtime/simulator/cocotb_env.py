"""What cocotb needs to start inside a simulator, and what it leaves behind."""

import os
import sys
from pathlib import Path

from sw.runtime.simulator.errors import BuildError
from sw.runtime.simulator.generated import ROOT
from sw.runtime.simulator.verilator import cocotb_libs


def cocotb_environment(top: str, module: str, results: Path) -> dict[str, str]:
    """Environment in which a simulator of `top` runs the tests of `module`."""
    from cocotb_tools import config
    from find_libpython import find_libpython

    library = find_libpython()
    if library is None:
        raise BuildError(
            f"no shared libpython of {sys.executable} found, which cocotb needs; install it "
            "(Debian: libpython3-dev) or use a Python built with --enable-shared"
        )
    # cocotb's own settings of an outer run would apply to this one.
    outer = ("COCOTB_", "GPI_", "PYGPI_")
    env = {k: v for k, v in os.environ.items() if not k.startswith(outer)}
    libs = [str(cocotb_libs()), *filter(None, [env.get("LD_LIBRARY_PATH")])]
    env.update(
        GPI_USERS=f"{library};{config.pygpi_entry_point()}",
        PYGPI_PYTHON_BIN=sys.executable,
        PYTHONPATH=os.pathsep.join([str(ROOT), *filter(None, sys.path)]),
        LD_LIBRARY_PATH=os.pathsep.join(libs),
        COCOTB_TOPLEVEL=top,
        COCOTB_TEST_MODULES=module,
        COCOTB_RESULTS_FILE=str(results),
        COCOTB_TRUST_INERTIAL_WRITES="1",
        COCOTB_ANSI_OUTPUT="0",
        TOPLEVEL_LANG="verilog",
    )
    return env


def check_results(results: Path, exit_code: int, at_least: int = 1) -> str | None:
    """None if at least so many tests ran and all passed, else what is wrong."""
    from cocotb_tools.check_results import get_results

    try:
        tests, failures = get_results(results)
    except RuntimeError:
        return f"no test ran to its end (exit code {exit_code})"
    if tests < at_least:
        return f"{tests} tests ran, at least {at_least} expected"
    if failures or exit_code:
        return f"{failures} of {tests} tests failed (exit code {exit_code})"
    return None

"""No simulation outlives its parent, and none passes without its test having run."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from sim_programs import copy

from spec import preset
from spec.memmap import OFFSETS, Control
from sw.runtime.rtl import RtlDevice
from sw.runtime.simulator import process
from sw.runtime.simulator.cocotb_env import check_results
from sw.runtime.simulator.errors import SimulationError

TESTS = Path(__file__).parent
SCRIPT = """
import sys
from sim_programs import copy, deadlock
from spec import preset
from sw.runtime.rtl import RtlDevice
tiny = preset("tiny")
device = RtlDevice(tiny, watchdog=0)
device.load((deadlock if sys.argv[1] == "running" else copy)(tiny))
print(device.pid, flush=True)
if sys.argv[1] == "running":
    device.run()
else:
    import time
    time.sleep(1000)
"""


def alive(pid):
    """Whether `pid` runs (a zombie that init has not yet reaped does not)."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):  # it may end while it is read
        return False


def wait_for_end(pid, seconds=10):
    limit = time.monotonic() + seconds
    while alive(pid) and time.monotonic() < limit:
        time.sleep(0.05)
    return not alive(pid)


@pytest.mark.rtl
@pytest.mark.parametrize("state", ["running", "waiting"])
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_no_simulator_outlives_its_parent(state, how):
    RtlDevice(preset("tiny")).close()  # the build is not what is tested
    path = os.pathsep.join([str(TESTS), str(TESTS.parent)])
    parent = subprocess.Popen(
        [sys.executable, "-c", SCRIPT, state],
        env={**os.environ, "PYTHONPATH": path},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    pid = int(parent.stdout.readline())
    time.sleep(0.3)
    assert alive(pid) and parent.poll() is None
    parent.send_signal(how)
    parent.wait(20)
    parent.stdout.close()
    assert wait_for_end(pid)


@pytest.mark.rtl
def test_a_memory_file_that_is_cut_off_ends_the_simulator_with_a_message():
    image = copy(preset("tiny"))
    with RtlDevice(preset("tiny")) as device:
        device.load(image)
        device.prepare_memory()
        device._process.write(device.setup_registers())
        # From here on this process does not touch the memory: it would die of it as well.
        os.truncate(device._memory.memory_path, 0)
        with pytest.raises(SimulationError, match="dpi_memory: bus error: the file of the simulat"):
            device._process.run(OFFSETS["CONTROL"], Control.START, 100_000)


@pytest.mark.rtl
def test_a_simulation_whose_test_does_not_start_is_an_error(monkeypatch):
    monkeypatch.setattr(process, "TEST_MODULE", "cocotb_tests.no_such_module")
    with pytest.raises(SimulationError, match="ended unexpectedly") as error:
        RtlDevice(preset("tiny"))
    assert "no_such_module" in str(error.value)


@pytest.mark.rtl
def test_a_simulator_loads_no_plugin_of_pytest(monkeypatch):
    monkeypatch.setenv("PYTHONPROFILEIMPORTTIME", "1")
    with RtlDevice(preset("tiny")) as device:
        imported = device._process.log_path.read_text()
    assert "cocotb.regression" in imported and "xdist" not in imported


CASE = '<testcase name="serve"/>'
SUITE = '<testsuites><testsuite tests="{tests}" failures="{failures}" errors="0">{case}</testsuite>'


@pytest.mark.parametrize(
    ("tests", "failures", "code", "problem"),
    [
        (1, 0, 0, None),
        (0, 0, 0, "0 tests ran, at least 1 expected"),
        (1, 1, 0, "1 of 1 tests failed (exit code 0)"),
        (1, 0, 7, "0 of 1 tests failed (exit code 7)"),
    ],
)
def test_results_count_only_when_a_test_ran_and_passed(tmp_path, tests, failures, code, problem):
    results = tmp_path / "results.xml"
    suite = SUITE.format(tests=tests, failures=failures, case=CASE * tests)
    results.write_text(suite + "</testsuites>")
    assert check_results(results, code) == problem


def test_missing_results_are_a_failure(tmp_path):
    problem = check_results(tmp_path / "results.xml", 0)
    assert problem == "no test ran to its end (exit code 0)"

"""What is started guarded ends with its starter, with all that it started in turn."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from test_sim_process import alive, wait_for_end

from sw.runtime.simulator.guarded import Guarded, run_guarded

ROOT = Path(__file__).resolve().parent.parent
# Three generations: a shell, its child, and one in the background.
FAMILY = ["sh", "-c", "sleep 1000 & echo $$ $!; sleep 1000; true"]
STARTER = f"""
import subprocess, sys, time
from sw.runtime.simulator.guarded import Guarded, run_guarded
tool = Guarded({FAMILY!r}, stdout=subprocess.PIPE)
print(tool.process.stdout.readline().decode(), flush=True)
time.sleep(1000)
"""


def started(tool: Guarded) -> list[int]:
    return [int(word) for word in tool.process.stdout.readline().split()]


def test_exit_code_and_output_are_the_programs() -> None:
    tool = Guarded(["sh", "-c", "echo out; exit 7"], stdout=subprocess.PIPE)
    assert tool.process.stdout.read() == b"out\n"
    assert tool.wait() == 7


def test_death_by_a_signal_is_passed_on() -> None:
    assert Guarded(["sh", "-c", "kill -TERM $$"]).wait() == -signal.SIGTERM
    assert Guarded(["sh", "-c", "kill -KILL $$"]).wait() == -signal.SIGKILL


def test_a_program_that_is_not_there_is_an_error_and_no_hang(capfd) -> None:
    assert Guarded(["no-such-program"]).wait() == 127
    assert capfd.readouterr().err == "no-such-program: No such file or directory\n"


def test_what_a_program_leaves_running_ends_with_it() -> None:
    tool = Guarded(["sh", "-c", "sleep 1000 & echo $!"], stdout=subprocess.PIPE)
    (left,) = started(tool)
    assert tool.wait() == 0
    assert wait_for_end(left)


def test_kill_ends_the_whole_group_and_may_be_repeated() -> None:
    tool = Guarded(FAMILY, stdout=subprocess.PIPE)
    family = started(tool)
    assert all(map(alive, family))
    tool.kill()
    tool.kill()
    assert all(map(wait_for_end, family))


def test_a_stopped_program_is_waited_for() -> None:
    tool = Guarded(["sh", "-c", "echo $$; kill -STOP $$; exit 3"], stdout=subprocess.PIPE)
    (pid,) = started(tool)
    time.sleep(0.2)
    assert alive(pid)
    os.kill(pid, signal.SIGCONT)
    assert tool.wait(10) == 3


@pytest.mark.parametrize("whom", ["starter", "starter's group", "guard"])
def test_nothing_outlives_its_starter(whom: str) -> None:
    parent = subprocess.Popen(
        [sys.executable, "-c", STARTER],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        start_new_session=True,
    )
    family = [int(word) for word in parent.stdout.readline().split()]
    assert all(map(alive, family))
    if whom == "starter":
        parent.kill()
    elif whom == "starter's group":
        os.killpg(parent.pid, signal.SIGKILL)
    else:
        stat = Path(f"/proc/{family[0]}/stat").read_text()
        os.kill(int(stat.rpartition(")")[2].split()[1]), signal.SIGTERM)
    assert all(map(wait_for_end, family))
    parent.kill()
    parent.wait()
    parent.stdout.close()


BUILDER = f"""
import sys
from pathlib import Path
from sw.runtime.simulator.recipe import _Runner
_Runner("a build", Path(sys.argv[1]), print)({FAMILY!r})
"""


def test_the_compiler_of_a_build_ends_with_whoever_wanted_the_build(tmp_path: Path) -> None:
    log = tmp_path / "build.log"
    parent = subprocess.Popen(
        [sys.executable, "-c", BUILDER, str(log)], env={**os.environ, "PYTHONPATH": str(ROOT)}
    )
    limit = time.monotonic() + 20
    family: list[int] = []
    while not family and time.monotonic() < limit:
        time.sleep(0.05)
        # The command, then what it printed.
        lines = log.read_text().splitlines() if log.exists() else []
        family = [int(word) for word in lines[1].split()] if len(lines) > 1 else []
    assert len(family) == 2 and all(map(alive, family))
    parent.kill()
    parent.wait()
    assert all(map(wait_for_end, family))


def test_output_and_errors_come_together() -> None:
    done = run_guarded(["sh", "-c", "echo out; echo err >&2; exit 3"])
    assert (done.returncode, done.stdout) == (3, "out\nerr\n")


SYNTHESIS = """
import sys
from pathlib import Path
from sw.synth.recipe import MARK
from sw.synth.tools import Tool
from sw.synth.yosys import run_yosys
family = f"sleep 1000 & echo '{MARK}' $$ $!; sleep 1000; true"
run_yosys(Tool(("sh", "-c", family), "none"), "", Path(sys.argv[1]), lambda s: print(s, flush=True))
"""


def test_synthesis_ends_with_whoever_started_it(tmp_path: Path) -> None:
    """Its Yosys, and what that started, when a worker of a sweep is killed."""
    starter = subprocess.Popen(
        [sys.executable, "-c", SYNTHESIS, str(tmp_path)], stdout=subprocess.PIPE, cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert starter.stdout is not None
    text = starter.stdout.readline().decode()
    family = [int(word) for word in re.findall(r"\d+", text)]
    assert len(family) == 2 and all(map(alive, family))
    starter.kill()
    starter.wait()
    assert all(map(wait_for_end, family))

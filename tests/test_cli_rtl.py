"""The command line on the RTL: verdicts, faults of bad images, waves, Ctrl-C."""

import json
import os
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path

import numpy as np
import pytest
from cli_helpers import ROOT, copy_image, environment, image_with_bytes, systola
from test_cli_commands import refused
from test_cli_report import KEYS, TIMED

from spec.isa import Engine

pytestmark = [pytest.mark.rtl, pytest.mark.timeout(900)]


def test_matmul_passes_with_figures(tmp_path):
    code, out, err = systola(
        "sim", "matmul", "--shape", "9x10x7", "-c", "tiny", "--verify", "--json", tmp_path / "r"
    )
    assert code == 0, err
    assert "PASS  RTL = golden model: 63 elements, 0 differences" in out
    assert "PASS  golden model = TOSA reference model: 63 elements, 0 differences" in out
    facts = json.loads((tmp_path / "r").read_text())
    assert set(facts) == KEYS | TIMED
    assert facts["bit_exact"] is True
    assert facts["cycles"] > 9 * 10 * 7 / 16
    assert facts["utilization"] == pytest.approx(9 * 10 * 7 / (16 * facts["cycles"]))
    assert facts["dram_write_bytes"] == 63
    assert facts["dram_read_bytes"] >= 9 * 10 + 10 * 7
    for engine, row in facts["counters"].items():
        assert sum(row.values()) == facts["cycles"], engine
    assert set(facts["counters"]) == {e.name.lower() for e in Engine}


def test_latency_and_stalls_change_cycles_but_no_bits(tmp_path):
    cycles = []
    for options in ([], ["--latency", "400", "--stall", "0.3", "--seed", "7"]):
        code, out, err = systola(
            "sim", "matmul", "--shape", "5x6x7", "-c", "tiny", "--json", tmp_path / "r", *options
        )
        assert code == 0, err
        assert "PASS  RTL = golden model: 35 elements" in out
        cycles.append(json.loads((tmp_path / "r").read_text())["cycles"])
    assert cycles[1] > cycles[0] + 300


def test_exec_runs_an_image(tmp_path):
    copy_image().save(tmp_path / "copy")
    x = np.arange(64, dtype=np.int8)
    np.save(tmp_path / "x.npy", x)
    code, out, err = systola(
        "exec", tmp_path / "copy", "--input", f"x={tmp_path / 'x.npy'}", "--out", tmp_path
    )
    assert code == 0, err
    assert "PASS  RTL = golden model: 64 elements, 0 differences" in out
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), x)


@pytest.mark.parametrize(
    ("position", "value", "text"),
    [
        (16, 0x77, "instruction 1: offset 0x10: illegal opcode 0x77"),
        (17, 9, "instruction 1: offset 0x10: LOAD.granules: value 9 must be 6"),
        (18, 0x40, "instruction 1: offset 0x10: LOAD.flags: value 1 is reserved and must be 0"),
    ],
)
def test_illegal_instruction_stops_the_rtl_with_a_message(tmp_path, position, value, text):
    image_with_bytes(position, value).save(tmp_path / "bad")
    assert refused("exec", tmp_path / "bad") == f"ILLEGAL_INSTRUCTION in fetch, {text}"


def test_program_for_another_machine_is_refused_by_the_hardware(tmp_path):
    image_with_bytes(8, 0x00).save(tmp_path / "bad")  # a byte of BEGIN's configuration digest
    message = refused("exec", tmp_path / "bad")
    assert message.startswith("DIGEST_MISMATCH in fetch, instruction 0: begin ")


def test_waves_lie_where_the_report_says(tmp_path):
    code, out, err = systola(
        "sim", "matmul", "--shape", "2x2x2", "-c", "tiny", "--waves", cwd=tmp_path
    )
    assert code == 0, err
    path = tmp_path / "build" / "waves" / "matmul-tiny-seed0.vcd"
    assert str(path) in out
    assert path.stat().st_size > 1000
    assert "$enddefinitions" in path.read_text()


def processes(mark):
    """Command lines of running processes that inherited `mark` in their environment."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if mark.encode() in (folder / "environ").read_bytes():
                found[int(folder.name)] = (folder / "cmdline").read_bytes()
        except OSError:
            continue
    return found


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="needs Linux's /proc")
@pytest.mark.parametrize("whole_group", [True, False], ids=["terminal", "parent only"])
def test_interrupt_leaves_no_simulator(whole_group):
    mark = f"SYSTOLA_TEST={uuid.uuid4()}"
    command = [sys.executable, "-m", "systola", "sim", "matmul", "-c", "tiny"]
    process = subprocess.Popen(
        [*command, "--shape", "512x512x512"],
        cwd=ROOT,
        env={**environment(), "SYSTOLA_TEST": mark.partition("=")[2]},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        deadline = time.monotonic() + 600
        while not any(b"+memory=" in line for line in processes(mark).values()):
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < deadline, "no simulator was started"
            time.sleep(0.2)
        time.sleep(1.0)  # into the run itself
        if whole_group:
            os.killpg(process.pid, signal.SIGINT)
        else:
            process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=30)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
    assert process.returncode == 130, out + err
    assert "Traceback" not in err
    deadline = time.monotonic() + 5
    while processes(mark) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert processes(mark) == {}

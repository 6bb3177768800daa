"""The simulated AXI4 memory, on buses of every width that a configuration may have."""

import errno
import os
import re
import subprocess
import sys
from dataclasses import replace

import pytest
from cli_helpers import ROOT, copy_image

from cocotb_tests.harness.bench import run_bench
from sw.runtime.simulator.control import SharedMemory
from sw.runtime.simulator.errors import SimulationError
from sw.runtime.simulator.generated import RTL
from sw.runtime.simulator.layout import MemoryLayout


@pytest.mark.rtl
@pytest.mark.parametrize("bus_bytes", [8, 16, 64])
def test_memory_bench_passes(tmp_path, bus_bytes):
    memory = SharedMemory(tmp_path, 1 << 30, 1 << 16)
    run_bench(
        "cocotb_tests.memory_bench",
        "dpi_memory",
        [RTL / "dpi_memory.sv"],
        cpp=[RTL / "dpi_memory.cpp"],
        parameters={"BUS_BYTES": bus_bytes},
        plusargs=[f"+memory={memory.memory_path}", f"+control={memory.control_path}"],
        env={"SYSTOLA_MEMORY": str(tmp_path)},
        at_least=6,
    )


def test_memory_grows_and_keeps_its_contents(tmp_path):
    memory = SharedMemory(tmp_path, 1 << 30, 4096)
    memory.data[:4] = [1, 2, 3, 4]
    memory.resize(5000)
    assert memory.data.size == 8192
    assert memory.data[:4].tolist() == [1, 2, 3, 4]
    memory.resize(100)
    assert memory.data.size == 8192


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"latency": 0}, "latency=0: must lie in 1…1000000 cycles"),
        ({"stall": 1.0}, "stall=1.0: must be a probability of at most 0.95"),
    ],
)
def test_impossible_settings_are_refused(tmp_path, setting, message):
    memory = SharedMemory(tmp_path, 1 << 30)
    with pytest.raises(SimulationError) as error:
        memory.configure(**setting)
    assert str(error.value) == message


def test_the_blocks_of_the_memory_are_its_own(tmp_path):
    memory = SharedMemory(tmp_path, 1 << 30, 1 << 20)
    memory.resize(3 << 20)
    for path in (memory.memory_path, memory.control_path):
        facts = path.stat()
        assert facts.st_blocks * 512 >= facts.st_size > 0


NO_ROOM = (
    r"simulated memory in {folder}: {reason}; 4,194,304 bytes wanted, [0-9,]+ free; set TMPDIR to "
    r"a folder {where}"
)


def test_a_full_disk_is_said_and_the_memory_stays_as_it_was(tmp_path, monkeypatch):
    memory = SharedMemory(tmp_path, 1 << 30, 1 << 20)
    memory.data[:3] = [1, 2, 3]

    def full(file, start, size):
        os.pwrite(file, b"x", start + size // 2)  # what went well before the disk was full
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "posix_fallocate", full)
    message = NO_ROOM.format(
        folder=re.escape(str(tmp_path)), reason="No space left on device", where="on a larger disk"
    )
    with pytest.raises(SimulationError, match=f"^{message}$"):
        memory.resize(5 << 20)
    assert memory.memory_path.stat().st_size == memory.data.size == 1 << 20
    assert memory.data[:3].tolist() == [1, 2, 3]
    with pytest.raises(SimulationError, match="No space left on device"):
        SharedMemory(tmp_path, 1 << 30)


def test_a_limit_of_file_sizes_is_said(tmp_path):
    code = (
        "import resource, sys, pathlib\n"
        "from sw.runtime.simulator.control import SharedMemory\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))\n"
        f"SharedMemory(pathlib.Path({str(tmp_path)!r}), 1 << 30, 4 << 20)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, timeout=60
    )
    message = NO_ROOM.format(
        folder=re.escape(str(tmp_path)), reason="File too large", where="elsewhere"
    )
    assert done.returncode == 1
    assert re.search(message, done.stderr)


def test_a_file_system_that_cannot_reserve_is_written(tmp_path, monkeypatch):
    def unsupported(file, start, size):
        raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))

    monkeypatch.setattr(os, "posix_fallocate", unsupported)
    memory = SharedMemory(tmp_path, 1 << 30, (5 << 19) + 1)
    facts = memory.memory_path.stat()
    assert facts.st_size == memory.data.size == (5 << 19) + 4096
    assert facts.st_blocks * 512 >= facts.st_size


def test_a_program_that_the_address_bits_do_not_reach_is_refused():
    config = replace(copy_image().config, axi_addr_bits=32, name="narrow")
    image = replace(copy_image(), config=config, temp_bytes=3 << 30)
    with pytest.raises(
        SimulationError, match=r"from address 0x40000000 on; configuration narrow h"
    ):
        MemoryLayout(image, 1 << 30)
    MemoryLayout(replace(image, temp_bytes=2 << 30), 1 << 30)

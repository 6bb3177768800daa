"""The simulated AXI4 memory, on buses of every width that a configuration may have."""

import pytest

from cocotb_tests.harness.bench import run_bench
from sw.runtime.simulator.build import RTL
from sw.runtime.simulator.control import SharedMemory
from sw.runtime.simulator.errors import SimulationError


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

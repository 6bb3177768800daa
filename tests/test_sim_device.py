"""The RTL device: many programs on one simulation, faults, limits, crashes."""

import os
import signal
import struct

import numpy as np
import pytest
from sim_programs import SIZE, begin, copy, deadlock, image, load, store

from spec import ImageError, Instruction, Opcode, preset
from spec.isa import Engine, encode_program
from spec.program import REGION_INPUT, REGION_OUTPUT
from sw.runtime.rtl import DeviceFault, RtlDevice
from sw.runtime.simulator.control import READ, WRITE
from sw.runtime.simulator.errors import SimulationError

pytestmark = pytest.mark.rtl
TINY = preset("tiny")


@pytest.fixture(scope="module")
def device():
    with RtlDevice(TINY) as opened:
        yield opened


@pytest.fixture(autouse=True)
def usual_memory(request):
    """A test may change the memory; the next one finds it as it was."""
    yield
    if "device" in request.fixturenames:
        opened = request.getfixturevalue("device")
        opened.set_memory(latency=100, stall=0.0, seed=0)
        opened.max_cycles, opened.watchdog = 10**9, None


def data(seed=0):
    return np.random.default_rng(seed).integers(-128, 128, SIZE, dtype=np.int8)


def run_copy(device, seed=0):
    device.load(copy(TINY))
    device.write("x", data(seed))
    result = device.run()
    assert np.array_equal(device.read("y"), data(seed))
    return result


def test_programs_follow_each_other_on_one_simulation(device):
    pid = device.pid
    for seed in range(5):
        run_copy(device, seed)
    assert device.pid == pid


def test_counters_of_each_engine_sum_to_the_cycles(device):
    result = run_copy(device)
    beats = -(-SIZE // TINY.bus_bytes)
    assert set(result.counters) == {e.name.lower() for e in Engine}
    for engine, row in result.counters.items():
        assert sum(row.values()) == result.cycles, engine
    assert result.write_bytes == SIZE
    assert result.read_bytes >= beats * TINY.bus_bytes
    assert 2 * 100 + 2 * beats <= result.cycles <= 2000
    assert result.wall_s > 0


def test_a_result_of_an_earlier_run_is_gone(device):
    run_copy(device)
    device.load(image(TINY))
    device.run()
    assert np.all(device.read("y").view(np.uint8) == 0xA5)


def test_memory_behaviour_changes_cycles_and_not_results(device):
    settings = ((1, 0, 0), (400, 0, 0), (100, 0.4, 1), (100, 0.4, 2))
    cycles = []
    for latency, stall, seed in settings * 2:
        device.set_memory(latency=latency, stall=stall, seed=seed)
        cycles.append(run_copy(device).cycles)
    assert cycles[:4] == cycles[4:], "runs repeat exactly"
    assert len(set(cycles)) == 4


def test_an_image_of_another_configuration_is_refused(device):
    with pytest.raises(ImageError, match="compile it again with --config tiny"):
        device.load(copy(preset("small")))


def test_running_without_a_program_says_so():
    with RtlDevice(TINY) as fresh, pytest.raises(SimulationError, match=r"call load\(image\)"):
        fresh.run()


@pytest.mark.parametrize(
    ("region", "access", "engine"), [(REGION_INPUT, READ, "load"), (REGION_OUTPUT, WRITE, "store")]
)
def test_a_memory_error_is_a_fault_of_its_engine(device, region, access, engine):
    device.load(copy(TINY))
    device.write("x", data())
    device.inject_errors(region, 500, 8, access)
    with pytest.raises(DeviceFault) as fault:
        device.run()
    index = 1 if engine == "load" else 2
    assert (fault.value.cause, fault.value.engine) == ("AXI_ERROR", engine)
    assert fault.value.instruction == index
    assert f"AXI_ERROR in {engine}, instruction {index}: {engine} " in str(fault.value)
    run_copy(device)


def test_an_illegal_opcode_is_a_fault(device):
    good = encode_program([begin(TINY), load()])
    bad = struct.pack("<BB", 0x77, 1).ljust(16, b"\0")
    device.load(image(TINY, program=good + bad + encode_program([Instruction(Opcode.END)])))
    with pytest.raises(DeviceFault) as fault:
        device.run()
    assert fault.value.cause == "ILLEGAL_INSTRUCTION"
    assert (fault.value.engine, fault.value.instruction) == ("fetch", 2)
    assert "illegal opcode 0x77" in str(fault.value)
    run_copy(device)


def test_a_program_of_another_configuration_is_a_fault(device):
    program = encode_program([begin(preset("small")), Instruction(Opcode.END)])
    device.load(image(TINY, program=program))
    with pytest.raises(DeviceFault) as fault:
        device.run()
    assert fault.value.cause == "DIGEST_MISMATCH"
    run_copy(device)


def test_an_access_outside_the_regions_is_a_fault_that_names_it(device):
    for base, run in ((1 << 20, SIZE), (1, SIZE), ((1 << 40) - 1, 1)):
        device.load(image(TINY, load(mem_base=base, run=run), store()))
        with pytest.raises(DeviceFault, match="OUTSIDE_REGION in load, instruction 1: ") as fault:
            device.run()
        text = f"a run from byte {base} of region 1 on does not lie inside its {SIZE} bytes"
        assert text in str(fault.value)
        assert (fault.value.region, fault.value.offset) == (1, base)
        assert device.memory_report().rejected == 0
        run_copy(device)


def test_the_watchdog_ends_a_deadlock(device):
    device.watchdog = 2000
    device.load(deadlock(TINY))
    with pytest.raises(DeviceFault, match="WATCHDOG"):
        device.run()
    run_copy(device)


def test_a_run_has_a_limit_of_cycles(device):
    device.watchdog, device.max_cycles = 0, 5000
    device.load(deadlock(TINY))
    with pytest.raises(SimulationError) as error:
        device.run()
    assert "does not end within 5000 cycles" in str(error.value)
    assert "  store: 1: store wait(s0x1@0:DONE)" in str(error.value)
    device.max_cycles = 10**6
    run_copy(device)


def test_a_crash_of_the_simulator_is_reported_with_its_log():
    crashed = RtlDevice(TINY)
    os.kill(crashed.pid, signal.SIGKILL)
    crashed.load(copy(TINY))
    with pytest.raises(SimulationError) as error:
        crashed.run()
    assert "ended unexpectedly (exit code -9)" in str(error.value)
    assert "last lines of its log" in str(error.value)
    with pytest.raises(SimulationError, match="closed"):
        crashed.run()
    crashed.kill()


@pytest.mark.slow
def test_waves_are_recorded(tmp_path):
    waves = tmp_path / "deep" / "copy.vcd"
    with RtlDevice(TINY, waves=waves) as traced:
        run_copy(traced)
    text = waves.read_text()
    assert "$enddefinitions" in text
    assert "dut" in text and "araddr" in text
    assert text.count("\n#") > 1000

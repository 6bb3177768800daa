"""The simulated DRAM: when an access has its data, by the figures of data sheets."""

from pathlib import Path

import numpy as np
import pytest
from dram_driver import built, served

from golden_model import Machine
from spec import preset
from spec.dram import DDR4_2400, IDEAL, LPDDR4_3200, MEMORIES, Dram, MemoryNameError, dram_named
from sw.compiler import compile_graph
from sw.models.kernels import kernel
from sw.runtime.rtl import RtlDevice
from sw.runtime.session import DeviceOptions
from sw.runtime.simulator.control import DRAM

FAR = 1 << 30


@pytest.fixture(scope="module")
def program(tmp_path_factory) -> Path:
    return built(tmp_path_factory.mktemp("dram"))


def test_a_read_waits_for_its_row_and_the_next_only_for_the_bus(program: Path) -> None:
    dram, group = DDR4_2400, 4 * 64
    first, other, same = served(program, dram, [("r", 100, 0), ("r", 100, 64), ("r", 100, group)])
    # 20 ns of the controller, tRCD (14.16 ns are 17 clocks), CL 17, and 4 clocks of data.
    assert first - 100 == pytest.approx(24 + 17 + 17 + 4, abs=1)
    # The other group's row: tRRD_S is 4 clocks; then the same group as the first, 6 clocks on.
    assert other - first == 4 and same - first == 8


def test_accesses_to_one_bank_group_are_further_apart(program: Path) -> None:
    done = served(program, DDR4_2400, [("r", 100, 256 * i) for i in range(20)])
    assert set(np.diff(done)) <= {6, 7} and done[-1] - done[0] <= 6 * 19 + 1


def test_another_row_of_the_bank_waits_for_precharge_and_activation(program: Path) -> None:
    dram = DDR4_2400
    row = dram.page_bytes * dram.groups
    # Rows are spread over banks with their number mixed in: find two that meet.
    cycles = [served(program, dram, [("r", 100, 0), ("r", 300, row * n)]) for n in range(1, 17)]
    waits = sorted(b - 300 for _, b in cycles)
    # Open: none of these; closed: tRCD more than an open row; conflict: tRP more than that.
    assert waits[0] == pytest.approx(24 + 17 + 17 + 4, abs=1)
    assert waits[-1] == pytest.approx(24 + 17 + 17 + 17 + 4, abs=1)


def test_a_read_behind_writes_waits_for_the_turnaround(program: Path) -> None:
    writes = [("w", 100, 64 * i) for i in range(4)]
    quiet = served(program, DDR4_2400, [("r", 400, 1024)])[0]
    after = served(program, DDR4_2400, [*writes, ("r", 115, 1024), ("r", 200, 1024)])
    assert after[4] - 115 > quiet - 400
    # What was written is answered by the controller, long before the bank has it.
    assert all(done - 100 in (24, 25) for done in after[:4])


@pytest.mark.parametrize("dram", [DDR4_2400, LPDDR4_3200], ids=["ddr4", "lpddr4"])
def test_no_more_writes_are_taken_than_wait_or_have_their_time_on_the_bus(
    program: Path, dram: Dram
) -> None:
    """A write a cycle, which is more than the bus moves: the queue is full, until it has moved
    them."""
    writes = [("w", cycle, dram.access_bytes * cycle) for cycle in range(170)]
    later = 170 + round(170 * dram.access_bytes / dram.bytes_per_cycle()) + 1000
    *_, full, empty = served(program, dram, [*writes, ("f", 170, 0), ("f", later, 0)])
    assert (full, empty) == (1, 0)


def test_parts_of_an_access_move_once(program: Path) -> None:
    parts = [("r", 100 + i, 64 * (i // 4)) for i in range(400)]
    whole = [("r", 100 + 4 * i, 64 * i) for i in range(100)]
    assert abs(served(program, DDR4_2400, parts)[-1] - served(program, DDR4_2400, whole)[-1]) <= 4


def test_refresh_closes_rows_and_stops_all_banks(program: Path) -> None:
    every = round(DDR4_2400.refresh_every * 1.2)
    before, during = served(program, DDR4_2400, [("r", every - 500, 0), ("r", every + 1, 64)])
    assert before - (every - 500) < 70
    # 350 ns are 420 clocks.
    assert during - every == pytest.approx(420 + 24 + 17 + 17 + 4, abs=30)


@pytest.mark.parametrize(("dram", "least"), [(DDR4_2400, 0.93), (LPDDR4_3200, 0.9)])
def test_a_stream_has_nearly_the_peak(program: Path, dram: Dram, least: float) -> None:
    count = 20_000
    per_access = dram.access_bytes / dram.bytes_per_cycle()
    # Asked for as a port with 1 KiB of reads under way does.
    asked = [("r", int(100 + max(0, i - 16) * per_access), 64 * i) for i in range(count)]
    done = served(program, dram, asked)
    assert least < count * per_access / (done[-1] - 100) <= 1.001


def test_time_goes_by_the_clock_of_the_npu() -> None:
    slow, fast = DDR4_2400.picoseconds(300), DDR4_2400.picoseconds()
    assert slow["cycle"] == 3333 and fast["cycle"] == 833
    assert {k: v for k, v in slow.items() if k != "cycle"} == {
        k: v for k, v in fast.items() if k != "cycle"
    }
    assert DDR4_2400.bytes_per_cycle() == 16 and DDR4_2400.bytes_per_cycle(600) == 32
    assert LPDDR4_3200.bytes_per_s == 12.8e9


def test_names_of_memories() -> None:
    assert dram_named(IDEAL) is None and dram_named("ddr4") is DDR4_2400
    assert all(tuple(d.picoseconds()) == DRAM for d in MEMORIES.values() if d is not None)
    with pytest.raises(MemoryNameError, match="--memory ddr5: must be one of ideal, ddr4, lpddr4"):
        DeviceOptions(memory="ddr5")


@pytest.mark.parametrize("memory", ["ddr4", "lpddr4"])
def test_results_are_the_same_and_take_longer(memory: str) -> None:
    config, work = preset("tiny"), kernel("conv2d", {"h": 9, "w": 9, "c": 20, "oc": 12})
    image = compile_graph(work.graph, config)
    want = Machine(config).run(image, work.inputs)
    cycles = []
    with RtlDevice(config, stall=0.1, seed=3, watchdog=100_000) as device:
        for name in (IDEAL, memory):
            device.set_memory(latency=1, stall=0.1, memory=name)
            device.load(image)
            for port, array in work.inputs.items():
                device.write(port, array)
            cycles.append(device.run().cycles)
            for port in image.outputs:
                assert np.array_equal(device.read(port.name), want[port.name])
    assert cycles[1] > cycles[0]


def test_a_run_takes_the_same_cycles_whatever_ran_before() -> None:
    shape = {"h": 32, "w": 32, "c": 32, "k": 2, "s": 2}
    config, work = preset("tiny"), kernel("max_pool2d", shape)
    image = compile_graph(work.graph, config)
    with RtlDevice(config, memory="lpddr4") as device:
        device.load(image)
        for port, array in work.inputs.items():
            device.write(port, array)
        cycles = {device.run().cycles for _ in range(4)}
    assert len(cycles) == 1, cycles

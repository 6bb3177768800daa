"""What LOADs and STOREs cost behind a DRAM, as the prediction has it."""

import pytest

from spec import preset
from spec.dram import DDR4_2400, IDEAL, MEMORIES
from sw.compiler.machine.costs import MEMORY_LATENCY
from sw.compiler.pipeline import compile_graph
from sw.compiler.program.channel import MemoryChannel
from sw.compiler.program.records import DmaLoop, Load, Store
from sw.models.kernels import kernel
from sw.runtime.timing import Timing

DDR4 = MemoryChannel.of("ddr4")
REFRESHED = 1 - DDR4_2400.refresh / DDR4_2400.refresh_every


def load(run: int, *loops: tuple[int, int]) -> Load:
    """A LOAD of `run` bytes a step; loops: (count, bytes to the next), the outermost first."""
    return Load(run=run, loop=[DmaLoop(count=count, mem=step) for count, step in loops])


def test_the_ideal_memory_is_as_fast_as_the_bus() -> None:
    ideal = MemoryChannel.of(IDEAL)
    assert ideal.latency == MEMORY_LATENCY
    assert ideal.work(load(64, (100, 64))) == ideal.stream(1000) == 0


@pytest.mark.parametrize(
    "record", [load(6400), load(64, (100, 64)), load(16, (100, 64)), load(8, (10, 640), (80, 8))]
)
def test_a_stream_has_the_peak_less_refreshes(record: Load) -> None:
    assert DDR4.work(record) == pytest.approx(6400 / 16 / REFRESHED)


def test_accesses_to_one_bank_group_are_further_apart() -> None:
    assert DDR4.work(load(64, (100, 256))) == pytest.approx(600 / REFRESHED)
    assert DDR4.work(load(64, (100, 192))) == pytest.approx(400 / REFRESHED)


def test_rows_that_are_opened_for_an_access_each_are_four_in_a_window() -> None:
    each = DDR4_2400.four_activates / 4 * 1.2
    assert DDR4.work(load(64, (100, 1 << 16))) == pytest.approx(100 * each / REFRESHED)


def test_odd_pieces_touch_more_accesses() -> None:
    assert DDR4.work(load(65, (100, 256))) == pytest.approx(2 * 100 * 4 / REFRESHED)
    assert DDR4.work(load(24, (100, 264))) > DDR4.work(load(16, (100, 264)))


def test_a_fill_reads_nothing() -> None:
    assert DDR4.work(Load(run=6400, fill=1)) == 0


def test_writes_turn_the_bus_and_parts_of_those_that_wait_are_one() -> None:
    many, few = (DmaLoop(count=n, mem=64) for n in (1000, 100))
    whole, part = Store(run=64, loop=[many]), Store(run=16, loop=[many])
    assert DDR4.work(whole) == DDR4.work(part) > 1.2 * DDR4.work(load(64, (1000, 64)))
    assert DDR4.work(Store(run=16, loop=[few])) == pytest.approx(DDR4.work(whole) / 40)


def test_a_slower_npu_sees_a_faster_memory() -> None:
    half = MemoryChannel.of("ddr4", DDR4_2400.clock_mhz / 2)
    assert half.work(load(6400)) == pytest.approx(DDR4.work(load(6400)) / 2)
    assert half.latency == pytest.approx(DDR4.latency / 2)


def test_reports_predict_for_a_dram_at_its_own_clock() -> None:
    image = compile_graph(kernel("matmul", {"m": 64, "k": 64, "n": 64}).graph, preset("default"))
    cycles = [Timing.of(image, memory=name).predicted_cycles or 0 for name in MEMORIES]
    assert cycles[0] < cycles[1] < cycles[2], "ideal, ddr4, lpddr4"
    own = Timing.of(image, memory="ddr4", clock_mhz=1200)
    assert (own.predicted_cycles, own.predicted_with) == (cycles[1], "ddr4")
    assert own.facts()[0] == ("predicted cycles", f"{cycles[1]:,}")
    other = Timing.of(image, memory="ddr4", clock_mhz=500)
    assert (other.predicted_cycles, other.predicted_with) == (cycles[0], IDEAL)
    assert "with ideal memory, not ddr4 at this clock" in other.facts()[0][1]

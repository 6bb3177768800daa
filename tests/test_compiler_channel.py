"""What LOADs and STOREs cost behind a DRAM, as the prediction has it."""

import pytest

from spec import preset
from spec.dram import DDR4_2400, IDEAL, MEMORIES
from sw.compiler.machine.costs import MEMORY_LATENCY
from sw.compiler.pipeline import compile_graph
from sw.compiler.program.channel import MemoryChannel
from sw.compiler.program.records import DmaLoop, Load, Store
from sw.compiler.program.transfers import Transfer, transfer
from sw.compiler.program.virtual import VirtualInstruction, iterations
from sw.models.kernels import kernel
from sw.runtime.timing import Timing

DEFAULT = preset("default")
DDR4 = MemoryChannel.of("ddr4")


def load(run: int, *loops: tuple[int, int]) -> Load:
    """A LOAD of `run` bytes a step; loops: (count, bytes to the next), the outermost first."""
    return Load(run=run, loop=[DmaLoop(count=count, mem=step) for count, step in loops])


def moved(record: Load | Store) -> Transfer:
    instruction = VirtualInstruction(record=record, bases={}, accesses=[], layer=0)
    return transfer(instruction, iterations(record.loop, len(record.loop)), DEFAULT)


def work(record: Load, channel: MemoryChannel = DDR4) -> float:
    return channel.work(record, moved(record))


def test_the_ideal_memory_is_as_fast_as_the_bus() -> None:
    ideal = MemoryChannel.of(IDEAL)
    assert ideal.flight == MEMORY_LATENCY
    assert work(load(64, (100, 64)), ideal) == ideal.stream(1000) == 0


@pytest.mark.parametrize(
    "record", [load(6400), load(64, (100, 64)), load(16, (100, 64)), load(8, (10, 640), (80, 8))]
)
def test_a_stream_has_the_peak_between_refreshes(record: Load) -> None:
    assert work(record) == pytest.approx(6400 / 16)


def test_accesses_to_one_bank_group_are_further_apart() -> None:
    assert work(load(64, (100, 256))) == 600
    assert work(load(64, (100, 192))) == 400


def test_rows_that_are_opened_for_an_access_each_are_four_in_a_window() -> None:
    each = DDR4_2400.four_activates / 4 * 1.2
    assert work(load(64, (100, 1 << 16))) == pytest.approx(100 * each)


def test_odd_pieces_touch_more_accesses() -> None:
    assert work(load(65, (100, 256))) == pytest.approx(2 * 100 * 4)
    assert work(load(24, (100, 264))) > work(load(16, (100, 264)))


def test_a_fill_reads_nothing() -> None:
    assert work(Load(run=6400, fill=1)) == 0


@pytest.mark.parametrize(
    ("record", "words", "bursts", "pieces"),
    [
        (load(256, (4, 256)), 64, 4, 64),
        (load(16, (64, 16)), 64, 16, 64),
        (load(4, (64, 4)), 16, 4, 64),
        (load(16, (100, 64)), 100, 100, 100),
        (load(1, (5, 64), (10, 1), (3, 16)), 15, 5, 150),
        (load(1, (50, 128), (10, 1), (4, 32)), 2000, 2000, 2000),
        (load(24, (10, 24)), 15, 5, 20),
    ],
)
def test_a_load_fetches_a_word_once_while_it_has_it(
    record: Load, words: int, bursts: int, pieces: int
) -> None:
    found = moved(record)
    assert (found.words, found.pieces) == (pytest.approx(words, rel=0.02), pieces)
    assert found.bursts == pytest.approx(bursts, rel=0.1)


def test_a_store_writes_each_run_by_itself() -> None:
    found = moved(Store(run=4, loop=[DmaLoop(count=64, mem=4)]))
    assert (found.words, found.bursts, found.blocks) == (64, 64, 4)


def test_a_slower_npu_sees_a_faster_memory() -> None:
    half = MemoryChannel.of("ddr4", DDR4_2400.clock_mhz / 2)
    assert work(load(6400), half) == pytest.approx(work(load(6400)) / 2)
    assert half.flight == pytest.approx(DDR4.flight / 2)


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

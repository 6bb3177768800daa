"""What rows and writes of a DRAM cost a program, as the prediction has it."""

from collections.abc import Iterable
from pathlib import Path

import pytest
from dram_driver import built, served

from spec import preset
from spec.dram import MEMORIES, Dram
from spec.isa import GRANULE_BYTES, Instruction, Opcode
from sw.compiler import compile_graph
from sw.compiler.machine.costs import FETCH_ANSWER, FEW_WRITES, MANY_WRITES
from sw.compiler.program.channel import MemoryChannel
from sw.compiler.program.dram.addresses import Addresses
from sw.compiler.program.dram.open_rows import OpenRows
from sw.compiler.program.dram.paths import BLOCK_BYTES
from sw.compiler.program.dram.paths import Path as Way
from sw.compiler.program.dram.reads import DramReads
from sw.compiler.program.dram.refreshes import Lead
from sw.compiler.program.dram.writes import WriteQueue
from sw.compiler.program.program_fetch import ProgramFetch
from sw.compiler.program.transfers import Transfer
from sw.models.kernels import kernel
from sw.runtime.simulator.layout import MemoryLayout

DRAMS = [name for name, dram in MEMORIES.items() if dram is not None]
DEFAULT = preset("default")
SMALL_BURSTS = preset("small").with_settings({"bus_bytes": "8", "max_burst": "8"})
"""A burst is an access."""


def channel(name: str, program: int = 0) -> MemoryChannel:
    return MemoryChannel.of(name, addresses=Addresses(program=program))


def found(name: str) -> Dram:
    dram = MEMORIES[name]
    assert dram is not None
    return dram


@pytest.fixture(scope="module")
def driver(tmp_path_factory) -> Path:
    return built(tmp_path_factory.mktemp("dram"))


def reads(name: str, program: int) -> DramReads:
    """The program is at `program`; LOADs are numbers 0 and 1."""
    memory = channel(name, program)
    return DramReads(SMALL_BURSTS, memory, [None, None], WriteQueue(memory))


def stream(blocks: int, base: int = 0) -> Transfer:
    """A LOAD of so many accesses in a row."""
    size = blocks * BLOCK_BYTES
    return Transfer(size / 8, blocks, blocks, size / 8, (), Way(base, size))


def meeting(name: str, row: int) -> int:
    """An address in the bank of address 0, in a row from `row` on."""
    rows, size = OpenRows(channel(name)), found(name)
    bytes_of_row = size.page_bytes * size.groups
    return next(
        at
        for number in range(max(1, row), 1000)
        if rows.where((at := number * bytes_of_row) // BLOCK_BYTES)[0] == 0
    )


def test_program_and_regions_are_where_the_simulator_has_them() -> None:
    image = compile_graph(kernel("matmul", {"m": 64, "k": 64, "n": 64}).graph, preset("default"))
    layout = MemoryLayout(image, 1 << 30)
    addresses = Addresses.of(image, [each for _, each in image.listing()])
    assert addresses.program == addresses.fetched(0) == layout.program.offset
    assert addresses.regions == tuple(span.offset for span in layout.regions.values())
    assert addresses.place((2 << 40) + 70) == layout.regions[2].offset + 70
    assert addresses.executed == image.program.size


def test_a_repeated_section_is_read_again_from_where_it_is_stored() -> None:
    image = compile_graph(kernel("matmul", {"m": 8, "k": 8, "n": 8}).graph, preset("default"))
    begin, end = Instruction(Opcode.BEGIN), Instruction(Opcode.END)
    load = Instruction(Opcode.LOAD)
    section = 2 * load.format.granules
    again = Instruction(Opcode.REPEAT, {"count": 2, "section": section})
    addresses = Addresses.of(image, [begin, load, load, again, end])
    size, first = section * GRANULE_BYTES, begin.format.granules * GRANULE_BYTES
    for turn in range(3):
        assert addresses.fetched(first + turn * size + 16) == addresses.program + first + 16
    behind = first + size + again.format.granules * GRANULE_BYTES
    assert addresses.fetched(first + 3 * size) == addresses.program + behind
    assert addresses.executed == first + 3 * size + end.format.granules * GRANULE_BYTES


@pytest.mark.parametrize("name", DRAMS)
def test_rows_meet_where_they_do_in_the_simulated_dram(driver: Path, name: str) -> None:
    """Of two reads far apart in time, the second is as late as its bank says."""
    dram, rows = found(name), OpenRows(channel(name))
    for number in range(1, 40):
        address = number * dram.page_bytes * dram.groups
        first, second = served(driver, dram, [("r", 100, 0), ("r", 600, address)])
        state = rows.read(None, rows.where(0)[1], 100, 100)
        bank, row = rows.where(address // BLOCK_BYTES)
        late = rows.command(state if bank == rows.where(0)[0] else None, row, 600, 600) - 600
        open_row = first - 100 - rows.activate
        assert second - 600 - open_row == pytest.approx(late, abs=1.1)


def asked(program: Iterable[int], burst: int, load: int) -> list[tuple[str, int, int]]:
    """A LOAD of `load` accesses, one a cycle from 100 on, and a burst of the program at 120."""
    ours = [("r", 100 + i, BLOCK_BYTES * i) for i in range(load)]
    between = [("r", 100 + burst, at) for at in program]
    return [*ours[:burst], *between, *ours[burst:]]


@pytest.mark.parametrize("name", DRAMS)
@pytest.mark.parametrize("meets", [True, False])
def test_a_burst_of_the_program_between_those_of_a_load(
    driver: Path, name: str, meets: bool
) -> None:
    """It waits for its row behind the LOAD's, and the LOAD for its own again, if both are in one
    bank: as late as in the simulated DRAM.
    """
    dram, memory = found(name), channel(name)
    program = meeting(name, 20) + (0 if meets else BLOCK_BYTES * dram.groups * 300)
    quiet = served(driver, dram, asked([], 20, 40))
    # The program's row is open: it has been read before.
    done = served(driver, dram, asked([program], 20, 40))
    prediction = reads(name, program)
    begin = 100 + memory.flight
    prediction.load(0, stream(40), 94, begin, begin + 40 * memory.access)
    there = prediction.read_program(120, 8)
    assert there - FETCH_ANSWER + memory.access == pytest.approx(
        done[20] - quiet[0] + begin + memory.access, abs=4
    )
    stop = prediction.stop[0]
    assert stop is not None
    lost = stop - (begin + 40 * memory.access)
    assert lost == pytest.approx(done[-1] - quiet[-1], abs=8)


def test_bursts_that_are_asked_for_together_stay_together() -> None:
    """No LOAD asks for anything between them: the data of the second follow those of the first."""
    prediction = reads("lpddr4", meeting("lpddr4", 20))
    begin = 100 + prediction.memory.flight
    prediction.load(0, stream(400), 0, begin, begin + 400 * prediction.memory.access)
    first, second = (prediction.read_program(900, 8) for _ in range(2))
    assert second - first == pytest.approx(8)
    # A LOAD that has been cut goes on as fast as before.
    stop = prediction.stop[0]
    assert stop is not None
    third = prediction.read_program(stop - 100, 8)
    assert third <= stop + prediction.memory.access


def test_halves_of_an_access_that_nothing_comes_between_are_one() -> None:
    half = preset("small").with_settings({"bus_bytes": "8", "max_burst": "4"})
    memory = channel("lpddr4", 1 << 20)
    prediction = DramReads(half, memory, [None], WriteQueue(memory))
    first, second = prediction.read_program(0, 4), prediction.read_program(0, 4)
    assert second - first == pytest.approx(4)
    bus = prediction.bus
    assert prediction.read_program(0, 4) - second == pytest.approx(4)
    assert prediction.bus == pytest.approx(bus + memory.access, abs=1)


def test_a_load_waits_for_a_row_that_the_program_has_closed() -> None:
    row = meeting("lpddr4", 20)
    near, apart = reads("lpddr4", row), reads("lpddr4", row + 4096)
    for each in (near, apart):
        each.read_program(100, 8)
    load, rows = stream(8), near.rows
    there = 130 + near.memory.flight
    wait = near.opened(load.path, 130, there) - there
    # The program's row was opened for one access, and is closed for the LOAD's.
    opened = 100 + near.memory.there
    closed = opened + rows.active + rows.precharge + rows.activate
    assert wait == pytest.approx(closed - 130 - near.memory.there, abs=1)
    assert apart.opened(load.path, 130, there) - there == pytest.approx(rows.activate)


def test_a_refresh_closes_all_rows() -> None:
    rows = OpenRows(channel("lpddr4"))
    rows.data[0] = rows.read(None, 0, rows.every - 500, rows.every - 500)
    assert rows.found(0, rows.every - 1) is not None
    assert rows.found(0, rows.every + 1) is None


@pytest.mark.parametrize("name", DRAMS)
def test_a_stream_stands_still_for_each_refresh(driver: Path, name: str) -> None:
    dram, rows = found(name), reads(name, 0).rows
    count = int(6.5 * rows.every / rows.access)
    ahead = round(16 * rows.access)
    asked = [("r", max(0, int(i * rows.access) - ahead), BLOCK_BYTES * i) for i in range(count)]
    done = served(driver, dram, asked)
    refreshes = reads(name, 0).refreshes
    took = refreshes.end(0.0, (count - 1) * rows.access)
    assert took == pytest.approx((count - 1) * rows.access + 6 * refreshes.time)
    assert done[-1] - done[0] == pytest.approx(took, rel=0.01)
    parts = list(refreshes.parts(0.0, took))
    assert len(parts) == 7 and sum(b - a for a, b in parts) == pytest.approx(took, rel=0.1)


@pytest.mark.parametrize("name", DRAMS)
def test_what_memory_has_read_ahead_hides_a_refresh(name: str) -> None:
    refreshes = reads(name, 0).refreshes
    begin, time = refreshes.every - 1000, 2000.0
    for most, lost in ((0.0, 1.0), (0.25, 0.75), (1.0, 0.0)):
        lead = Lead(begin - 1e6, 0.5, most * refreshes.time)
        end = refreshes.end(begin, time, lead)
        assert end == pytest.approx(begin + time + lost * refreshes.time)
        assert len(list(refreshes.parts(begin, end, lead))) == (2 if lost else 1)
    # It is not ahead yet where the LOAD has just begun.
    late = Lead(refreshes.every - 10, 0.5, refreshes.time)
    assert refreshes.end(begin, time, late) > begin + time + 0.9 * refreshes.time


@pytest.mark.parametrize("name", DRAMS)
def test_fetch_waits_for_a_refresh(driver: Path, name: str) -> None:
    """A burst of the program before it, and one while it is under way."""
    prediction = reads(name, 0)
    every, time = prediction.refreshes.every, prediction.refreshes.time
    asked = [round(every - 500), round(every + time / 2), round(every + 2 * time)]
    program = [("r", at, BLOCK_BYTES * i) for i, at in enumerate(asked)]
    done = served(driver, found(name), program)
    for at, there in zip(asked, done, strict=True):
        there_then = prediction.read_program(at, 8) - FETCH_ANSWER
        assert there_then == pytest.approx(there, abs=0.1 * time)
    assert done[1] - asked[1] > time / 2


def test_a_burst_of_the_program_comes_where_a_load_is_and_not_behind_its_refresh() -> None:
    prediction = reads("lpddr4", meeting("lpddr4", 20))
    refreshes, access = prediction.refreshes, prediction.memory.access
    begin = refreshes.every - 2000
    end = refreshes.end(begin, 400 * access)
    assert end > begin + 400 * access
    prediction.load(0, stream(400), begin - 100, begin, end)
    for at in (begin + 20, begin + 200, begin + 300):
        there = prediction.read_program(at, 8)
        assert there < at + SMALL_BURSTS.outstanding * access + 200 < refreshes.every


def waiting(name: str, blocks: int, now: float = 0.0) -> WriteQueue:
    queue = WriteQueue(channel(name))
    queue.store(now, now, range(blocks))
    return queue


@pytest.mark.parametrize("name", DRAMS)
def test_writes_wait_while_they_are_few_and_go_together_when_they_are_many(name: str) -> None:
    queue = waiting(name, MANY_WRITES - 1)
    assert queue.settle(300, reads=301) == 0
    assert queue.most == len(queue.waiting) == MANY_WRITES - 1
    queue.store(300, 300, range(MANY_WRITES - 4, MANY_WRITES))
    taken = queue.settle(400, reads=400)
    memory = queue.memory
    # One is new, the others are written with those that wait. A row is opened, and the bus turns.
    moved = (MANY_WRITES - FEW_WRITES) * memory.access + memory.turn
    assert 400 + moved <= taken <= 400 + moved + 2 * queue.rows.active
    assert queue.most == len(queue.waiting) == FEW_WRITES


def test_a_store_does_not_go_before_reads_that_are_asked_for_before_its_data_come() -> None:
    """A LOAD that begins with the STORE asks for all of its data before many writes wait."""
    prediction = reads("lpddr4", 1 << 20)
    memory = prediction.memory
    prediction.store(1000, 1000 + 2 * MANY_WRITES, range(MANY_WRITES + 1))
    prediction.settle(1010)
    prediction.move(1010, 40 * memory.access)
    before = prediction.bus
    assert not prediction.written
    prediction.settle(1000 + 3 * MANY_WRITES)
    assert prediction.written > before + (MANY_WRITES - FEW_WRITES) * memory.access


def test_writes_that_wait_are_written_while_nobody_reads() -> None:
    queue = waiting("lpddr4", 50)
    each = queue.memory.write_alone
    queue.settle(0, reads=0)
    queue.settle(20 * each, reads=0)
    # The first one opens a row.
    assert 50 - 20 <= len(queue.waiting) <= 50 - 15


@pytest.mark.parametrize("name", DRAMS)
def test_a_read_behind_a_write_under_way_waits_for_the_turn(driver: Path, name: str) -> None:
    """As in the simulated DRAM, in the bank group of the write and in another one."""
    for other in (0, 64):
        program = 4 * 64 + other
        groups = found(name).groups
        ours = [("r", 10, program + 64 * i) for i in range(groups)]
        behind = ("r", 300, program + 64 * groups)
        *_, quiet = served(driver, found(name), [*ours, behind])
        *_, late = served(driver, found(name), [*ours, ("w", 296, 0), ("f", 297, 0), behind])
        prediction = reads(name, program)
        for _ in ours:
            prediction.read_program(10, 8)
        prediction.store(296 - 8, 296 - 8, range(1))
        there = prediction.read_program(300, 8)
        undisturbed = 300 + prediction.memory.flight + FETCH_ANSWER
        assert there - undisturbed == pytest.approx(late - quiet, abs=4)


def test_channels_that_are_stored_one_after_the_other_are_written_together() -> None:
    """Two blocks of 32 channels of a pixel's 64 bytes, for 16 pixels."""
    queue = waiting("ddr4", 16, 100)
    queue.store(100, 100, range(16))
    queue.settle(100, reads=200)
    assert queue.most == len(queue.waiting) == 16


@pytest.mark.parametrize(
    ("way", "part", "after", "before"),
    [
        (Way(0, 64 * 640), 0.5, ((1, 320),), ((1, 319),)),
        (Way(0, 64 * 640), 0.495, ((1, 316), (5, 320)), ((1, 316),)),
        (Way(0, 64 * 640), 1.0, (), ((1, 639),)),
        (Way(0, 16, ((40, 4096),)), 0.5, ((1, 1280), (2, 1344)), ((1, 1216), (2, 1152))),
        (Way(0, 16, ((64, 32),)), 0.5, ((1, 16),), ((1, 15),)),
    ],
)
def test_the_accesses_next_to_a_position(way: Way, part: float, after: tuple, before: tuple):
    size = OpenRows(channel("lpddr4")).size
    reach = 2 if way.loops else 9
    assert tuple(way.near(part, reach, size, 1)) == after
    assert tuple(way.near(part, reach, size, -1)) == before


def test_runs_that_follow_one_another_are_one_way() -> None:
    assert Way.of(0, 16, [(4, 256), (16, 16)]) == Way(0, 1024)
    assert Way.of(0, 16, [(4, 512), (16, 16)]) == Way(0, 256, ((4, 512),))


def test_fetch_and_loads_are_answered_in_the_order_in_which_they_ask() -> None:
    """A request that is known before its time waits until it is made."""
    asked: list[float] = []

    class Memory:
        def read_program(self, at: float, beats: int) -> float:
            asked.append(at)
            return at + 100 + beats

    fetch = ProgramFetch(DEFAULT, Memory(), ahead=False)
    fetch.take(DEFAULT.max_burst * DEFAULT.bus_bytes // GRANULE_BYTES, 0)
    begun = len(asked)
    later = fetch.begins
    fetch.answer(later - 50)
    assert len(asked) == begun
    fetch.answer(later)
    assert len(asked) > begun and max(asked) <= later

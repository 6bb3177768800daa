"""The load engine against nested loops in Python: bytes, protocol, throughput, posts, faults."""

import random

import pytest
from hw_bench import FPGA
from hw_dma_bench import LoadBench, random_copy, runs_of, small

from spec.isa import Instruction, Opcode, Space, Sync
from spec.memmap import Fault, Stall


def strided(count, run, *, mem, chip, **values):
    loops = [{"count": count, "mem": mem, "chip": chip}]
    return Instruction(Opcode.LOAD, {"run": run, "loop": loops, **values})


@pytest.mark.parametrize("bus", [8, 16, 32, 64])
@pytest.mark.parametrize("seed", range(3))
def test_random_strides_and_alignments(bus, seed):
    config = small(bus_bytes=bus, max_burst=[1, 4, 16][seed])
    rng = random.Random(100 * bus + seed)
    program = [random_copy(rng, Opcode.LOAD, config) for _ in range(5)]
    LoadBench(config, program, seed=seed).run().check()


@pytest.mark.parametrize("form", [None, FPGA], ids=["silicon", "fpga"])
@pytest.mark.parametrize("seed", range(4))
def test_back_pressure_and_stalls_do_not_change_bytes(seed, form):
    config = small(outstanding=8, max_burst=4)
    rng = random.Random(seed)
    program = [
        random_copy(rng, Opcode.LOAD, config, limit=250, fill=rng.random() < 0.3, fill_value=0xA5)
        for _ in range(5)
    ]
    options = {"latency": [1, 7, 40, 90][seed], "stall": 0.4, "spad_stall": 0.4}
    LoadBench(config, program, seed=seed, form=form, **options).run().check()


def test_wide_words_are_filled_a_word_at_a_time():
    config = small(rows=32, cols=4, bus_bytes=8)
    fill = Instruction(
        Opcode.LOAD, {"fill": 1, "fill_value": 7, "chip_base": 5, "run": 128 * 16 + 3}
    )
    bench = LoadBench(config, [fill]).run()
    bench.check()
    assert bench.memory.read_beats == 0
    assert bench.spad.accesses <= 128 * 16 // config.word_bytes + 8


@pytest.mark.parametrize("bus", [8, 16, 32])
def test_parameters_and_table(bus):
    config = small(bus_bytes=bus)
    rng = random.Random(bus)
    program = []
    for space, size in ((Space.PARAM, config.param_bytes), (Space.TABLE, config.table_bytes)):
        chip = rng.randrange(1, size // 2)
        mem = 1024 + chip % bus
        run = rng.randint(1, size - chip)
        program.append(
            Instruction(
                Opcode.LOAD, {"space": space, "chip_base": chip, "mem_base": mem, "run": run}
            )
        )
        fill = {"fill": 1, "fill_value": 0x5A, "space": space, "chip_base": 3, "run": 17}
        program.append(Instruction(Opcode.LOAD, fill))
    LoadBench(config, program, stall=0.2).run().check()


def test_one_beat_runs_sustain_a_beat_a_cycle():
    """256 slices of one beat: 100 cycles of latency are paid once, and 128 beats are in flight."""
    config = small(bus_bytes=16, outstanding=128)
    load = strided(256, 16, mem=48, chip=16)
    bench = LoadBench(config, [load], latency=100).run()
    bench.check()
    assert bench.memory.most_owed >= 100
    assert bench.cycles < 256 + 100 + 40
    assert bench.stalls.count(Stall.BUSY) >= 256


def windows(config, *, kernel, channels, stride, rows, columns, mem_base=3, **values):
    """The load of a packed first convolution: every window of `rows` rows of outputs."""
    pitch = (columns - 1) * stride * channels + kernel * channels + 205
    run = kernel * channels
    loops = [
        {"count": rows, "mem": stride * pitch, "chip": columns * kernel * run},
        {"count": kernel, "mem": pitch, "chip": run},
        {"count": columns, "mem": stride * channels, "chip": kernel * run},
    ]
    fixed = {"mem_base": mem_base, "run": run, "loop": loops}
    return Instruction(Opcode.LOAD, {**fixed, **values})


def words(config, base, load):
    """Words that the innermost loops' spans cover, each span on its own."""
    places = [base + mem for mem, _ in runs_of(load)]
    columns, run = load["loop"][2]["count"], load["run"]
    spans = [(places[i], places[i + columns - 1]) for i in range(0, len(places), columns)]
    return sum((b + run - 1) // config.bus_bytes - a // config.bus_bytes + 1 for a, b in spans)


@pytest.mark.parametrize(
    ("bus", "kernel", "channels", "stride"),
    [(8, 3, 3, 2), (16, 3, 3, 2), (16, 7, 3, 2), (32, 7, 3, 2), (16, 3, 3, 1), (8, 7, 3, 2)],
)
def test_overlapping_windows_are_a_piece_a_cycle_and_fetch_each_word_once(
    bus, kernel, channels, stride
):
    config = small(bus_bytes=bus, outstanding=128, spad_kib=64)
    rows = 2 if kernel == 3 else 1
    load = windows(config, kernel=kernel, channels=channels, stride=stride, rows=rows, columns=56)
    bench = LoadBench(config, [load], latency=100).run()
    bench.check()
    pieces = rows * kernel * 56 * -(-load["run"] // bus)
    assert bench.spad.accesses == pieces
    assert bench.memory.read_beats == words(config, bench.bases[0], load)
    first, last = bench.spad.cycles[0], bench.spad.cycles[-1]
    assert pieces >= 0.97 * (last - first + 1)
    assert bench.cycles < pieces / 0.97 + 100 + 40


def test_slices_that_share_words_fetch_them_once():
    config = small(bus_bytes=16)
    load = strided(200, 4, mem=8, chip=4, mem_base=24)
    bench = LoadBench(config, [load]).run()
    bench.check()
    assert bench.memory.read_beats == 200 * 8 // 16 + (bench.bases[0] + 24) % 16 // 8
    assert bench.cycles < 200 + 20 + 40


def test_successive_words_are_requested_four_at_a_time():
    config = small(bus_bytes=16)
    bench = LoadBench(config, [strided(64, 16, mem=16, chip=16)]).run()
    bench.check()
    assert len(bench.memory.requests) <= 64 // 4 + 2
    config = small(bus_bytes=16, max_burst=2)
    bench = LoadBench(config, [strided(64, 16, mem=16, chip=16)]).run()
    bench.check()
    assert len(bench.memory.requests) == 32


@pytest.mark.parametrize("bus", [8, 16, 64])
@pytest.mark.parametrize("seed", range(3))
def test_random_neighbours_backwards_and_standing_still(bus, seed):
    """Strides about the size of the run, so that words are shared in every possible way."""
    config = small(bus_bytes=bus, max_burst=[1, 4, 16][seed], outstanding=8)
    rng = random.Random(100 * bus + seed)
    program = []
    for _ in range(4):
        run = rng.choice([1, rng.randint(1, bus), rng.randint(1, 4 * bus)])
        near = [0, 1, run, -run, bus, -bus, rng.randint(-2 * bus, 2 * bus), rng.randint(0, run)]
        loops = [
            {"count": rng.randint(1, 4), "mem": rng.choice(near), "chip": rng.choice([run, 0, 3])}
            for _ in range(4)
        ]
        values = {"mem_base": rng.randint(9 * bus * 4, 4000), "chip_base": 2000, "run": run}
        values["wait"] = [Sync(sem=1, level=rng.randint(0, 4), amount=rng.randint(0, 1))]
        program.append(Instruction(Opcode.LOAD, {**values, "loop": loops}))
    options = {"latency": [2, 20, 90][seed], "stall": 0.3 * seed, "spad_stall": 0.2 * seed}
    LoadBench(config, program, seed=seed, **options).run().check()


def test_words_are_fetched_again_after_a_wait():
    """What waits may wait for a store: bytes that came beside earlier runs can be old."""
    config = small(bus_bytes=16)
    load = strided(4, 4, mem=4, chip=4, wait=[Sync(sem=1, level=1)])
    bench = LoadBench(config, [load])

    def gate(cycle):
        if cycle % 60 == 59:
            at = bench.bases[0] + 4 * (cycle // 60)
            bench.memory.data[at : at + 4] = b"new!"
        return cycle % 60 == 0

    bench.gate = gate
    bench.run()
    assert bench.spad.data[:16] == b"new!" * 4


def test_words_are_not_kept_from_one_instruction_to_the_next():
    config = small(bus_bytes=16)
    bench = LoadBench(config, [strided(1, 4, mem=4, chip=4), strided(1, 4, mem=4, chip=4)]).run()
    assert bench.memory.read_beats == 2


def test_128_bursts_are_in_flight():
    config = small(bus_bytes=8, outstanding=128)
    bench = LoadBench(config, [strided(256, 8, mem=24, chip=8)], latency=300).run()
    bench.check()
    assert 128 <= bench.memory.most_owed <= 136


def test_long_bursts_are_in_flight_until_they_are_512_words():
    config = small(bus_bytes=8, outstanding=128, max_burst=16)
    bench = LoadBench(config, [strided(1, 16384, mem=0, chip=0)], latency=1000).run()
    bench.check()
    assert 512 // 16 <= bench.memory.most_owed <= 512 // 16 + 2


def test_unaligned_long_run_is_a_write_per_beat():
    config = small(bus_bytes=16)
    bench = LoadBench(config, [strided(1, 8000, mem=0, chip=0, mem_base=5, chip_base=7)]).run()
    bench.check()
    beats = -(-(8000 + 5) // 16)
    assert bench.memory.read_beats == beats
    assert bench.spad.accesses == 8000 // 16
    assert bench.cycles < beats + 20 + 40


def test_post_follows_the_last_write_of_its_iteration():
    config = small()
    load = strided(
        4, 40, mem=64, chip=64,
        post=[Sync(sem=3, level=1, amount=2), Sync(sem=9)],
        wait=[Sync(sem=1, level=1)],
    )  # fmt: skip
    bench = LoadBench(config, [load], spad_stall=0.3)
    bench.gate = lambda cycle: cycle > 60
    bench.run().check()
    assert [(sem, amount) for _, sem, amount, _ in bench.posts] == [(3, 2)] * 4 + [(9, 1)]
    last_writes = bench.spad.cycles[4::5]
    assert len(last_writes) == 4
    for (cycle, *_), write in zip(bench.posts, last_writes, strict=False):
        assert write < cycle <= write + 8
    assert bench.spad.cycles[0] > 60
    assert bench.stalls.count(Stall.SEMAPHORE) > 40


def test_stalls_name_their_reason():
    config = small()
    load = [strided(40, 8, mem=8, chip=8)]
    slow = LoadBench(config, load, latency=200).run()
    assert slow.stalls.count(Stall.MEMORY) > 100
    blocked = LoadBench(config, load, spad_stall=0.9).run()
    assert blocked.stalls.count(Stall.BANK) > 100
    assert blocked.stalls[-1] == Stall.IDLE


@pytest.mark.parametrize(
    ("space", "chip"),
    [(Space.SPAD, 16384 - 39), (Space.PARAM, 64 * 40 - 24), (Space.TABLE, 992), (Space.ACC, 0)],
)
def test_address_outside_the_memory_faults_before_it_is_written(space, chip):
    config = small()
    good = strided(3, 8, mem=8, chip=8)
    bad = Instruction(Opcode.LOAD, {"space": space, "chip_base": chip, "run": 40})
    bench = LoadBench(config, [good, bad, good]).run()
    assert bench.fault == (Fault.CHIP_ADDRESS, 1)
    assert not any(bench.param) and not any(bench.table)
    assert bench.spad.data[16384 - 39 :] == bench.spad_before[16384 - 39 :]


def test_table_run_of_another_alignment_faults():
    bad = Instruction(Opcode.LOAD, {"space": Space.TABLE, "chip_base": 1, "mem_base": 2})
    assert LoadBench(small(), [bad]).run().fault == (Fault.CHIP_ADDRESS, 0)


def test_error_response_faults_and_outstanding_beats_are_taken():
    config = small(outstanding=32)
    bench = LoadBench(config, [strided(2, 8, mem=8, chip=8), strided(64, 32, mem=32, chip=32)])
    bench.memory.errors = frozenset([bench.bases[0] + 100])
    bench.run()
    assert bench.fault == (Fault.AXI_ERROR, 1)
    assert bench.memory.owed == 0
    # Nothing of the failed beat or behind it was written.
    assert bench.spad.data[96:] == bench.spad_before[96:]


@pytest.mark.parametrize("word", [0, 1, 5, 11])
def test_error_in_a_shared_word_faults_at_the_first_run_that_needs_it(word):
    other = strided(2, 8, mem=8, chip=8, chip_base=512)
    load = strided(30, 9, mem=6, chip=9, mem_base=256)
    bench = LoadBench(small(bus_bytes=16), [other, load])
    start = bench.bases[0]
    bench.memory.errors = frozenset([start + 256 + 16 * word])
    bench.run()
    assert bench.fault == (Fault.AXI_ERROR, 1)
    assert bench.memory.owed == 0
    good = next(i for i in range(30) if 6 * i + 8 >= 16 * word)
    expected = bytearray(bench.spad_before)
    for i in range(good):
        at = start + 256 + 6 * i
        expected[9 * i : 9 * i + 9] = bench.memory.data[at : at + 9]
    assert bench.spad.data[:512] == expected[:512]

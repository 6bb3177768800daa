"""The load engine against nested loops in Python: bytes, protocol, throughput, posts, faults."""

import random

import pytest

from spec.isa import Instruction, Opcode, Space, Sync
from spec.memmap import Fault, Stall
from tests.hw_dma_bench import LoadBench, random_copy, small


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


@pytest.mark.parametrize("seed", range(4))
def test_back_pressure_and_stalls_do_not_change_bytes(seed):
    config = small(outstanding=8, max_burst=4)
    rng = random.Random(seed)
    program = [
        random_copy(rng, Opcode.LOAD, config, limit=250, fill=rng.random() < 0.3, fill_value=0xA5)
        for _ in range(5)
    ]
    options = {"latency": [1, 7, 40, 90][seed], "stall": 0.4, "spad_stall": 0.4}
    LoadBench(config, program, seed=seed, **options).run().check()


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
    for space, size in ((Space.PARAM, config.param_bytes), (Space.TABLE, config.table_entries)):
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


def test_128_bursts_are_in_flight():
    config = small(bus_bytes=8, outstanding=128)
    bench = LoadBench(config, [strided(256, 8, mem=24, chip=8)], latency=300).run()
    bench.check()
    assert 128 <= bench.memory.most_owed <= 136


def test_unaligned_long_run_is_a_write_per_beat():
    config = small(bus_bytes=16)
    bench = LoadBench(config, [strided(1, 8000, mem=0, chip=0, mem_base=5, chip_base=7)]).run()
    bench.check()
    beats = -(-(8000 + 5) // 16)
    assert bench.memory.read_beats == bench.spad.accesses == beats
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
    [(Space.SPAD, 16384 - 39), (Space.PARAM, 64 * 40 - 24), (Space.TABLE, 224), (Space.ACC, 0)],
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

"""The store engine against nested loops in Python: bytes, protocol, throughput, posts, faults."""

import random

import pytest
from hw_dma_bench import MEMORY, StoreBench, random_copy, small

from spec.isa import Instruction, Opcode, Point, Sync
from spec.memmap import Fault, Stall

DONE, READ = range(2)


def strided(count, run, *, mem, chip, **values):
    loops = [{"count": count, "mem": mem, "chip": chip}]
    return Instruction(Opcode.STORE, {"run": run, "loop": loops, **values})


@pytest.mark.parametrize("bus", [8, 16, 32, 64])
@pytest.mark.parametrize("seed", range(3))
def test_random_strides_and_alignments(bus, seed):
    config = small(bus_bytes=bus, max_burst=[1, 4, 16][seed])
    rng = random.Random(100 * bus + seed)
    program = [random_copy(rng, Opcode.STORE, config) for _ in range(5)]
    StoreBench(config, program, seed=seed).run().check()


@pytest.mark.parametrize("seed", range(4))
def test_back_pressure_and_stalls_do_not_change_bytes(seed):
    config = small(outstanding=8, max_burst=4)
    rng = random.Random(seed)
    program = [random_copy(rng, Opcode.STORE, config, limit=250) for _ in range(5)]
    options = {"latency": [1, 7, 40, 90][seed], "stall": 0.4, "spad_stall": 0.4}
    StoreBench(config, program, seed=seed, **options).run().check()


def test_one_beat_runs_sustain_a_beat_a_cycle():
    """256 slices of one beat: 100 cycles of latency are paid once, and 100 beats are in flight."""
    config = small(bus_bytes=16, outstanding=128)
    bench = StoreBench(config, [strided(256, 16, mem=48, chip=16)], latency=100).run()
    bench.check()
    assert bench.memory.most_owed >= 100
    assert bench.cycles < 256 + 100 + 40
    assert bench.stalls.count(Stall.BUSY) >= 256


def test_128_bursts_are_in_flight():
    config = small(outstanding=128)
    bench = StoreBench(config, [strided(256, 8, mem=24, chip=8)], latency=300).run()
    bench.check()
    assert bench.memory.most_owed == 128


def test_unaligned_long_run_is_a_read_per_beat():
    config = small(bus_bytes=16)
    bench = StoreBench(config, [strided(1, 8000, mem=0, chip=0, mem_base=5, chip_base=7)]).run()
    bench.check()
    beats = -(-(8000 + 5) // 16)
    assert bench.memory.write_beats == bench.spad.accesses == beats
    assert bench.cycles < beats + 20 + 40


def test_done_follows_the_response_and_read_the_scratchpad():
    config = small()
    post = [Sync(sem=3, level=1), Sync(sem=4, level=1, point=Point.READ), Sync(sem=5, amount=3)]
    bench = StoreBench(config, [strided(4, 40, mem=64, chip=64, post=post)], latency=150)
    bench.run().check()
    done = [(cycle, sem) for cycle, sem, _, port in bench.posts if port == DONE]
    read = [(cycle, sem) for cycle, sem, _, port in bench.posts if port == READ]
    assert [sem for _, sem in done] == [3, 3, 3, 3, 5]
    assert [sem for _, sem in read] == [4] * 4
    last_reads = bench.spad.cycles[4::5]
    for (cycle, _), access in zip(read, last_reads, strict=True):
        assert access + 2 <= cycle <= access + 10
    for (cycle, _), access in zip(done, last_reads, strict=False):
        assert cycle > access + 150


def test_stalls_name_their_reason():
    config = small(outstanding=8)
    store = strided(40, 8, mem=8, chip=8, wait=[Sync(sem=1)])
    slow = StoreBench(config, [store], latency=200).run()
    assert slow.stalls.count(Stall.MEMORY) > 100
    blocked = StoreBench(config, [store], spad_stall=0.9).run()
    assert blocked.stalls.count(Stall.BANK) > 100
    held = StoreBench(config, [store])
    held.gate = lambda cycle: cycle > 80
    assert held.run().stalls.count(Stall.SEMAPHORE) > 60
    assert held.stalls[-1] == Stall.IDLE


def test_address_outside_the_scratchpad_faults():
    bad = Instruction(Opcode.STORE, {"chip_base": 16384 - 39, "run": 40})
    bench = StoreBench(small(), [strided(3, 8, mem=8, chip=8), bad]).run()
    assert bench.fault == (Fault.CHIP_ADDRESS, 1)


@pytest.mark.parametrize("stall", [0.0, 0.5])
def test_error_response_faults_and_begun_bursts_are_finished_without_strobes(stall):
    config = small(outstanding=64)
    stores = [strided(2, 8, mem=8, chip=8), strided(48, 64, mem=128, chip=64)]
    bench = StoreBench(config, stores, latency=60, stall=stall, spad_stall=stall)
    bench.memory.errors = frozenset([bench.bases[0] + 20 + 128])
    bench.run()
    assert bench.fault == (Fault.AXI_ERROR, 1)
    assert bench.memory.owed == 0
    assert bench.counted == bench.memory.written_bytes
    assert len(bench.memory.data) == MEMORY

"""Loads and stores whose addresses take indices from the scratchpad, against plain loops."""

import random

import pytest
from hw_dma_bench import LoadBench, StoreBench, random_copy, small

from spec.isa import Instruction, Opcode
from spec.memmap import Fault

INDICES, REACH = 16, 2000
AT = 16384 - 4 * INDICES
"""Where the indices are: nothing is loaded there."""


def bench_of(opcode, config, program, **options):
    """A bench with offsets in the last words of its scratchpad, a multiple of 64 each."""
    bench = (LoadBench if opcode is Opcode.LOAD else StoreBench)(config, program, **options)
    rng = random.Random(options["seed"])
    offsets = [64 * rng.randint(0, REACH // 64) for _ in range(INDICES)]
    if opcode is Opcode.STORE:  # to places of their own
        offsets = [256 * n for n in rng.sample(range(INDICES), INDICES)]
    data = b"".join(n.to_bytes(4, "little", signed=True) for n in offsets)
    bench.spad.data[AT:] = data
    bench.spad_before = bytes(bench.spad.data)
    return bench


def indexed(rng, opcode, config):
    if opcode is Opcode.STORE:
        run, inner = rng.randint(1, 60), rng.randint(1, 3)
        loops = [{"count": rng.randint(1, 8), "chip": rng.randint(0, 99)}]
        loops.append({"count": inner, "mem": 64, "chip": rng.randint(0, 99)})
        values = {"mem_base": rng.randint(0, 3), "chip_base": rng.randint(0, 999), "run": run}
    else:
        made = random_copy(rng, opcode, config, limit=100)
        while made["chip_base"] > 4000:
            made = random_copy(rng, opcode, config, limit=100)
        values = {k: made[k] for k in ("region", "mem_base", "chip_base", "run")}
        loops = made["loop"]
    index = AT + 4 * rng.randint(0, INDICES - loops[0]["count"])
    return Instruction(opcode, {**values, "loop": loops, "indexed": 1, "index_base": index})


@pytest.mark.parametrize("opcode", [Opcode.LOAD, Opcode.STORE])
@pytest.mark.parametrize("seed", range(6))
def test_runs_go_where_their_indices_say(opcode, seed):
    """Between others without indices, with a busy scratchpad and memory."""
    rng, config = random.Random(seed), small(bus_bytes=rng_bus(seed))
    program = [indexed(rng, opcode, config) for _ in range(5)]
    plain = {"mem_base": 12000, "chip_base": 64, "run": 24, "loop": [{"count": 3, "mem": 100}]}
    for at in (2, 4):
        program.insert(at, Instruction(opcode, plain))
    stall = rng.choice([0.0, 0.5])
    bench = bench_of(opcode, config, program, stall=stall, spad_stall=stall, seed=seed)
    bench.run().check()


def rng_bus(seed):
    return (8, 16, 32)[seed % 3]


def test_rows_of_one_word_follow_each_other_closely():
    config = small(bus_bytes=16)
    loop = [{"count": 16, "chip": 16}]
    load = Instruction(
        Opcode.LOAD, {"run": 16, "indexed": 1, "index_base": AT, "loop": loop, "chip_base": 64}
    )
    bench = bench_of(Opcode.LOAD, config, [load] * 8, latency=20, seed=1).run()
    bench.check()
    assert bench.cycles < 8 * 16 * 2 + 60


@pytest.mark.parametrize("opcode", [Opcode.LOAD, Opcode.STORE])
def test_an_index_outside_the_scratchpad_faults(opcode):
    values = {"indexed": 1, "index_base": AT + 4 * (INDICES - 2), "run": 8}
    bad = Instruction(opcode, {**values, "loop": [{"count": 3, "chip": 8}]})
    good = Instruction(opcode, {**values, "loop": [{"count": 2, "chip": 8}]})
    bench = bench_of(opcode, small(), [good, bad, good], seed=3).run()
    assert bench.fault == (Fault.CHIP_ADDRESS, 1)

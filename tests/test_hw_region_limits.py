"""Loads and stores under tight limits: nothing outside is asked for, and the fault says where."""

import random

import pytest
from golden_programs import image
from hw_dma_bench import MEMORY, LoadBench, StoreBench, random_copy, runs_of, small

from golden_model import Machine, MachineFault
from spec.isa import Instruction, Opcode
from spec.memmap import Fault

INDEX_AT = 16000
KINDS = {Opcode.LOAD: LoadBench, Opcode.STORE: StoreBench}
both = pytest.mark.parametrize("opcode", KINDS)


def tight(bench):
    """Limits that end with the last byte that the program needs of each region."""
    bench.limits = [0] * 8
    for instruction in bench.program:
        region = instruction["region"]
        ends = [mem + instruction["run"] for mem, _ in runs_of(instruction, bench.spad_before)]
        bench.limits[region] = max(bench.limits[region], *ends)
    return bench


def first_outside(bench):
    """(instruction, region, offset) of the first run that the limits do not allow."""
    for index, instruction in enumerate(bench.program):
        limit = bench.limits[instruction["region"]]
        for mem, _ in runs_of(instruction, bench.spad_before):
            if mem + instruction["run"] > limit:
                return index, instruction["region"], mem
    raise AssertionError("every run is inside")


def check_requests(bench):
    """Every bus word that was asked for has a byte of a region."""
    bus = bench.config.bus_bytes
    allowed = set()
    for base, limit in zip(bench.bases, bench.limits, strict=True):
        allowed.update(range(base // bus, -(-(base + limit) // bus) if limit else base // bus))
    for kind, address, beats, _ in bench.memory.requests:
        words = range(address // bus, address // bus + beats)
        assert allowed.issuperset(words), f"{kind} of {beats} words at {address:#x}"


def check_fault(bench):
    index, region, offset = first_outside(bench)
    assert bench.run().fault == (Fault.OUTSIDE_REGION, index)
    assert bench.outside == (region, offset)
    check_requests(bench)


@both
@pytest.mark.parametrize("seed", range(3))
def test_the_last_byte_of_a_region_is_usable_and_the_next_one_is_not(opcode, seed):
    rng, config = random.Random(seed), small(bus_bytes=(8, 16, 64)[seed])
    program = [
        random_copy(rng, opcode, config, limit=60, region=n, disjoint=True) for n in range(5)
    ]
    if opcode is Opcode.STORE:  # a region each, apart, so that plain loops say what is left
        program = program[:1]
    bench = tight(KINDS[opcode](config, program, stall=0.2 * seed, seed=seed))
    bench.run().check()
    check_requests(bench)
    for victim in {0, len(program) - 1}:
        bench = tight(KINDS[opcode](config, program, stall=0.2 * seed, seed=seed))
        bench.limits[victim] -= 1
        check_fault(bench)


@both
@pytest.mark.parametrize(
    ("values", "limit"),
    [
        ({"mem_base": 0, "run": 8}, 0),
        ({"mem_base": 0, "run": 65}, 64),
        ({"mem_base": (1 << 40) - 4, "run": 8}, MEMORY),
        ({"mem_base": 1 << 32, "run": 8}, MEMORY),
        ({"mem_base": 64, "run": 8, "loop": [{"count": 3, "mem": -64, "chip": 8}]}, MEMORY),
    ],
    ids=["no access", "a byte too long", "below the base", "2^32 on", "the third run below"],
)
def test_runs_outside(opcode, values, limit):
    bench = KINDS[opcode](small(), [Instruction(opcode, {"region": 3, **values})])
    bench.limits = [MEMORY] * 3 + [limit] + [MEMORY] * 4
    check_fault(bench)


def with_indices(opcode, config, offsets, program, **options):
    bench = KINDS[opcode](config, program, **options)
    words = b"".join(n.to_bytes(4, "little", signed=True) for n in offsets)
    bench.spad.data[INDEX_AT : INDEX_AT + len(words)] = words
    bench.spad_before = bytes(bench.spad.data)
    bench.bases = [0x4000 + 0x1000 * region for region in range(8)]
    bench.limits = [1024] * 8
    return bench


def rows(opcode, count, **values):
    loop = [{"count": count, "chip": 16}]
    fixed = {"region": 2, "run": 16, "indexed": 1, "index_base": INDEX_AT, "loop": loop}
    return Instruction(opcode, {**fixed, **values})


@both
@pytest.mark.parametrize("bits", [32, 40, 64])
@pytest.mark.parametrize("index", [1009, -1, -(1 << 31), (1 << 31) - 1])
def test_an_index_that_leads_outside_is_refused_behind_those_that_do_not(opcode, bits, index):
    config = small(bus_bytes=16, axi_addr_bits=bits)
    for at in (0, 5) if index == -1 else (3,):
        offsets = [64 * n for n in range(8)]
        offsets[at] = index
        plain = Instruction(opcode, {"region": 1, "run": 32})
        program = [plain, rows(opcode, 8), plain]
        bench = with_indices(opcode, config, offsets, program, latency=5, seed=at)
        check_fault(bench)
        assert len(bench.memory.requests) >= at


@both
@pytest.mark.parametrize("bits", [32, 64])
def test_an_index_may_lead_back_into_the_region(opcode, bits):
    config = small(bus_bytes=8, axi_addr_bits=bits)
    program = [rows(opcode, 4, mem_base=(1 << 40) - 100)]
    bench = with_indices(opcode, config, [100, 200, 400, 800], program)
    bench.run().check()
    check_requests(bench)


@both
def test_a_row_without_an_index_does_not_overtake_the_fault_of_one_with(opcode):
    """The one behind is refused too, but its fault is not the first."""
    off_chip = Instruction(opcode, {"region": 1, "run": 32, "chip_base": (1 << 24) - 1})
    for behind in (Instruction(opcode, {"region": 1, "mem_base": 2000, "run": 32}), off_chip):
        bench = with_indices(opcode, small(), [0, 64, 5000], [rows(opcode, 3), behind])
        check_fault(bench)


def test_fills_need_no_region():
    bench = LoadBench(small(), [Instruction(Opcode.LOAD, {"fill": 1, "run": 40, "mem_base": 9})])
    bench.limits = [0] * 8
    bench.run().check()


@both
@pytest.mark.parametrize(
    ("chip_fits", "mem_fits", "cause", "offset"),
    [
        (3, 2, Fault.OUTSIDE_REGION, 32),
        (2, 3, Fault.CHIP_ADDRESS, 0),
        (2, 2, Fault.CHIP_ADDRESS, 0),
    ],
)
def test_the_first_bad_run_counts_and_golden_says_the_same(
    opcode, chip_fits, mem_fits, cause, offset
):
    config, size = small(), 16 * mem_fits
    values = {
        "region": 3,
        "chip_base": config.spad_bytes - 16 * chip_fits,
        "run": 16,
        "loop": [{"count": 5, "mem": 16, "chip": 16}],
    }
    bench = KINDS[opcode](config, [Instruction(opcode, values)])
    bench.limits = [0, 0, 0, size, 0, 0, 0, 0]
    bench.run()
    assert bench.fault == (cause, 0)
    check_requests(bench)
    if offset:
        assert bench.outside == (3, offset)
    program = image(config, [Instruction(opcode, values)], temp_bytes=size)
    with pytest.raises(MachineFault) as golden:
        Machine(config).run(program, {}, check=False)
    found = golden.value
    assert (found.cause, found.index) == (cause, 1)
    assert (found.region, found.offset) == ((3, offset) if offset else (0, 0))

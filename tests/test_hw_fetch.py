"""Program fetch: legal programs arrive whole, illegal ones fault at the right index."""

import random

import pytest
from amaranth.hdl import Cat, Module, Signal
from amaranth.sim import Simulator
from hw_axi import on, run_benches
from hw_bench import FPGA, sample
from hw_dma_bench import small
from hw_fetch_bench import (
    ENGINE_OPCODES,
    QUEUES,
    FetchBench,
    begin,
    encode,
    legal,
    program_of,
    random_values,
    tame,
)

from hw_gen.blocks.decode import MAX_GRANULES
from hw_gen.blocks.decode_rules import broken_rules
from hw_gen.blocks.dispatch import queues
from spec import preset
from spec.isa import FORMATS, Instruction, IsaError, Opcode, decode
from spec.legality import problems
from spec.memmap import Fault, Stall

FORMS = pytest.mark.parametrize("form", [None, FPGA], ids=["silicon", "fpga"])


@pytest.mark.parametrize("bus", [8, 16, 32, 64])
@pytest.mark.parametrize("seed", range(2))
@FORMS
def test_random_programs_arrive_whole_and_in_order(bus, seed, form):
    config = small(bus_bytes=bus, max_burst=[16, 1][seed], queue_depth=2)
    rng = random.Random(bus + seed)
    program = program_of(config, rng, 12)
    address = 4096 - 16 * rng.randint(1, 9)
    bench = FetchBench(
        config, encode(program), address=address, seed=seed, latency=30, stall=0.3, form=form
    ).run()
    bench.check(program)


@pytest.mark.parametrize("bus", [8, 16, 64])
@FORMS
def test_runs_again_and_ignores_bytes_behind_end(bus, form):
    config = small(bus_bytes=bus)
    program = program_of(config, random.Random(bus), 4)
    bench = FetchBench(config, encode(program) + bytes(2000), address=1040, form=form)
    bench.run(again=1)
    assert bench.done and bench.fault is None
    for name, opcode in QUEUES.items():
        once = [i for i, each in enumerate(program) if each.opcode is opcode]
        assert [index for index, *_ in bench.taken[name]] == once * 2


def test_never_reads_past_the_program():
    config = small(bus_bytes=16)
    program = program_of(config, random.Random(1), 10)
    code = encode(program)
    bench = FetchBench(config, code, address=1024 + 48).run()
    bench.check(program)
    assert bench.memory.read_beats == len(code) // 16
    ends = [address + beats * 16 for _, address, beats, _ in bench.memory.requests]
    assert max(ends) == 1024 + 48 + len(code)


def test_granule_a_cycle():
    config = small(bus_bytes=16, queue_depth=32)
    program = program_of(config, random.Random(2), 20)
    code = encode(program)
    bench = FetchBench(config, code, pace=1.0, latency=20).run()
    bench.check(program)
    assert len(bench.stalls) < len(code) // 16 + 2 * len(program) + 20 + 20
    assert bench.stalls.count(Stall.MEMORY) >= 15


def test_waits_for_engines_before_done():
    config = small()
    bench = FetchBench(config, encode([begin(config), Instruction(Opcode.END)]))
    cycles = []

    async def engines(ctx):
        ctx.set(bench.dut.engines_idle, 0)
        for _ in range(200):
            (done,) = await sample(ctx, bench.dut.program.done)
            cycles.append(done)
        ctx.set(bench.dut.engines_idle, 1)
        (done,) = await sample(ctx, bench.dut.program.done)
        cycles.append(done)

    async def start(ctx):
        ctx.set(bench.dut.program.address, bench.address)
        ctx.set(bench.dut.program.bytes, bench.size)
        ctx.set(bench.dut.program.start, 1)
        await ctx.tick()
        ctx.set(bench.dut.program.start, 0)

    run_benches(bench.dut, [engines, start], [on(bench.memory.reads, bench.dut.axi)])
    assert cycles == [0] * 200 + [1]


def corrupt(instruction, change):
    """The instruction's bytes with `change` applied to their integer."""
    word = int.from_bytes(instruction.encode(), "little")
    return change(word).to_bytes(len(instruction.encode()), "little")


@pytest.mark.parametrize(
    ("where", "mend"),
    [
        ("unknown opcode", lambda code, at: code[:at] + b"\x77" + code[at + 1 :]),
        ("wrong granules", lambda code, at: code[: at + 1] + b"\x01" + code[at + 2 :]),
        ("reserved flags", lambda code, at: code[: at + 3] + b"\x80" + code[at + 4 :]),
        ("no END", lambda code, at: code[:at]),
        ("cut off", lambda code, at: code[: at + 16]),
        ("upper bits", None),
    ],
)
@FORMS
def test_corrupt_program_faults_at_its_index(where, mend, form):
    config = small(bus_bytes=16)
    rng = random.Random(5)
    head = [begin(config), legal(rng, config), legal(rng, config)]
    victim = legal(rng, config, Opcode.MATRIX)
    assert FORMATS[Opcode.MATRIX].granules > 1
    code = encode(head)
    at = len(code)
    whole = code + encode([victim, Instruction(Opcode.END)])
    if where == "upper bits":
        fmt = FORMATS[Opcode.MATRIX]
        assert fmt.granules * 128 > fmt.bits
        broken = code + corrupt(victim, lambda w: w | 1 << (fmt.granules * 128 - 1))
    else:
        broken = mend(whole, at)
    bench = FetchBench(config, broken, latency=15, form=form).run()
    assert bench.fault == (Fault.ILLEGAL_INSTRUCTION, 3)
    assert not bench.done
    assert sum(len(v) for n, v in bench.taken.items() if n != "weights") <= 2


def test_first_instruction_must_be_begin():
    config = small()
    code = encode([legal(random.Random(0), config), Instruction(Opcode.END)])
    assert FetchBench(config, code).run().fault == (Fault.ILLEGAL_INSTRUCTION, 0)


def test_begin_is_legal_nowhere_else():
    config = small()
    code = encode([begin(config), legal(random.Random(0), config), begin(config)])
    assert FetchBench(config, code).run().fault == (Fault.ILLEGAL_INSTRUCTION, 2)


def test_empty_program_is_illegal():
    assert FetchBench(small(), b"").run().fault == (Fault.ILLEGAL_INSTRUCTION, 0)


@pytest.mark.parametrize("which", ["isa_digest", "config_digest"])
def test_foreign_program_is_refused(which):
    config = small()
    wrong = dict(begin(config).values)
    wrong[which] ^= 1 << 17
    code = encode([Instruction(Opcode.BEGIN, wrong), Instruction(Opcode.END)])
    assert FetchBench(config, code).run().fault == (Fault.DIGEST_MISMATCH, 0)


def test_error_response_faults():
    config = small()
    program = program_of(config, random.Random(3), 6)
    bench = FetchBench(config, encode(program), errors=[256 + len(program[0].encode()) + 20]).run()
    assert bench.fault == (Fault.AXI_ERROR, 1)


def verdicts(config, opcode, words):
    """What the hardware's rules say of each word."""
    m = Module()
    word, broken = Signal(MAX_GRANULES * 128), Signal()
    m.d.comb += broken.eq(Cat(list(broken_rules(m, config, opcode, word))).any())
    out = []

    async def bench(ctx):
        for each in words:
            ctx.set(word, each)
            await ctx.delay(1e-9)
            out.append(bool(ctx.get(broken)))

    sim = Simulator(m)
    sim.add_testbench(bench)
    sim.run()
    return out


def specified(config, data):
    """Whether the specification accepts the bytes of one instruction."""
    try:
        return not list(problems(decode(data), config))
    except IsaError:
        return False


MACHINES = {
    "uneven": small(rows=8, cols=12, acc_kib=12),
    "tiny": preset("tiny"),
    "default": preset("default"),
    "bare": small(depthwise=False, transposed_weights=False, semaphores=64, bus_bytes=64),
    "micro": preset("micro"),
}


@pytest.mark.parametrize("name", MACHINES)
@pytest.mark.parametrize("opcode", ENGINE_OPCODES)
def test_rules_equal_the_specification(opcode, name):
    """Random, tamed and bit-flipped instructions: hardware and `spec.legality` agree on each."""
    config = MACHINES[name]
    rng = random.Random(opcode)
    size = FORMATS[opcode].granules * 16
    samples = []
    for n in range(300):
        values = random_values(rng, opcode)
        if n % 3:
            values = tame(rng, opcode, config, values)
            for _ in range(rng.randint(0, 2)):  # one or two things wrong, or nothing
                key = rng.choice([k for k in values if not isinstance(values[k], list)])
                values[key] = random_values(rng, opcode)[key]
            if n % 6 == 1:
                values["loop"] = random_values(rng, opcode)["loop"]
            if n % 6 == 4:
                values["post"] = random_values(rng, opcode)["post"]
        data = Instruction(opcode, values).encode()
        if n % 5 == 0:
            word = int.from_bytes(data, "little") ^ 1 << rng.randrange(16, 8 * size)
            data = word.to_bytes(size, "little")
        samples.append(data)
    expected = [not specified(config, data) for data in samples]
    found = verdicts(config, opcode, [int.from_bytes(d, "little") for d in samples])
    assert found == expected
    if config.depthwise or opcode is not Opcode.DEPTHWISE:
        assert 20 < sum(found) < 280


def test_without_its_engine_every_depthwise_is_illegal():
    config = small(depthwise=False)
    data = [legal(random.Random(seed), small(), Opcode.DEPTHWISE).encode() for seed in range(5)]
    assert not any(specified(config, each) for each in data)
    words = [int.from_bytes(each, "little") for each in data]
    assert all(verdicts(config, Opcode.DEPTHWISE, words))
    assert not any(verdicts(small(), Opcode.DEPTHWISE, words))
    assert "depthwise" not in queues(config)

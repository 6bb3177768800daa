"""Program fetch: legal programs arrive whole, illegal ones fault at the right index."""

import random

import pytest
from amaranth.hdl import Cat, Module, Signal
from amaranth.sim import Simulator
from hw_axi import AxiMemory, on, run_benches
from hw_bench import rest_item, reused, sample, start_item
from hw_dma_bench import small

from hw_gen.blocks.decode import MAX_GRANULES
from hw_gen.blocks.decode_rules import broken_rules
from hw_gen.blocks.dispatch import queues, without
from hw_gen.blocks.fetch import Fetch
from hw_gen.layouts import rest_layout, start_layout
from spec import preset
from spec.isa import FORMATS, ISA_DIGEST, LOOPS, Alu, Group, Instruction, IsaError, Opcode, decode
from spec.legality import problems
from spec.memmap import Fault, Stall
from spec.optional import SHIFTS

MEMORY = 1 << 15
ENGINE_OPCODES = (Opcode.LOAD, Opcode.STORE, Opcode.MATRIX, Opcode.DEPTHWISE, Opcode.VECTOR)
QUEUES = queues(preset("tiny"))


def begin(config):
    digests = {"isa_digest": ISA_DIGEST & 0xFFFF_FFFF, "config_digest": config.digest()}
    return Instruction(Opcode.BEGIN, digests)


def random_value(rng, field):
    """A legal value, often an extreme one."""
    low, high = field.minimum, field.maximum
    return rng.choice([low, high, 0 if low <= 0 <= high else low, rng.randint(low, high)])


def random_values(rng, opcode):
    values = {}
    for item in FORMATS[opcode].items:
        if item.name in ("opcode", "granules"):
            continue
        if isinstance(item, Group):
            values[item.name] = [
                {f.name: random_value(rng, f) for f in item.fields} for _ in range(item.count)
            ]
        else:
            values[item.name] = random_value(rng, item)
    return values


def tame(rng, opcode, config, values):
    """Bend random values so that most of them obey the rules of `spec.legality`."""
    values["loop"][0]["last"] = values["loop"][0]["count"]
    for slot in values["wait"] + values["post"]:
        slot["sem"] %= config.semaphores
        slot["level"] = rng.randint(0, len(values["loop"]))
        slot["point"] = 0 if opcode is Opcode.LOAD else rng.randint(0, 1)
    if opcode is Opcode.LOAD:
        values["space"] = 0
    if opcode is Opcode.MATRIX:
        for name, limit in (("rows", config.rows), ("cols", config.cols)):
            values[name] = rng.randint(1, limit)
            values[f"{name}_last"] = rng.randint(1, limit)
        values["row_loop"] = values["col_loop"] = 7
        for name in ("act", "wgt"):
            values[f"{name}_zp"] = rng.randint(0, 128)
    if opcode is Opcode.DEPTHWISE:
        values["lanes"] = rng.randint(1, config.cols)
        values["lanes_last"] = rng.randint(1, config.cols)
        values["kernel_cols"] = rng.randint(1, config.taps)
        values["stride"] = rng.randint(1, values["kernel_cols"])
        values["lane_loop"] = 7
        for name in ("act", "wgt"):
            values[f"{name}_zp"] = rng.randint(0, 128)
    if opcode is Opcode.VECTOR:
        values["lanes"] = rng.randint(1, config.cols)
        values["lanes_last"] = rng.randint(1, config.cols)
        values["lane_loop"] = rng.choice([7, rng.randrange(LOOPS)])
        values |= {"reduce": 0, "reduce_lanes": 0, "table": rng.randint(0, 1)}
        if not config.shifts and values["alu"] in SHIFTS:
            values["alu"] = Alu.ADD
        for name in ("a", "b", "o"):
            values[f"{name}_shift"] = rng.randint(2, 62)
    return values


def legal(rng, config, opcode=None):
    opcode = opcode or rng.choice(ENGINE_OPCODES)
    while True:
        values = tame(rng, opcode, config, random_values(rng, opcode))
        instruction = Instruction(opcode, values)
        if not list(problems(instruction, config)):
            return instruction


class FetchBench:
    """Runs `code` at `address`; engines take instructions at random. Afterwards: `taken`, a list of
    (index, item) per queue, `fault` (cause, index) or None, `done`, `cycles`, `stalls`."""

    def __init__(self, config, code, *, address=256, size=None, pace=0.6, seed=0, **memory):
        self.config, self.address = config, address
        self.size = len(code) if size is None else size
        self.dut = reused(Fetch, config)
        self.memory = AxiMemory(config, MEMORY, seed=seed, **memory)
        self.memory.data[address : address + len(code)] = code
        self.rng, self.pace = random.Random(seed), pace
        self.taken = {name: [] for name in QUEUES}
        self.fault, self.done, self.stalls = None, False, []

    def run(self, again=0):
        tasks = [on(self.memory.reads, self.dut.axi)]
        tasks += [self._drain(name) for name in QUEUES]
        self.again = again
        run_benches(self.dut, [self._watch], tasks)
        return self

    def _drain(self, name):
        port = getattr(self.dut, f"o_{name}")

        async def bench(ctx):
            while True:
                ctx.set(port.ready, self.rng.random() < self.pace)
                valid, ready, start = await sample(ctx, port.valid, port.ready, port.start)
                if valid and ready:
                    self.taken[name].append((start.index, start, ctx.get(port.rest)))

        return bench

    async def _watch(self, ctx):
        dut = self.dut
        ctx.set(dut.program.address, self.address)
        ctx.set(dut.program.bytes, self.size)
        ctx.set(dut.engines_idle, 1)
        for _ in range(self.again + 1):
            ctx.set(dut.program.start, 1)
            await ctx.tick()
            ctx.set(dut.program.start, 0)
            self.done = False
            while not self.done and not self.fault:
                stall, done, fault, cause, index = await sample(
                    ctx, dut.status.stall, dut.program.done, dut.status.fault, dut.status.cause,
                    dut.status.fault_index,
                )  # fmt: skip
                self.stalls.append(stall)
                self.done = bool(done)
                if fault:
                    self.fault = (cause, index)
        ctx.set(dut.halt, self.fault is not None)
        settled = 0
        while settled < 4:
            (fault,) = await sample(ctx, dut.status.fault)
            assert not fault, "faulted twice, or after the end"
            settled = settled + 1 if self.memory.owed == 0 else 0

    def check(self, program):
        assert self.done and self.fault is None
        for name, opcode in QUEUES.items():
            layouts = opcode, without(self.config, name, opcode)
            expected = [
                (
                    index,
                    start_item(start_layout(*layouts), each, index),
                    rest_item(rest_layout(*layouts), each),
                )
                for index, each in enumerate(program)
                if each.opcode is opcode
            ]
            assert self.taken[name] == expected


def program_of(config, rng, count):
    body = [legal(rng, config) for _ in range(count)]
    return [begin(config), *body, Instruction(Opcode.END)]


def encode(program):
    return b"".join(each.encode() for each in program)


@pytest.mark.parametrize("bus", [8, 16, 32, 64])
@pytest.mark.parametrize("seed", range(2))
def test_random_programs_arrive_whole_and_in_order(bus, seed):
    config = small(bus_bytes=bus, max_burst=[16, 1][seed], queue_depth=2)
    rng = random.Random(bus + seed)
    program = program_of(config, rng, 12)
    address = 4096 - 16 * rng.randint(1, 9)
    bench = FetchBench(
        config, encode(program), address=address, seed=seed, latency=30, stall=0.3
    ).run()
    bench.check(program)


@pytest.mark.parametrize("bus", [8, 16, 64])
def test_runs_again_and_ignores_bytes_behind_end(bus):
    config = small(bus_bytes=bus)
    program = program_of(config, random.Random(bus), 4)
    bench = FetchBench(config, encode(program) + bytes(2000), address=1040)
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
        ("reserved flags", lambda code, at: code[: at + 2] + b"\x01" + code[at + 3 :]),
        ("no END", lambda code, at: code[:at]),
        ("cut off", lambda code, at: code[: at + 16]),
        ("upper bits", None),
    ],
)
def test_corrupt_program_faults_at_its_index(where, mend):
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
    bench = FetchBench(config, broken, latency=15).run()
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
    m.d.comb += broken.eq(Cat(list(broken_rules(config, opcode, word))).any())
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

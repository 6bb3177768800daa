"""Fetch alone: random legal instructions, and what the queues of a program must get."""

import random

from hw_axi import AxiMemory, on, run_benches
from hw_bench import rest_item, reused, sample, start_item

from hw_gen.blocks.dispatch import queues, without
from hw_gen.blocks.fetch import Fetch
from hw_gen.layouts import rest_layout, start_layout
from spec import preset
from spec.isa import DISPLACED, FORMATS, ISA_DIGEST, LOOPS, Alu, Group, Instruction, Opcode
from spec.legality import problems
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
    if not config.program_loops:
        values |= {f"{name}_by": 0 for name in DISPLACED[opcode]}
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

    def __init__(
        self, config, code, *, address=256, size=None, pace=0.6, seed=0, form=None, **memory
    ):
        self.config, self.address, self.form = config, address, form
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
        run_benches(self.dut, [self._watch], tasks, platform=self.form)
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

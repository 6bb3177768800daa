"""Load and store engines with memory, scratchpad and semaphores around them."""

import random
from itertools import pairwise

from hw_axi import AxiMemory, SpadModel, on, run_benches, table_model
from hw_bench import instruct, reused, sample
from test_hw_sequencer import loop_steps

from hw_gen.blocks.load import LoadEngine
from hw_gen.blocks.store import StoreEngine
from spec.config import NpuConfig
from spec.isa import Instruction, Opcode, Space

MEMORY = 1 << 16


def small(**changes):
    sizes = {"rows": 4, "cols": 4, "spad_kib": 16, "acc_kib": 4, "bus_bytes": 8}
    return NpuConfig(**{**sizes, **changes})


def runs_of(instruction, spad=b""):
    """(memory offset, chip address) of every step, in order; spad: where the indices are."""
    loops = instruction["loop"]
    for idx in loop_steps(loops):
        pairs = list(zip(idx, loops, strict=True))
        mem = instruction["mem_base"] + sum(i * loop["mem"] for i, loop in pairs)
        if instruction["indexed"]:
            at = instruction["index_base"] + 4 * idx[0]
            mem += int.from_bytes(spad[at : at + 4], "little", signed=True)
        chip = instruction["chip_base"] + sum(i * loop["chip"] for i, loop in pairs)
        yield mem % (1 << 40), chip % (1 << 24)


def random_copy(rng, opcode, config, *, limit=400, disjoint=False, **values):
    """A LOAD or STORE whose runs lie in the scratchpad and the first half of memory.

    limit: beats, about; disjoint: no two runs share a byte of memory.
    """
    while True:
        loops = []
        for level in range(4):
            count = rng.choice([1, 1, 2, 3, 5])
            last = rng.choice([count, rng.randint(1, 4)]) if level else count
            mem, chip = rng.randint(-900, 900), rng.randint(-300, 300)
            mem, chip = rng.choice([mem, 16, 17, 64]), rng.choice([chip, 4, 16, 33])
            loops.append({"count": count, "last": last, "mem": mem, "chip": chip})
        run = rng.choice([1, 3, 8, 16, rng.randint(1, 40), rng.randint(1, 700)])
        fixed = {
            "region": rng.randrange(8),
            "mem_base": rng.randint(0, MEMORY // 4),
            "chip_base": rng.randint(0, config.spad_bytes - 1),
            "run": run,
            "loop": loops,
        }
        instruction = Instruction(opcode, {**fixed, **values})
        places = list(runs_of(instruction))
        run = instruction["run"]
        fits = (
            all(m + run <= MEMORY // 2 and c + run <= config.spad_bytes for m, c in places)
            and len(places) * (run // config.bus_bytes + 2) <= limit
        )
        starts = sorted(m for m, _ in places)
        apart = all(b - a >= run for a, b in pairwise(starts))
        if fits and (apart or not disjoint):
            return instruction


class DmaBench:
    """What both engines need; `run` executes `program` and returns when all is quiet.

    gate: a function of the cycle: whether semaphores grant. After a run: `posts` (cycle, sem,
    amount, port), `stalls` (a Stall per cycle), `fault` (cause, index) or None, then `outside`
    (region, offset).
    """

    def __init__(
        self,
        config,
        program,
        *,
        latency=20,
        stall=0.0,
        spad_stall=0.0,
        seed=0,
        errors=(),
        form=None,
    ):
        self.config, self.program, self.form = config, program, form
        self.memory = AxiMemory(
            config, MEMORY, latency=latency, stall=stall, seed=seed, errors=errors
        )
        self.spad = SpadModel(config, stall=spad_stall, seed=seed)
        self.indices = SpadModel(config, stall=spad_stall, seed=seed + 1)
        self.indices.data = self.spad.data
        self.memory_before = bytes(self.memory.data)
        self.spad_before = bytes(self.spad.data)
        rng = random.Random(seed)
        self.bases = [rng.randint(0, MEMORY // 2) & ~63 for _ in range(8)]
        self.limits = [MEMORY - base for base in self.bases]
        self.posts, self.stalls, self.fault = [], [], None
        self.gate = lambda cycle: True
        self.cycles = 0

    def run(self):
        run_benches(self.dut, [self._feed, self._watch], self.tasks(), platform=self.form)
        return self

    async def _feed(self, ctx):
        dut = self.dut
        for region, (base, limit) in enumerate(zip(self.bases, self.limits, strict=True)):
            ctx.set(dut.regions.base[region], base)
            ctx.set(dut.regions.limit[region], limit)
        for index, instruction in enumerate(self.program):
            await instruct(ctx, dut.i, instruction, index, lambda: self.fault)

    async def _watch(self, ctx):
        status, dut_outside = self.dut.status, self.dut.outside
        for port in self.post_ports:
            ctx.set(port.ready, 1)
        quiet = 0
        while quiet < 4:
            self.cycles += 1
            ctx.set(self.dut.wait.grant, self.gate(self.cycles))
            stall, idle, fault, cause, index, *posts = await sample(
                ctx, status.stall, status.idle, status.fault, status.cause, status.fault_index,
                *(s for port in self.post_ports for s in (port.valid, port.payload)),
            )  # fmt: skip
            for p, (valid, post) in enumerate(zip(posts[::2], posts[1::2], strict=True)):
                if valid:
                    self.posts.append((self.cycles, post.sem, post.amount, p))
            if fault:
                assert self.fault is None, "a second fault after the first"
                self.fault = (cause, index)
                self.outside = (ctx.get(dut_outside.region), ctx.get(dut_outside.offset))
                ctx.set(self.dut.halt, 1)
            self.stalls.append(stall)
            over = self.memory.owed == 0 if self.fault else idle
            quiet = quiet + 1 if over and self.cycles > 3 else 0


class LoadBench(DmaBench):
    def __init__(self, config, program, **options):
        super().__init__(config, program, **options)
        self.dut = reused(LoadEngine, config)
        self.post_ports = [self.dut.post]
        self.param, self._param_writes = table_model(config, config.param_bytes)
        self.table, self._table_writes = table_model(config, config.table_bytes)

    def tasks(self):
        return [
            on(self.memory.reads, self.dut.axi),
            on(self.spad.posted, self.dut.spad),
            on(self.indices.reads, self.dut.index),
            on(self._param_writes, self.dut.param),
            on(self._table_writes, self.dut.table),
        ]

    def check(self):
        """Every byte on chip is what plain loops leave there."""
        spad = bytearray(self.spad_before)
        places = {
            Space.SPAD: spad,
            Space.PARAM: bytearray(len(self.param)),
            Space.TABLE: bytearray(len(self.table)),
        }
        for instruction in self.program:
            base, run = self.bases[instruction["region"]], instruction["run"]
            for mem, chip in runs_of(instruction, self.spad_before):
                data = self.memory.data[base + mem : base + mem + run]
                if instruction["fill"]:
                    data = bytes([instruction["fill_value"]]) * run
                places[instruction["space"]][chip : chip + run] = data
        assert self.fault is None
        assert self.spad.data == spad
        assert self.param == places[Space.PARAM]
        assert self.table == places[Space.TABLE]


class StoreBench(DmaBench):
    def __init__(self, config, program, **options):
        super().__init__(config, program, **options)
        self.dut = reused(StoreEngine, config)
        self.post_ports = [self.dut.post_done, self.dut.post_read]
        self.counted = 0

    def tasks(self):
        return [
            on(self.memory.writes, self.dut.axi),
            on(self.spad.reads, self.dut.spad),
            on(self.indices.reads, self.dut.index),
            self._count,
        ]

    async def _count(self, ctx):
        while True:
            (count,) = await sample(ctx, self.dut.w_bytes)
            self.counted += count

    def check(self):
        """Every byte of memory is what plain loops leave there."""
        memory, written = bytearray(self.memory_before), 0
        for instruction in self.program:
            base, run = self.bases[instruction["region"]], instruction["run"]
            for mem, chip in runs_of(instruction, self.spad_before):
                memory[base + mem : base + mem + run] = self.spad_before[chip : chip + run]
                written += run
        assert self.fault is None
        assert self.memory.data == memory
        assert self.counted == self.memory.written_bytes == written


__all__ = ["MEMORY", "LoadBench", "Opcode", "StoreBench", "random_copy", "runs_of", "small"]

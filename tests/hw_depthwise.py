"""Bench of the depthwise engine with its accumulator; the scratchpad is a model that may refuse."""

import random
from collections.abc import Sequence

from amaranth.hdl import Elaboratable, Module
from amaranth.lib.wiring import connect
from golden_reference import Reference, dot, walk
from hw_bench import instruct, reused, sample, simulate

from hw_gen.blocks.accumulator import Accumulator
from hw_gen.blocks.depthwise import DepthwiseEngine
from hw_gen.interfaces import READ_LATENCY
from spec import Instruction, NpuConfig

WORD = 0xFFFF_FFFF


def targets(instruction: Instruction) -> list[list[int]]:
    """Accumulator vectors of each step's outputs."""
    v = instruction.values
    return [
        [
            (v["acc_base"] + dot(index, v["loop"], "acc") + j * v["acc_col"]) % (1 << 16)
            for j in range(v["outputs"])
        ]
        for index, _ in walk(v["loop"])
    ]


class _Pair(Elaboratable):
    """The engine with the accumulator that it adds to."""

    def __init__(self, config: NpuConfig) -> None:
        self.engine, self.memory = DepthwiseEngine(config), Accumulator(config)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.engine, m.submodules.memory = self.engine, self.memory
        connect(m, self.engine.acc, self.memory.depthwise)
        return m


class DepthwiseBench:
    """Runs instructions on the engine from a `Reference`'s memories.

    refuse: how often scratchpad, semaphores, posts and (a busy matrix engine's) accumulator are
    not ready. late: how often no bank is free for a second column. After `run`: `writes` (address
    and vector), `reads` (address and size) in order, `posts` as (name, semaphore, writes and reads
    until then), `cycles`, `stalls` (one a cycle), `acc` the accumulator's contents, `fault` (cause,
    index).
    """

    def __init__(
        self, reference: Reference, body: Sequence[Instruction], *, seed: int = 0,
        refuse: float = 0, late: float = 0,
    ) -> None:  # fmt: skip
        self.config: NpuConfig = reference.config
        self.reference, self.body, self.refuse = reference, body, refuse
        self.late = max(late, refuse)
        self.rng = random.Random(seed)
        self.dut = reused(_Pair, self.config)
        self.engine, self.memory = self.dut.engine, self.dut.memory
        self.writes: list[tuple[int, list[int]]] = []
        self.reads: list[tuple[int, int]] = []
        self.posts: list[tuple[str, int, int, int]] = []
        self.waits: list[int] = []
        self.stalls: list[int] = []
        self.acc: list[list[int]] = []
        self.fault: tuple[int, int] | None = None
        self.phase = "fill"

    def run(self) -> None:
        simulate(
            self.dut, self._main, self._scratchpad, self._beside, self._matrix, self._monitor,
            self._semaphores,
            deadline=60_000,
        )  # fmt: skip

    def _free(self) -> bool:
        return self.rng.random() >= self.refuse

    async def _main(self, ctx) -> None:
        port = self.memory.vector
        for addr in range(self.config.acc_vectors):
            ctx.set(port.write.w_valid, 1)
            ctx.set(port.write.w_addr, addr)
            ctx.set(port.write.w_data, self._packed(addr))
            await ctx.tick().until(port.write.w_ready)
        ctx.set(port.write.w_valid, 0)
        self.phase = "run"
        status = self.engine.status
        for index, instruction in enumerate(self.body):
            while not self._free():
                await ctx.tick()
            await instruct(ctx, self.engine.i, instruction, index + 1, lambda: self.fault)
        while not ctx.get(status.idle) and not self.fault:
            await ctx.tick()
        self.phase = "read"
        await ctx.tick().repeat(2)
        for addr in range(self.config.acc_vectors + 2):
            ctx.set(port.request.valid, addr < self.config.acc_vectors)
            ctx.set(port.request.payload, addr)
            valid, data = await sample(ctx, port.words.valid, port.words.data)
            assert valid == (addr >= 2)
            if valid:
                self.acc.append(self._lanes(data))
        self.phase = "end"

    async def _scratchpad(self, ctx) -> None:
        await self._port(ctx, self.engine.spad, self.refuse)

    async def _beside(self, ctx) -> None:
        if self.config.depthwise_pairs:
            await self._port(ctx, self.engine.beside, self.late)

    async def _port(self, ctx, port, late: float) -> None:
        """Two accepted reads may wait for a bank."""
        width = self.config.word_bytes
        waiting: list[tuple] = []
        coming: list[tuple | None] = [None] * READ_LATENCY
        while self.phase != "end":
            data = coming.pop(0)
            ctx.set(port.ready, len(waiting) < 2 and self._free())
            ctx.set(port.data_valid, data is not None)
            if data:
                content, tag = data
                junk = self.rng.randbytes(width)[len(content) :]
                ctx.set(port.data, int.from_bytes(content + junk, "little"))
                ctx.set(port.data_tag, tag)
            valid, ready, addr, size, tag = await sample(
                ctx, port.valid, port.ready, port.addr, port.size, port.tag
            )
            if valid and ready:
                waiting.append((bytes(self.reference.spad[addr : addr + size]), tag))
            free = self.rng.random() >= late
            coming.append(waiting.pop(0) if waiting and free else None)
            if valid and ready and size:
                assert addr + size <= self.config.spad_bytes
                self.reads.append((addr, size))

    async def _matrix(self, ctx) -> None:
        """Now and then writes vectors beside those of the program: what they hold already."""
        used = {addr for each in self.body for row in targets(each) for addr in row}
        size = self.config.acc_bank
        banks = {addr // size for addr in used if addr < self.config.acc_vectors}
        others = [b * size + i for b in banks for i in range(size) if b * size + i not in used]
        sums = [0, 0]  # they come two cycles after their tag
        while self.phase != "end":
            hog = self.phase == "run" and bool(others) and not self._free()
            addr, overwrite = self.rng.choice(others) if hog else 0, self.rng.randrange(2)
            tag = {"valid": hog, "addr": addr, "overwrite": overwrite, "fires": 0}
            ctx.set(self.memory.matrix.tag, tag)
            ctx.set(self.memory.matrix.sums, sums.pop(0))
            sums.append(self._packed(addr) if overwrite else 0)
            await ctx.tick()

    def _packed(self, addr: int) -> int:
        return sum((v & WORD) << (32 * c) for c, v in enumerate(self.reference.acc[addr]))

    def _lanes(self, data: int) -> list[int]:
        words = [(data >> (32 * c)) & WORD for c in range(self.config.cols)]
        return [w - (w >> 31 << 32) for w in words]

    async def _semaphores(self, ctx) -> None:
        e = self.engine
        ports = {"done": e.post_done, "read": e.post_read}
        while self.phase != "end":
            for post in ports.values():
                ctx.set(post.ready, self._free())
            ctx.set(e.wait.grant, ctx.get(e.wait.valid) and self._free())
            before = len(self.writes), len(self.reads)
            flags = [x for post in ports.values() for x in (post.valid, post.ready)]
            values = await sample(ctx, e.wait.grant, e.wait.sem, *flags)
            if values[0]:
                self.waits.append(values[1])
            for i, (name, post) in enumerate(ports.items()):
                if values[2 + 2 * i] and values[3 + 2 * i]:
                    self.posts.append((name, ctx.get(post.payload.sem), *before))

    async def _monitor(self, ctx) -> None:
        port, status = self.engine.acc, self.engine.status
        while self.phase != "end":
            if self.phase == "run":
                self.stalls.append(ctx.get(status.stall))
            valid, ready, addr, data, bad, cause, index = await sample(
                ctx, port.w_valid, port.w_ready, port.w_addr, port.w_data,
                status.fault, status.cause, status.fault_index,
            )  # fmt: skip
            if valid and ready:
                self.writes.append((addr, self._lanes(data)))
            if bad and self.fault is None:
                self.fault = cause, index
                ctx.set(self.engine.halt, 1)

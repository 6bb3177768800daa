"""How the vector engine reads its operands: words of both ports, against the bytes of a memory."""

import random
from dataclasses import replace

import pytest
from amaranth.hdl import Module
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped
from hw_bench import FORMS, reused, sample, simulate

from hw_gen.blocks.sequencer import Sequencer
from hw_gen.blocks.vector_context import VectorContexts
from hw_gen.blocks.vector_gather import VectorGather
from hw_gen.blocks.vector_issue import VectorIssue
from hw_gen.blocks.vector_parts import step_layout
from hw_gen.interfaces import READ_LATENCY, spad_read
from hw_gen.layouts import engine_layout
from spec import preset
from spec.config import NpuConfig
from spec.isa import Alu, DType, Opcode, Space
from sw.compiler.program.cycles import reading_cycles

TINY = replace(preset("tiny"), name="tiny8", cols=8)
SIZE = 512
"""Bytes of the scratchpad that are read."""


class Reads(wiring.Component):
    """The reading part of the vector engine: issue, contexts and gather."""

    def __init__(self, config: NpuConfig):
        self._config = config
        self.steps = Sequencer(
            Opcode.VECTOR,
            {name: f"{name}_base" for name in ("a", "b", "o", "param")} | {"dy": "y0", "dx": "x0"},
            post_points=(0, 1),
        ).step_layout
        super().__init__(
            {
                "step": In(stream.Signature(self.steps)),
                "instr": In(engine_layout(Opcode.VECTOR)),
                "a": Out(spad_read(config)),
                "b": Out(spad_read(config)),
                "acc": Out(stream.Signature(config.acc_addr_bits)),
                "acc_valid": In(1),
                "acc_data": In(32 * config.cols),
                "o": Out(stream.Signature(step_layout(config))),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.issue = issue = VectorIssue(self._config, self.steps)
        m.submodules.contexts = contexts = VectorContexts(self._config)
        m.submodules.gather = gather = VectorGather(self._config)
        for source, sink in (
            (flipped(self.step), issue.step),
            (issue.a, flipped(self.a)),
            (issue.b, flipped(self.b)),
            (issue.acc, flipped(self.acc)),
            (issue.pending, gather.pending),
            (issue.context, contexts.i),
            (gather.o, flipped(self.o)),
        ):
            connect(m, source, sink)
        m.d.comb += [
            issue.instr.eq(self.instr),
            issue.consumed.eq(gather.consumed),
            issue.slot.eq(contexts.slot),
            contexts.release.eq(gather.o.valid & gather.o.ready & gather.o.payload.tag.last),
            gather.slots.eq(contexts.slots),
            gather.acc.valid.eq(self.acc_valid),
            gather.acc.data.eq(self.acc_data),
        ]
        for port, words in ((self.a, gather.a), (self.b, gather.b)):
            m.d.comb += [words.valid.eq(port.data_valid), words.data.eq(port.data)]
        return m


def element(memory: bytes, at: int, kind: DType) -> int:
    return int.from_bytes(memory[at : at + kind.bytes], "little", signed=kind.signed)


class Bench:
    """Steps of one instruction, and what comes out of the gather: lanes of A and of B."""

    def __init__(self, config: NpuConfig, fields: dict, steps: list[dict], stall: float, seed: int):
        self.config, self.fields, self.steps, self.stall = config, fields, steps, stall
        self.rng = random.Random(seed)
        self.memory = self.rng.randbytes(SIZE)
        self.sums = [self.rng.randbytes(4 * config.cols) for _ in range(8)]
        self.dut = reused(Reads, config)
        self.got: list[tuple[list[int], list[int]]] = []
        self.taken: list[int] = []
        self.cycle = 0

    def run(self, platform=None, watch=()) -> "Bench":
        memories = [self._serve(port) for port in (self.dut.a, self.dut.b)]
        background = [*memories, self._sums, *watch]
        simulate(self.dut, self._drive, self._collect, background=background, platform=platform)
        return self

    async def _drive(self, ctx) -> None:
        ctx.set(self.dut.instr, self.fields)
        last = len(self.steps) - 1
        for number, step in enumerate(self.steps):
            flags = {"first": int(number == 0), "last": int(number == last)}
            ctx.set(self.dut.step.payload, step | flags)
            ctx.set(self.dut.step.valid, 1)
            while not (await sample(ctx, self.dut.step.ready))[0]:
                pass
        ctx.set(self.dut.step.valid, 0)

    async def _collect(self, ctx) -> None:
        out = self.dut.o
        ctx.set(out.ready, 1)
        while len(self.got) < len(self.steps):
            valid, payload = await sample(ctx, out.valid, out.payload)
            self.cycle += 1
            if valid:
                self.taken.append(self.cycle)
                self.got.append((self._lanes(payload.a), self._lanes(payload.b)))

    def _lanes(self, value: int) -> list[int]:
        words = [value >> (32 * c) & 0xFFFF_FFFF for c in range(self.config.cols)]
        return [w - (w >> 31 << 32) for w in words]

    def _serve(self, port):
        """A port of the scratchpad, which now and then has no free bank."""

        async def serve(ctx):
            # As many cycles as data take: accepted in one cycle, there READ_LATENCY later.
            queue: list[int | None] = [None] * (READ_LATENCY - 1)
            while True:
                ready = self.rng.random() >= self.stall
                ctx.set(port.ready, int(ready))
                valid, addr, size = await sample(ctx, port.valid, port.addr, port.size)
                queue.append(None)
                if valid and ready:
                    word = self.memory[addr : addr + size]
                    waste = self.rng.randbytes(self.config.word_bytes - size)
                    queue[-1] = int.from_bytes(word + waste, "little")
                data = queue.pop(0)
                ctx.set(port.data_valid, int(data is not None))
                ctx.set(port.data, data or 0)

        return serve

    async def _sums(self, ctx) -> None:
        dut = self.dut
        while True:
            ready = self.rng.random() >= self.stall
            ctx.set(dut.acc.ready, int(ready))
            valid, at = await sample(ctx, dut.acc.valid, dut.acc.payload)
            ctx.set(dut.acc_valid, int(valid and ready))
            ctx.set(dut.acc_data, int.from_bytes(self.sums[at % len(self.sums)], "little"))

    def expected(self, step: dict) -> tuple[list[int], list[int] | None]:
        """Lanes of A and of B; None: B is not read."""
        cols, fields = self.config.cols, self.fields
        if fields["a_space"] == Space.ACC:
            sums = self.sums[step["a"] % len(self.sums)]
            a = [element(sums, 4 * c, DType.I32) for c in range(cols)]
        else:
            a = [
                element(self.memory, step["a"] + c * fields["a_type"].bytes, fields["a_type"])
                for c in range(cols)
            ]
        if fields["alu"] == Alu.PASS:
            return a, None
        one, kind = fields["b_one"], fields["b_type"]
        places = [step["b"] + (0 if one else c * kind.bytes) for c in range(cols)]
        return a, [element(self.memory, at, kind) for at in places]

    def check(self) -> None:
        for step, (a, b) in zip(self.steps, self.got, strict=True):
            right = self.expected(step)
            assert a == right[0], step
            assert right[1] is None or b == right[1], step


def bench(
    *,
    a: DType | None,
    b: DType | None = None,
    one: bool = False,
    count: int = 40,
    row: int = 1,
    stall: float = 0.0,
    waits: bool = False,
    seed: int = 0,
) -> Bench:
    """a: type of A in the scratchpad, None: A is in the accumulator. b: of B, None: there is none.
    one: an element of B for all lanes, the same for `row` steps.
    """
    rng, cols = random.Random(seed), TINY.cols
    fields = {
        "a_space": Space.ACC if a is None else Space.SPAD,
        "a_type": DType.I32 if a is None else a,
        "b_type": DType.I8 if b is None else b,
        "b_one": int(one),
        "alu": Alu.PASS if b is None else Alu.ADD,
        "lanes": cols,
        "lanes_last": cols,
        "lane_loop": 15,
        "height": 1,
        "width": 1,
    }
    far = SIZE - 4 * cols
    steps = []
    for number in range(count):
        if number % row == 0:
            at_b = rng.randrange(0, far)
        steps.append(
            {
                "a": rng.randrange(8) if a is None else rng.randrange(0, far),
                "b": at_b,
                "waits": int(waits and rng.random() < 0.3),
            }
        )
    return Bench(TINY, fields, steps, stall, seed)


WIDE = (DType.I8, DType.I16, DType.I32)


@pytest.mark.parametrize("platform", FORMS, ids=["synthesis", "simulation"])
@pytest.mark.parametrize("stall", [0.0, 0.4])
@pytest.mark.parametrize("b", [None, *WIDE])
@pytest.mark.parametrize("a", [None, *WIDE])
def test_lanes_have_the_elements_of_both_operands(a, b, stall, platform):
    for one in (False, True) if b is not None else (False,):
        bench(a=a, b=b, one=one, row=3, stall=stall, waits=True, seed=7).run(platform).check()


@pytest.mark.parametrize(
    ("a", "b", "one", "row", "cycles"),
    [
        (DType.I16, None, False, 1, 1),
        (DType.I32, None, False, 1, 2),
        (None, DType.I16, False, 1, 1),
        (None, DType.I32, False, 1, 2),
        (DType.I16, DType.I16, False, 1, 2),
        (DType.I16, DType.I32, True, 4, 1.25),
        (DType.I16, DType.I32, True, 1, 2),
        (DType.I8, DType.I8, False, 1, 1),
    ],
)
def test_an_operand_that_is_alone_comes_through_both_ports(a, b, one, row, cycles):
    """Words of eight bytes: a vector of int16 has two, one of int32 four."""
    found = bench(a=a, b=b, one=one, row=row, count=80).run()
    found.check()
    measured = (found.taken[-1] - found.taken[15]) / (len(found.taken) - 16)
    assert measured == pytest.approx(cycles, rel=0.03)
    words = [0 if kind is None else kind.bytes for kind in (a, b)]
    if one:
        words[1] = 1
    assert max(1.0, reading_cycles(*words, 1 / row if one else 1.0)) == cycles


def test_an_element_of_b_is_read_again_where_a_step_waits():
    """Others may have written it until then."""
    found = bench(a=DType.I16, b=DType.I32, one=True, row=40, count=40, waits=True)
    reads = []

    async def count(ctx):
        port = found.dut.b
        while True:
            valid, ready, at = await sample(ctx, port.valid, port.ready, port.addr)
            if valid and ready:
                reads.append(at)

    found.run(watch=[count]).check()
    waiting = sum(step["waits"] for step in found.steps[1:])
    assert 0 < waiting < len(found.steps) - 1
    assert reads.count(found.steps[0]["b"]) == 1 + waiting

"""What was written to the scratchpad is read by everybody, once it has landed."""

import random

import pytest
from hw_bench import FORMS, FPGA, sample, simulate

from hw_gen.blocks.scratchpad import Scratchpad
from spec import preset


@pytest.mark.parametrize(
    ("name", "seed", "together", "form"),
    [
        ("tiny", 1, (), None),
        ("default", 2, [(0, 3), (1, 2)], None),
        ("odd", 3, [(0, 1, 3)], None),
        ("tiny", 4, (), FORMS[1]),
        ("tiny", 5, (), FPGA),
    ],
)
def test_what_has_landed_is_read_by_everybody(name, seed, together, form):
    """Two writers, each with a region of its own in which it announces what has landed; readers
    take only what was announced before they ask. Everybody has a few banks in common. Bytes begin
    in any lane of what is written, and of what the last reader gets."""
    config = preset(name)
    tag_bits = 20
    dut = Scratchpad(config, tags=[tag_bits] * 4, writes=2, together=together, lanes=[3])
    rng = random.Random(seed)
    width, span = config.word_bytes, 6 * config.word_bytes
    known = [{}, {}]  # byte address -> value, of what has landed
    over, checked = [], [0] * 4

    def writer(which, port):
        base = which * span

        async def run(ctx):
            waiting, at = [], 0  # writes not yet landed: (marked, bytes)
            for _ in range(250):
                size = rng.randint(1, width)
                if at + size > span:
                    at = 0
                if at == 0:
                    # Nobody looks while bytes change: earlier reads are answered before.
                    while waiting and any(marked for marked, _ in waiting):
                        await settle(ctx, port, which, waiting)
                    known[which].clear()
                    waiting.clear()
                    for _ in range(60):
                        await settle(ctx, port, which, waiting)
                word, mark = rng.getrandbits(8 * width), rng.random() < 0.4
                lane = rng.randrange(width)
                ctx.set(port.lane, lane)
                for field, value in (("addr", base + at), ("size", size), ("data", word)):
                    ctx.set(getattr(port, field), value)
                ctx.set(port.mark, mark)
                ctx.set(port.valid, 1)
                content = from_lane(word, lane)[:size]
                while not await settle(ctx, port, which, waiting):
                    pass
                waiting.append((mark, {base + at + i: v for i, v in enumerate(content)}))
                ctx.set(port.valid, 0)
                at += size
                if rng.random() < 0.3:
                    await settle(ctx, port, which, waiting)
            over.append(which)

        return run

    async def settle(ctx, port, which, waiting):
        landed, ready = await sample(ctx, port.landed, port.ready)
        if landed:
            while True:
                marked, content = waiting.pop(0)
                known[which].update(content)
                if marked:
                    break
        return ready

    def reader(i):
        port = dut.read[i]

        async def run(ctx):
            asked, number = [], 0
            while len(over) < 2 or asked:
                there = known[rng.randrange(2)]
                ctx.set(port.valid, 0)
                if there and len(over) < 2 and rng.random() < 0.9:
                    addr = rng.choice(list(there))
                    size = next(
                        n for n in range(1, width + 1) if n == width or addr + n not in there
                    )
                    size = rng.choice([0, size, rng.randint(1, size)])
                    want = bytes(there[addr + n] for n in range(size))
                    lane = rng.randrange(width) if i == 3 else 0
                    if i == 3:
                        ctx.set(port.lane, lane)
                    for field, value in (("addr", addr), ("size", size), ("tag", number)):
                        ctx.set(getattr(port, field), value)
                    ctx.set(port.valid, 1)
                ready, valid, data, tag, asks = await sample(
                    ctx, port.ready, port.data_valid, port.data, port.data_tag, port.valid
                )
                if valid:
                    before, expected, first = asked.pop(0)
                    assert tag == before
                    assert from_lane(data, first)[: len(expected)] == expected
                    checked[i] += 1
                if ready and asks:
                    asked.append((number, want, lane))
                    number += 1

        return run

    def from_lane(data, lane):
        word = data.to_bytes(width, "little")
        return word[lane:] + word[:lane]

    writers, readers = (writer(j, dut.write[j]) for j in range(2)), (reader(i) for i in range(4))
    simulate(dut, *writers, *readers, platform=form)
    assert min(checked) > 100

"""The accumulator against a simple model: accumulation in place, and its three clients."""

import random

import numpy as np
from hw_bench import sample, simulate

from hw_gen.blocks.accumulator import Accumulator
from spec import preset


def test_accumulator_accumulates_back_to_back_and_reads_the_other_half():
    config = preset("tiny")
    dut = Accumulator(config)
    rng = random.Random(5)
    model = np.zeros((config.acc_vectors, config.cols), np.int64)
    half = config.acc_half

    def pack(values):
        return sum((int(v) & 0xFFFFFFFF) << (32 * i) for i, v in enumerate(values))

    async def fill(ctx):
        sums = [0, 0]
        for n in range(200):
            addr = rng.choice([0, 1, 2, 3])
            overwrite = int(n < 8 or rng.random() < 0.1)
            if n < 4:
                addr = n
            values = np.array([rng.randint(-(1 << 20), 1 << 20) for _ in range(config.cols)])
            ctx.set(dut.matrix.tag, {"valid": 1, "addr": addr, "overwrite": overwrite, "fires": 0})
            ctx.set(dut.matrix.sums, sums.pop(0))
            await ctx.tick()
            sums.append(pack(values))
            model[addr] = values + (0 if overwrite else model[addr])
        ctx.set(dut.matrix.tag, {"valid": 0, "addr": 0, "overwrite": 0, "fires": 0})
        for late in sums:
            ctx.set(dut.matrix.sums, late)
            await ctx.tick()
        done.append(1)

    done, results, refused = [], {}, []

    async def drain(ctx):
        ctx.set(dut.vector.request.valid, 1)
        ctx.set(dut.vector.request.payload, half)
        while not done:
            (ready,) = await sample(ctx, dut.vector.request.ready)
            refused.append(not ready)
        ctx.set(dut.vector.request.valid, 0)
        await ctx.tick().repeat(3)
        for addr in range(4):
            ctx.set(dut.vector.request.payload, addr)
            ctx.set(dut.vector.request.valid, 1)
            await ctx.tick().until(dut.vector.request.ready)
            ctx.set(dut.vector.request.valid, 0)
            data_valid, data = await sample(ctx, dut.vector.words.valid, dut.vector.words.data)
            data_valid, data = await sample(ctx, dut.vector.words.valid, dut.vector.words.data)
            assert data_valid
            results[addr] = data

    simulate(dut, fill, drain)
    assert not any(refused), "the other half must never be refused"
    for addr in range(4):
        assert results[addr] == pack(model[addr]), addr


def test_each_accumulator_bank_serves_matrix_then_depthwise_then_vector():
    """Three clients on vectors of their own in shared banks: every answer, refusal and content."""
    config = preset("tiny")
    dut, rng = Accumulator(config), random.Random(6)
    mask = (1 << 32 * config.cols) - 1
    contents = [0] * config.acc_vectors

    def bank(addr):
        return addr // config.acc_bank

    def choose(client):
        return config.acc_bank * rng.randrange(4) + 3 * rng.randrange(3) + client

    def added(a, b):
        lanes = range(0, 32 * config.cols, 32)
        return sum((((a >> n) + (b >> n)) & 0xFFFFFFFF) << n for n in lanes)

    async def run(ctx):
        port = dut.depthwise
        request, write = dut.vector.request, dut.vector.write
        tag = {"valid": 0, "addr": 0, "overwrite": 0, "fires": 0}
        tags = [tag, tag]
        old, answers, refused = None, [None, None], [0, 0]
        for _ in range(1500):
            now, sums = tags.pop(0), rng.getrandbits(32 * config.cols)
            tag = {"valid": int(rng.random() < 0.5), "addr": choose(0), "overwrite": 0, "fires": 0}
            tag["overwrite"] = int(rng.random() < 0.3)
            tags.append(tag)
            ctx.set(dut.matrix.tag, tag)
            ctx.set(dut.matrix.sums, sums)
            asks = {}
            for name, client, (valid, ready, addr) in (
                ("dr", 1, (port.r_valid, port.r_ready, port.r_addr)),
                ("dw", 1, (port.w_valid, port.w_ready, port.w_addr)),
                ("vr", 2, (request.valid, request.ready, request.payload)),
                ("vw", 2, (write.w_valid, write.w_ready, write.w_addr)),
            ):
                asks[name] = (rng.random() < 0.6, choose(client), ready)
                ctx.set(valid, asks[name][0])
                ctx.set(addr, asks[name][1])
            data = {"dw": rng.getrandbits(32 * config.cols), "vw": rng.getrandbits(40)}
            ctx.set(port.w_data, data["dw"])
            ctx.set(write.w_data, data["vw"])
            readies = [asks[name][2] for name in asks]
            *got, r_data, valid, v_data = await sample(
                ctx, *readies, port.r_data, dut.vector.words.valid, dut.vector.words.data
            )
            got = dict(zip(asks, got))
            # The answers to this cycle's reads come after those to earlier ones.
            if old is not None:
                assert r_data == old
            due = answers.pop(0)
            assert valid == (due is not None) and (due is None or v_data == due)
            busy = {"r": set(), "w": set()}
            if tag["valid"] and not tag["overwrite"]:
                busy["r"].add(bank(tag["addr"]))
            if now["valid"]:
                busy["w"].add(bank(now["addr"]))
            took = {}
            for i, name in enumerate(("dr", "vr", "dw", "vw")):
                asked, addr, _ = asks[name]
                took[name] = asked and bank(addr) not in busy[name[1]]
                if asked:
                    assert got[name] == took[name], name
                    refused[i % 2] += not took[name]
                    busy[name[1]].add(bank(addr))
            old = contents[asks["dr"][1]] if took["dr"] else None
            answers.append(contents[asks["vr"][1]] if took["vr"] else None)
            if now["valid"]:
                before = 0 if now["overwrite"] else contents[now["addr"]]
                contents[now["addr"]] = added(before, sums)
            for name in ("dw", "vw"):
                if took[name]:
                    contents[asks[name][1]] = data[name] & mask
        assert min(refused) > 100

    simulate(dut, run)


def test_sums_for_one_address_add_up_at_every_distance():
    """Three vectors of one address, up to five cycles apart; others, or nothing, between them."""
    config = preset("tiny")
    dut, rng = Accumulator(config), random.Random(7)
    mask = (1 << 32) - 1
    contents, wanted, found = {}, [], []
    idle = ({"valid": 0, "addr": 0, "overwrite": 0, "fires": 0}, 0)

    def vector(addr, *, overwrite=0):
        lanes = [rng.getrandbits(32) for _ in range(config.cols)]
        old = [0] * config.cols if overwrite else contents[addr]
        contents[addr] = [(a + b) & mask for a, b in zip(old, lanes)]
        sums = sum(lane << 32 * c for c, lane in enumerate(lanes))
        return {"valid": 1, "addr": addr, "overwrite": overwrite, "fires": 0}, sums

    async def run(ctx):
        late = [0, 0]

        async def cycle(tag, sums):
            late.append(sums)
            ctx.set(dut.matrix.tag, tag)
            ctx.set(dut.matrix.sums, late.pop(0))
            await ctx.tick()

        async def rest():
            for _ in range(4):
                await cycle(*idle)

        for case in range(2 * 5 * 5 * 3):
            busy, first, second, third = case % 2, case // 2 % 5 + 1, case // 10 % 5 + 1, case // 50
            others = [1, config.acc_bank + 1]  # in the same bank, in another one
            for addr in (0, *others):
                await cycle(*vector(addr, overwrite=1))
            await rest()
            for distance in (first, second, 1):
                await cycle(*vector(0, overwrite=int(distance == second and third == 2)))
                for n in range(distance - 1):
                    await cycle(*(vector(others[n % 2]) if busy and third else idle))
            await rest()
            for addr in (0, *others):
                wanted.append(sum(lane << 32 * c for c, lane in enumerate(contents[addr])))
                ctx.set(dut.vector.request.payload, addr)
                ctx.set(dut.vector.request.valid, 1)
                await ctx.tick()
                ctx.set(dut.vector.request.valid, 0)
                await ctx.tick()
                found.extend(await sample(ctx, dut.vector.words.data))

    simulate(dut, run, deadline=10_000)
    assert found == wanted

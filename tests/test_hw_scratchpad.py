"""The scratchpad against simple models: contents, order, fairness, banks."""

import random
from dataclasses import replace

import numpy as np
import pytest
from hw_bench import FORMS, FPGA, sample, simulate

from hw_gen.blocks.scratchpad import Scratchpad
from hw_gen.interfaces import READ_LATENCY
from spec import preset
from spec.banks import PATIENCE, WITH_DEPTHWISE


@pytest.mark.parametrize("form", [*FORMS, FPGA], ids=["synthesized", "simulated", "fpga"])
@pytest.mark.parametrize("name", ["tiny", "odd", "default"])
def test_scratchpad_reads_what_was_written_at_any_address(name, form):
    config = preset(name)
    dut = Scratchpad(config, tags=[1, 1], writes=1, lanes=[1], ways=[(0, 1)])
    rng = random.Random(1)
    memory = np.zeros(config.spad_bytes, np.uint8)
    span = 40 * config.word_bytes
    expected, got = [[], []], [[], []]

    async def write(ctx):
        port = dut.write[0]
        for _ in range(300):
            size = rng.randint(1, config.word_bytes)
            addr = rng.randint(0, span - size)
            data = rng.getrandbits(8 * config.word_bytes)
            ctx.set(port.valid, 1)
            ctx.set(port.addr, addr)
            ctx.set(port.size, size)
            ctx.set(port.data, data)
            await ctx.tick().until(port.ready)
            memory[addr : addr + size] = list(data.to_bytes(config.word_bytes, "little")[:size])
        ctx.set(port.valid, 0)
        await ctx.tick().until(port.empty)
        done.append(1)

    done = []

    def reader(i):
        async def read(ctx):
            port = dut.read[i]
            while not done:
                await ctx.tick()
            for _ in range(300):
                size = rng.randint(1, config.word_bytes)
                addr = rng.randint(0, span - size)
                ctx.set(port.valid, rng.random() < 0.8)
                ctx.set(port.addr, addr)
                ctx.set(port.size, size)
                valid, ready, data_valid, data = await sample(
                    ctx, port.valid, port.ready, port.data_valid, port.data
                )
                if data_valid:
                    got[i].append(data)
                if valid and ready:
                    expected[i].append(bytes(memory[addr : addr + size]))
            ctx.set(port.valid, 0)
            for _ in range(3 + WITH_DEPTHWISE):
                data_valid, data = await sample(ctx, port.data_valid, port.data)
                if data_valid:
                    got[i].append(data)

        return read

    simulate(dut, write, reader(0), reader(1), platform=form)
    for i in range(2):
        assert len(expected[i]) > (50 if form is FPGA else 100)  # there they share a way
        assert len(got[i]) == len(expected[i])
        for data, want in zip(got[i], expected[i]):
            assert data.to_bytes(config.word_bytes, "little")[: len(want)] == want


@pytest.mark.parametrize(("together", "cycles"), [((), 80), ([(0, 1)], 40)])
def test_clients_together_read_a_word_at_once(together, cycles):
    """Halves of one word, two ports: one bank serves one of them, or both."""
    config = preset("tiny")
    dut = Scratchpad(config, tags=[1, 1], writes=1, together=together)
    half, answers = config.word_bytes // 2, [[], []]

    def reader(n):
        async def run(ctx):
            port, asked, cycle = dut.read[n], 0, 0
            while len(answers[n]) < 40:
                ctx.set(port.valid, asked < 40)
                ctx.set(port.addr, n * half)
                ctx.set(port.size, half)
                ready, valid = await sample(ctx, port.ready, port.data_valid)
                asked += ready and asked < 40
                answers[n] += [cycle] * valid
                cycle += 1

        return run

    simulate(dut, reader(0), reader(1))
    last = max(answers[0][-1], answers[1][-1])
    assert cycles - 1 <= last - READ_LATENCY <= cycles + 1


@pytest.mark.parametrize(("form", "cycles"), [(None, 40), (FPGA, 80)], ids=["synthesized", "fpga"])
def test_clients_of_one_way_read_one_at_a_time_on_an_fpga(form, cycles):
    """Two words in different banks. None waits longer than for a bank."""
    config = preset("tiny")
    dut = Scratchpad(config, tags=[1, 1], writes=1, ways=[(0, 1)])
    answers = [[], []]

    def reader(n):
        async def run(ctx):
            port, asked, cycle = dut.read[n], 0, 0
            while len(answers[n]) < 40:
                ctx.set(port.valid, asked < 40)
                ctx.set(port.addr, n * config.word_bytes)
                ctx.set(port.size, 1)
                ready, valid = await sample(ctx, port.ready, port.data_valid)
                asked += ready and asked < 40
                answers[n] += [cycle] * valid
                cycle += 1

        return run

    simulate(dut, reader(0), reader(1), platform=form)
    assert set(answers[0]).isdisjoint(answers[1]) is (form is FPGA)
    last = max(answers[0][-1], answers[1][-1])
    assert cycles - 1 <= last - READ_LATENCY <= cycles + 1
    assert answers[1][4] < 6 * (WITH_DEPTHWISE + 2)


@pytest.mark.parametrize("name", ["tiny", "odd"])
def test_writes_land_in_order_beside_those_of_others(name):
    config = preset(name)
    dut = Scratchpad(config, tags=[0], writes=2)
    rng = random.Random(3)
    span = 12 * config.word_bytes
    expected = bytearray(span)
    marks, landings, done = [], [], []

    def access(low, high):
        size = rng.randint(1, config.word_bytes)
        return rng.randint(low, high - size), size, rng.getrandbits(8 * config.word_bytes)

    async def write(ctx):
        port = dut.write[1]
        for n in range(400):
            addr, size, word = access(0, span)
            mark = rng.random() < 0.2 or n == 399
            for name, value in (("addr", addr), ("size", size), ("data", word), ("mark", mark)):
                ctx.set(getattr(port, name), value)
            ctx.set(port.valid, 1)
            while not (await sample(ctx, port.ready))[0]:
                pass
            content = word.to_bytes(config.word_bytes, "little")[:size]
            expected[addr : addr + size] = content
            marks.extend([n] * mark)
            if rng.random() < 0.3:
                ctx.set(port.valid, 0)
                await ctx.tick().repeat(rng.randint(1, 6))
        ctx.set(port.valid, 0)
        done.append(1)

    async def landed(ctx):
        while not done or len(landings) < len(marks):
            (now,) = await sample(ctx, dut.write[1].landed)
            landings.extend([1] * now)
        assert len(landings) == len(marks)
        assert ctx.get(dut.write[1].empty)
        got = []
        port = dut.read[0]
        ctx.set(port.valid, 1)
        ctx.set(port.size, 1)
        for n in range(span + READ_LATENCY):
            ctx.set(port.addr, min(n, span - 1))
            while True:
                ready, data_valid, word = await sample(ctx, port.ready, port.data_valid, port.data)
                got.extend([word & 0xFF] * data_valid)
                if ready:
                    break
        assert bytes(got[:span]) == expected

    async def other(ctx):
        """Writes elsewhere take the buffers of banks away."""
        port = dut.write[0]
        for _ in range(500):
            addr, size, word = access(span, 2 * span)
            ctx.set(port.valid, rng.random() < 0.9)
            for name, value in (("addr", addr), ("size", size), ("data", word)):
                ctx.set(getattr(port, name), value)
            await ctx.tick()
        ctx.set(port.valid, 0)

    simulate(dut, write, landed, other)
    assert len(marks) > 40


def test_a_mark_is_answered_when_its_bytes_are_read():
    config = preset("tiny")
    dut = Scratchpad(config, tags=[0, 0], writes=1)
    seen = []

    async def bench(ctx):
        port, hog, read = dut.write[0], *dut.read
        ctx.set(hog.valid, 1)
        ctx.set(hog.size, 1)
        for name, value in (("addr", 6), ("size", 4), ("data", 0xDDCCBBAA), ("mark", 1)):
            ctx.set(getattr(port, name), value)
        ctx.set(port.valid, 1)
        while not (await sample(ctx, port.ready))[0]:
            pass
        ctx.set(port.valid, 0)
        cycles = 0
        while not (await sample(ctx, port.landed))[0]:
            cycles += 1
        assert 6 <= cycles <= 12  # the bank of its first half is taken until it is due by age
        ctx.set(hog.valid, 0)
        ctx.set(read.addr, 6)
        ctx.set(read.size, 4)
        ctx.set(read.valid, 1)
        for _ in range(4 + WITH_DEPTHWISE):
            valid, word = await sample(ctx, read.data_valid, read.data)
            ctx.set(read.valid, 0)
            if valid:
                seen.append(word & 0xFFFFFFFF)

    simulate(dut, bench)
    assert seen == [0xDDCCBBAA]


@pytest.mark.parametrize("form", FORMS, ids=["synthesized", "simulated"])
def test_writes_of_one_word_wait_for_its_bank_as_one(form):
    """Bytes of one word, each written twice, while another client takes its bank."""
    config = preset("tiny")
    dut = Scratchpad(config, tags=[0, 0], writes=1)
    width = config.word_bytes
    writes = [(at, 1, 0x10 * turn + at) for turn in (1, 2) for at in range(width)]
    taken = next(w for w in range(1, 64) if config.bank_of(w) == config.bank_of(0))
    seen, cycles = [], [0]

    async def bench(ctx):
        port, hog, read = dut.write[0], *dut.read
        ctx.set(hog.valid, 1)
        ctx.set(hog.addr, taken * width)
        ctx.set(hog.size, 1)
        ctx.set(port.valid, 1)
        for at, size, value in writes:
            for name, field in (("addr", at), ("size", size), ("data", value)):
                ctx.set(getattr(port, name), field)
            while not (await sample(ctx, port.ready))[0]:
                cycles[0] += 1
        ctx.set(port.valid, 0)
        while not (await sample(ctx, port.empty))[0]:
            pass
        ctx.set(read.size, width)
        ctx.set(read.valid, 1)
        while not seen:
            valid, word = await sample(ctx, read.data_valid, read.data)
            seen.extend([word] * valid)

    simulate(dut, bench, platform=form)
    assert cycles[0] == 0
    assert seen[0].to_bytes(width, "little") == bytes(value for _, _, value in writes[width:])


def test_windows_are_written_at_nine_tenths_beside_every_other_engine():
    """Nine bytes of each pixel's 27, while the array reads pixels and results come and go."""
    config = preset("default")
    dut = Scratchpad(config, tags=[1, 1], writes=2)
    cycles, taken = 900, {}

    def client(name, port, rate, address, size):
        async def run(ctx):
            done, credit = 0, 0.0
            for _ in range(cycles):
                credit = min(credit + rate, 4.0)
                ctx.set(port.valid, credit >= 1)
                ctx.set(port.addr, address(done))
                ctx.set(port.size, size(done))
                valid, ready = await sample(ctx, port.valid, port.ready)
                if valid and ready:
                    done, credit = done + 1, credit - 1
            ctx.set(port.valid, 0)
            taken[name] = done

        return run

    def columns(i):
        row, column = divmod(i, 112)
        return 99_001 + 9 * (row % 3) + 27 * (112 * (row // 3 % 4) + column)

    simulate(
        dut,
        client("matrix", dut.read[0], 1, lambda i: 27 * (i % 1000) + 16 * (i // 500 % 2),
               lambda i: 11 if i // 500 % 2 else 16),
        client("store", dut.read[1], 0.5, lambda i: 200_000 + 16 * i, lambda i: 16),
        client("vector", dut.write[1], 0.5, lambda i: 64_000 + 16 * i, lambda i: 16),
        client("load", dut.write[0], 1, columns, lambda i: 9),
    )  # fmt: skip
    assert taken["matrix"] >= 0.99 * cycles
    assert taken["load"] >= 0.9 * cycles, taken
    assert min(taken["store"], taken["vector"]) >= 0.49 * cycles


@pytest.mark.parametrize("pitch_words", [1, 2, 8, 9, 64, 128])
def test_no_pitch_pins_two_clients_to_one_bank(pitch_words):
    """A strided reader and a streaming one together keep at least 0.75 reads a cycle each: at
    random banks it would be 7 of 8."""
    config = preset("default")
    dut = Scratchpad(config, tags=[1, 1], writes=0)
    accepted = [0, 0]

    def reader(i, pitch):
        async def read(ctx):
            port, addr = dut.read[i], i * 4096
            ctx.set(port.valid, 1)
            ctx.set(port.size, config.word_bytes)
            for _ in range(400):
                ctx.set(port.addr, addr % (config.spad_bytes // 2))
                (ready,) = await sample(ctx, port.ready)
                if ready:
                    accepted[i] += 1
                    addr += pitch * config.word_bytes

        return read

    simulate(dut, reader(0, pitch_words), reader(1, 1))
    assert min(accepted) >= 300


def test_a_stream_is_not_held_back_by_a_slower_one_before_it():
    """One reads a column of three rows after the other, all three in one bank if the order of banks
    were the same in each row; another one streams."""
    config = preset("default")
    dut = Scratchpad(config, tags=[1, 1], writes=0)
    pitch, taken = 56, {}

    def reader(name, port, address):
        async def run(ctx):
            taken[name] = 0
            ctx.set(port.valid, 1)
            ctx.set(port.size, config.word_bytes)
            for _ in range(900):
                ctx.set(port.addr, address(taken[name]) * config.word_bytes)
                (ready,) = await sample(ctx, port.ready)
                taken[name] += ready

        return run

    simulate(
        dut,
        reader("columns", dut.read[0], lambda i: i % 3 * pitch + i // 3),
        reader("stream", dut.read[1], lambda i: 8192 + i),
    )
    assert taken["columns"] == 900
    assert taken["stream"] >= 700, taken


def test_results_are_written_in_nine_of_ten_cycles_beside_two_readers():
    """The array reads windows of two words each, the depthwise engine a word."""
    config = preset("default")
    dut = Scratchpad(config, tags=[1, 1], writes=1)
    cycles, written = 900, []

    def reader(port, address, size):
        async def run(ctx):
            done = 0
            ctx.set(port.valid, 1)
            ctx.set(port.size, size)
            for _ in range(cycles):
                ctx.set(port.addr, address(done))
                (ready,) = await sample(ctx, port.ready)
                done += ready

        return run

    async def write(ctx):
        port = dut.write[0]
        ctx.set(port.valid, 1)
        ctx.set(port.size, 16)
        for _ in range(cycles):
            ctx.set(port.addr, 65536 + 16 * len(written))
            (ready,) = await sample(ctx, port.ready)
            written.extend([1] * ready)

    simulate(
        dut,
        reader(dut.read[0], lambda i: 9 + 32 * (i % 500), 16),
        reader(dut.read[1], lambda i: 131072 + 16 * (57 * (i % 3) + i // 3), 16),
        write,
    )
    assert len(written) >= 0.9 * cycles, len(written)


@pytest.mark.parametrize(("depthwise", "wait"), [(True, WITH_DEPTHWISE), (False, PATIENCE)])
def test_low_priority_client_is_served_by_age(depthwise, wait):
    config = replace(preset("tiny"), depthwise=depthwise)
    dut = Scratchpad(config, tags=[1, 1], writes=0)
    served = []

    async def hog(ctx):
        port = dut.read[0]
        ctx.set(port.valid, 1)
        ctx.set(port.size, 1)
        for _ in range(60):
            await ctx.tick()

    async def poor(ctx):
        port = dut.read[1]
        ctx.set(port.valid, 1)
        ctx.set(port.size, 1)
        for _ in range(60):
            (ready,) = await sample(ctx, port.ready)
            served.append(ready)

    simulate(dut, hog, poor)
    # Each wait ends with a cycle in a register; the first two reads wait in the port's queue.
    assert 60 // (wait + 2) <= sum(served) <= 60 // wait + 2

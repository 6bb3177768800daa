"""The weight feed against the array's rule: rows after the swap before them, before their own."""

import random
from collections import deque
from dataclasses import replace

import pytest
from amaranth.lib import data
from hw_bench import sample, simulate

from hw_gen.blocks.matrix import ACTS_AHEAD
from hw_gen.blocks.matrix_weights import AHEAD, WeightFeed
from hw_gen.interfaces import READ_LATENCY
from spec import preset

CONFIG = preset("tiny")
STEP = data.StructLayout({"wgt": 24, "at_last": 6, "fires": 1})


class Bench:
    """Feeds `folds`, each (vectors, rows); refuse: chance of a refused read, pause: of a cycle in
    which no vector is issued, late: of a cycle in which a port has no answer. `many` rows enter
    together. Afterwards: `swaps` and `reads`, the cycles of each fold's."""

    def __init__(self, folds, *, refuse=0.0, pause=0.0, late=0.0, seed=0, transposed=0.0, many=1):
        self.folds, self.many, self.late, self.fires = folds, many, late, 0
        self.rng = random.Random(seed)
        self.refuse, self.pause = refuse, pause
        self.across = [int(self.rng.random() < transposed) for _ in folds]
        self.dut = WeightFeed(replace(CONFIG, weight_rows=many), STEP)
        self.swaps, self.reads, self.begins = [], [[] for _ in folds], []
        self.rows = []  # (cycle, word) as they go to the array
        self.cycle = 0
        simulate(self.dut, self._steps, self._clock)

    def word(self, fold, row):
        return (1 + 7 * fold + row) % 128

    async def _steps(self, ctx):
        dut = self.dut
        for fold, (_, vectors) in enumerate(self.folds):
            ctx.set(dut.step.payload.wgt, 8 * CONFIG.rows * fold)
            ctx.set(dut.step.payload.fires, 1)
            across = self.across[fold]
            rows, cols = (1, vectors) if across else (vectors, 1)
            instr = {"rows": rows, "row_loop": 7, "cols": cols, "col_loop": 7, "wgt_row": 8}
            instr["transposed"] = across
            for name, value in instr.items():
                ctx.set(getattr(dut.instr, name), value)
            ctx.set(dut.step.valid, 1)
            while not (await sample(ctx, dut.step.ready))[0]:
                pass
        ctx.set(dut.step.valid, 0)

    async def _clock(self, ctx):
        dut, pitch = self.dut, 8 * CONFIG.rows
        flights = [deque() for _ in dut.wgts]
        fold, left, begun = 0, 0, 0
        while fold < len(self.folds) or left:
            for port, flight in zip(dut.wgts, flights, strict=True):
                come = bool(flight) and flight[0][0] <= self.cycle
                come = come and self.rng.random() >= self.late
                ctx.set(port.data_valid, come)
                if come:
                    _, word, tag = flight.popleft()
                    ctx.set(port.data, word)
                    ctx.set(port.data_tag, tag)
                ctx.set(port.ready, self.rng.random() >= self.refuse)
            issue = self.rng.random() >= self.pause
            start = issue and left == 0 and fold < len(self.folds) and bool(ctx.get(dut.loaded))
            begin = (
                begun < len(self.folds) and begun < fold + ACTS_AHEAD and bool(ctx.get(dut.have))
            )
            start = start and begun > fold
            ctx.set(dut.begin, begin)
            begun += begin
            self.begins += [self.cycle] * begin
            ctx.set(dut.entering, start)
            asked = [s for p in dut.wgts for s in (p.valid, p.ready, p.addr, p.size, p.tag)]
            row_valid, across, row, fire, *asked = await sample(
                ctx, dut.o.valid, dut.o.across, dut.o.data, dut.fire, *asked
            )
            self.fires += fire
            for n, flight in enumerate(flights):
                valid, ready, addr, size, tag = asked[5 * n : 5 * n + 5]
                if valid and ready:
                    self.reads[asked[2] // pitch].append(self.cycle)
                    assert size == 1 or (n and size == 0)
                    word = self.word(addr // pitch, addr % pitch // 8)
                    flight.append((self.cycle + READ_LATENCY, word, tag))
            if row_valid:
                lanes = 9 * max(CONFIG.rows, CONFIG.cols)
                rows = [row >> lanes * n & (1 << lanes) - 1 for n in range(self.many)]
                self.rows.append((self.cycle, rows, across))
            if start:
                self.swaps.append(self.cycle)
                left = self.folds[fold][0]
                fold += 1
            left -= issue and left > 0
            self.cycle += 1

    def check(self):
        assert len(self.swaps) == len(self.folds)
        at = 0
        for fold, (_, rows) in enumerate(self.folds):
            cycles = -(-rows // self.many)
            mine = self.rows[at : at + cycles]
            words = [word for _, some, _ in mine for word in some]
            wanted = [self.word(fold, r) for r in range(rows)]
            assert words == wanted + [0] * (cycles * self.many - rows)
            assert {across for _, _, across in mine} == {self.across[fold]}
            # Swap flag and weights stand at the array a cycle after `entering` and after they pop.
            assert mine[-1][0] < self.swaps[fold] + 1
            if fold:
                assert mine[0][0] >= self.swaps[fold - 1] + 1
            if fold > 1:
                assert self.reads[fold][0] > self.begins[fold - 2]
            at += cycles
        assert at == len(self.rows)
        assert self.fires == len(self.folds)


@pytest.mark.parametrize("seed", range(6))
def test_rows_enter_between_the_swaps_whatever_is_refused(seed):
    rng = random.Random(seed)
    folds = [(rng.choice([1, 1, 2, 5]), rng.randint(1, CONFIG.rows)) for _ in range(80)]
    refuse, pause = [0, 0, 0.2, 0.5, 0.8, 0.3][seed], 0.3 * (seed % 2)
    Bench(folds, refuse=refuse, pause=pause, seed=seed, transposed=0.4).check()


@pytest.mark.parametrize(("many", "seed"), [(2, 1), (2, 2), (4, 3)])
def test_rows_that_enter_together_wait_for_each_other(many, seed):
    rng = random.Random(seed)
    folds = [(rng.choice([1, 1, 2, 5]), rng.randint(1, CONFIG.rows)) for _ in range(80)]
    Bench(folds, refuse=0.2, pause=0.1, late=0.3, seed=seed, transposed=0.4, many=many).check()


@pytest.mark.parametrize(("many", "rows"), [(2, 4), (2, 3), (4, 4)])
def test_a_fold_takes_a_cycle_for_all_rows_that_enter_together(many, rows):
    bench = Bench([(1, rows)] * 60, transposed=0.5, many=many)
    bench.check()
    assert bench.swaps[-1] - bench.swaps[0] == 59 * -(-rows // many)


@pytest.mark.parametrize("transposed", [0, 0.5, 1])
@pytest.mark.parametrize(("vectors", "rows"), [(1, 4), (1, 3), (2, 4), (4, 4), (5, 4), (1, 2)])
def test_a_fold_takes_as_many_cycles_as_vectors_or_rows(vectors, rows, transposed):
    bench = Bench([(vectors, rows)] * 60, transposed=transposed)
    bench.check()
    assert bench.swaps[-1] - bench.swaps[0] == 59 * max(vectors, rows)


def test_folds_of_a_row_and_a_vector_take_a_cycle_each():
    bench = Bench([(1, 1)] * 60)
    bench.check()
    assert bench.swaps[-1] - bench.swaps[0] == 59


def test_rows_are_read_ahead_while_a_fold_streams():
    bench = Bench([(30, 4)] * 4)
    bench.check()
    for fold in range(2, 4):
        early = [c for c in bench.reads[fold] if c < bench.swaps[fold - 1]]
        assert 0 < len(early) <= AHEAD

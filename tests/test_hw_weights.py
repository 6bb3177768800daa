"""The weight feed against the array's rule: rows after the swap before them, before their own."""

import random
from collections import deque

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
    which no vector is issued. Afterwards: `swaps` and `reads`, the cycles of each fold's."""

    def __init__(self, folds, *, refuse=0.0, pause=0.0, seed=0, transposed=0.0):
        self.folds = folds
        self.rng = random.Random(seed)
        self.refuse, self.pause = refuse, pause
        self.across = [int(self.rng.random() < transposed) for _ in folds]
        self.dut = WeightFeed(CONFIG, STEP)
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
        flight = deque([None] * READ_LATENCY)
        fold, left, begun = 0, 0, 0
        while fold < len(self.folds) or left:
            come = flight.popleft()
            ctx.set(dut.wgt.data_valid, come is not None)
            if come:
                ctx.set(dut.wgt.data, come[0])
                ctx.set(dut.wgt.data_tag, come[1])
            ctx.set(dut.wgt.ready, self.rng.random() >= self.refuse)
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
            valid, ready, addr, size, tag, row_valid, across, row = await sample(
                ctx,
                dut.wgt.valid,
                dut.wgt.ready,
                dut.wgt.addr,
                dut.wgt.size,
                dut.wgt.tag,
                dut.o.valid,
                dut.o.across,
                dut.o.data,
            )
            flight.append(None)
            if valid and ready:
                self.reads[addr // pitch].append(self.cycle)
                assert size == 1
                flight[-1] = self.word(addr // pitch, addr % pitch // 8), tag
            if row_valid:
                self.rows.append((self.cycle, row, across))
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
            mine = self.rows[at : at + rows]
            assert [word for _, word, _ in mine] == [self.word(fold, r) for r in range(rows)]
            assert {across for _, _, across in mine} == {self.across[fold]}
            # Swap flag and weights stand at the array a cycle after `entering` and after they pop.
            assert mine[-1][0] < self.swaps[fold] + 1
            if fold:
                assert mine[0][0] >= self.swaps[fold - 1] + 1
            if fold > 1:
                assert self.reads[fold][0] > self.begins[fold - 2]
            at += rows
        assert at == len(self.rows)


@pytest.mark.parametrize("seed", range(6))
def test_rows_enter_between_the_swaps_whatever_is_refused(seed):
    rng = random.Random(seed)
    folds = [(rng.choice([1, 1, 2, 5]), rng.randint(1, CONFIG.rows)) for _ in range(80)]
    refuse, pause = [0, 0, 0.2, 0.5, 0.8, 0.3][seed], 0.3 * (seed % 2)
    Bench(folds, refuse=refuse, pause=pause, seed=seed, transposed=0.4).check()


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

"""The systolic array: random folds with random gaps, sums and tags against NumPy.

Parameters of the build come from SYSTOLA_ROWS, SYSTOLA_COLS and SYSTOLA_WEIGHT_ROWS.
"""

import os
import random

import cocotb
import numpy as np
from cocotb.clock import Clock
from cocotb.triggers import FallingEdge

from spec.config import cycles_through

ROWS, COLS = int(os.environ["SYSTOLA_ROWS"]), int(os.environ["SYSTOLA_COLS"])
WEIGHT_ROWS = int(os.environ.get("SYSTOLA_WEIGHT_ROWS", "1"))
LANES = max(ROWS, COLS)
THROUGH = cycles_through(ROWS, COLS)


def pack(values):
    """9-bit lanes, lane 0 lowest."""
    return sum((int(v) & 0x1FF) << (9 * i) for i, v in enumerate(values))


def lanes_of(across, vectors):
    """Weight vectors as the array takes them in a cycle, with anything in the lanes that it has no
    use for, and zeros for vectors that are left over."""
    used, word = (ROWS if across else COLS), 0
    for n in range(WEIGHT_ROWS):
        vector = pack(vectors[n]) if n < len(vectors) else 0
        vector |= random.getrandbits(9 * LANES) >> 9 * used << 9 * used
        word |= vector << 9 * LANES * n
    return word


def schedule(rng, folds):
    """Per cycle ((across, weight vectors) or None, activation or None, swap), legal but irregular.

    Weights of fold f+1 enter from the cycle of fold f's swap on; a swap comes after the last of
    them. folds: (rows, columns, across). Also returns the expected sums in order.
    """
    cycles, expected, vectors_of = [], [], []
    acts = [rng.integers(-256, 256, (int(rng.integers(1, 2 * ROWS)), ROWS)) for _ in folds]
    for f, (rows, cols, across) in enumerate(folds):
        weights = np.zeros((ROWS, COLS), np.int64)
        weights[:rows, :cols] = rng.integers(-256, 256, (rows, cols))
        acts[f][:, rows:] = 0
        expected += list(acts[f] @ weights)
        chosen = weights[:, :cols].T if across else weights[:rows]
        starts = range(0, len(chosen), WEIGHT_ROWS)
        vectors_of.append([(across, chosen[n : n + WEIGHT_ROWS]) for n in starts])
    cycles += [(w, None, False) for w in vectors_of[0]]
    for f in range(len(folds)):
        todo = list(vectors_of[f + 1]) if f + 1 < len(folds) else []
        vectors = list(acts[f])
        swap = True
        while todo or vectors:
            w = todo.pop(0) if todo and (not swap or vectors) and rng.random() < 0.7 else None
            a = (
                vectors.pop(0)
                if vectors and ((swap and w is not None) or rng.random() < 0.7)
                else None
            )
            if swap and a is None and w is not None:
                todo.insert(0, w)
                w = None
            cycles.append((w, a, swap and a is not None))
            swap = swap and a is None
    return cycles, expected


async def start(dut):
    cocotb.start_soon(Clock(dut.clk, 10, "ns").start())
    for name in ("act", "swap", "tag_i", "wgt_valid", "wgt_across", "wgt"):
        getattr(dut, name).value = 0
    dut.rst.value = 1
    for _ in range(3):
        await FallingEdge(dut.clk)
    dut.rst.value = 0


@cocotb.test(timeout_time=1, timeout_unit="ms")
@cocotb.parametrize(seed=[1, 2, 3])
async def sums_and_tags_of_random_folds(dut, seed):
    rng = np.random.default_rng(seed)
    random.seed(seed)
    await start(dut)
    sizes = [(int(rng.integers(1, ROWS + 1)), int(rng.integers(1, COLS + 1))) for _ in range(24)]
    chance = [0, 0.5, 1][seed - 1]
    cycles, expected = schedule(rng, [(*size, rng.random() < chance) for size in sizes])
    got, delays, issued = [], [], []
    due = [False, False]
    for n, (weight, act, swap) in enumerate(cycles + [(None, None, False)] * (ROWS + COLS + 3)):
        dut.wgt_valid.value = weight is not None
        dut.wgt_across.value = random.random() < 0.5 if weight is None else weight[0]
        dut.wgt.value = (
            random.getrandbits(9 * LANES * WEIGHT_ROWS) if weight is None else lanes_of(*weight)
        )
        dut.act.value = pack(act) if act is not None else 0
        dut.swap.value = swap
        dut.tag_i.value = act is not None
        if act is not None:
            issued.append(n)
        await FallingEdge(dut.clk)
        if due.pop(0):
            word = dut.sums.value.to_unsigned()
            lanes = [(word >> (32 * c)) & 0xFFFFFFFF for c in range(COLS)]
            got.append([v - (1 << 32) if v >> 31 else v for v in lanes])
            delays.append(n + 1 - issued[len(got) - 1])
        due.append(bool(dut.tag_o.value.to_unsigned() & 1))
    assert len(expected) > 20
    assert len(got) == len(expected)
    for i, (have, want) in enumerate(zip(got, expected, strict=True)):
        assert have == list(want), f"vector {i}: {have} instead of {list(want)}"
    assert set(delays) == {THROUGH}, f"every sum comes {THROUGH} cycles after its vector"


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def reset_in_flight_forgets_tags(dut):
    await start(dut)
    dut.tag_i.value = 1
    for _ in range(ROWS):
        await FallingEdge(dut.clk)
    dut.tag_i.value = 0
    dut.rst.value = 1
    await FallingEdge(dut.clk)
    dut.rst.value = 0
    for _ in range(2 * (ROWS + COLS)):
        await FallingEdge(dut.clk)
        assert dut.tag_o.value.to_unsigned() == 0

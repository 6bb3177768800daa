"""Boxes as loops of LOAD and STORE: every byte once, within what the fields hold."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spec.fields import field_of
from spec.isa import DMA_LOOPS, Opcode
from sw.compiler.kernels.dma import chip_extent, copies, load_box, memory_extent
from sw.compiler.program.records import DmaLoop

MOST = field_of(Opcode.LOAD, "loop.count").maximum


def touched(mem: int, chip: int, run: int, loops: list[DmaLoop]) -> list[tuple[int, int]]:
    """(byte in memory, byte on chip) of everything that is copied."""
    steps = [[(i * x.mem, i * x.chip) for i in range(x.count)] for x in loops]
    return [
        (mem + sum(a for a, _ in at) + byte, chip + sum(b for _, b in at) + byte)
        for at in itertools.product(*steps)
        for byte in range(run)
    ]


dims = st.lists(
    st.tuples(st.integers(1, 5), st.integers(1, 64), st.integers(1, 64)), min_size=1, max_size=6
)


@given(dims, st.integers(1, 4))
@settings(max_examples=200, deadline=None)
def test_copies_take_every_element_of_a_box_once(box: list[tuple[int, int, int]], run: int) -> None:
    want = touched(0, 0, run, [DmaLoop(count=c, mem=m, chip=k) for c, m, k in box])
    got: list[tuple[int, int]] = []
    for copy in copies(box, run):
        assert len(copy.loops) <= DMA_LOOPS
        assert all(1 <= loop.count <= MOST for loop in copy.loops)
        part = touched(copy.mem, copy.chip, copy.run, copy.loops)
        low, high = copy.memory_span()
        assert (low, high) == (min(m for m, _ in part), max(m for m, _ in part) + 1)
        assert copy.chip_span() == (min(c for _, c in part), max(c for _, c in part) + 1)
        got += part
    assert sorted(got) == sorted(want)


def test_counts_that_no_field_holds_are_cut() -> None:
    parts = list(copies([(MOST + 5, 4, 2)], 1))
    assert [copy.loops[0].count for copy in parts] == [MOST, 5]
    assert (parts[1].mem, parts[1].chip) == (4 * MOST, 2 * MOST)


def test_strides_may_go_backwards() -> None:
    (copy,) = copies([(3, -8, 4)], 4)
    assert copy.memory_span() == (-16, 4)
    assert copy.chip_span() == (0, 12)


@given(dims.filter(lambda box: len(box) <= DMA_LOOPS), st.integers(1, 4))
@settings(max_examples=100, deadline=None)
def test_merging_dimensions_changes_no_byte(box: list[tuple[int, int, int]], run: int) -> None:
    plain = [DmaLoop(count=c, mem=m, chip=k) for c, m, k in box]
    longer, loops = load_box(box, run)
    assert sorted(touched(0, 0, longer, loops)) == sorted(touched(0, 0, run, plain))
    pairs = np.array(touched(0, 0, run, plain))
    assert memory_extent(loops, longer) == pairs[:, 0].max() + 1
    assert chip_extent(loops, longer) == pairs[:, 1].max() + 1


def test_rows_that_follow_one_another_are_one_run() -> None:
    assert load_box([(4, 32, 32), (8, 4, 4)], 4) == (128, [])
    run, loops = load_box([(4, 32, 32), (8, 4, 4)], 4, keep_outer=True)
    assert (run, [loop.count for loop in loops]) == (32, [4])


@pytest.mark.parametrize("keep", [False, True])
def test_a_box_of_one_element_has_no_loops_but_the_one_that_is_kept(keep: bool) -> None:
    run, loops = load_box([(1, 7, 7)], 3, keep_outer=keep)
    assert run == 3 and len(loops) == int(keep)

"""Tensors on chip lie apart from what the layer before them still reads, where room is left."""

from dataclasses import replace

import pytest
from compiler_graphs import conv
from test_compiler_depthwise import depthwise

from spec.config import NpuConfig, preset
from sw.compiler.pipeline import run_stages
from sw.compiler.placement.residency import Life, lives, place
from sw.compiler.tosa.graph import Graph


def _separable(pairs: int) -> Graph:
    g = Graph()
    x = g.add_input("x", (1, 25, 5, 64))
    for seed in range(pairs):
        x = conv(g, x, 64, 1, seed=seed)
        x = depthwise(g, x, (3, 3), pad=(1, 1, 1, 1), seed=seed)
    g.outputs = [conv(g, x, 16, 1, seed=9)]
    return g


def _waiting(config: NpuConfig) -> tuple[int, int]:
    """(tensors that lie where the layer before their first one reads last, predicted cycles)."""
    done = run_stages(_separable(3), config)
    at = done.residency.address
    held = [life for life in lives(done.layers, config) if life.root in at]
    pairs = [(a, b) for a in held for b in held if b.born == a.dies + 1]
    assert pairs
    over = [
        (a, b)
        for a, b in pairs
        if at[a.root] < at[b.root] + b.size and at[b.root] < at[a.root] + a.size
    ]
    return len(over), sum(done.predicted)


def test_a_depthwise_layer_does_not_wait_for_the_reads_of_the_product_before_it() -> None:
    apart, cycles = _waiting(preset("default"))
    assert apart == 0
    # 10,007 where the places alternate.
    assert cycles < 9_400


def test_without_room_a_tensor_takes_the_place_of_one_that_is_read_no_more() -> None:
    over, _ = _waiting(replace(preset("default"), spad_kib=32))
    assert over > 0


@pytest.mark.parametrize("size", [16, 32, 48, 160])
def test_a_place_overlaps_nothing_even_where_the_others_overlap_each_other(size: int) -> None:
    config = preset("tiny")
    top = config.spad_bytes
    life = Life("new", size, 3, 4)
    # Two that never live at once, the longer one around the other.
    others = [(Life("a", 32, 1, 3), top - 96), (Life("b", 128, 4, 5), top - 144)]
    at = place(life, others, config)
    assert at + size <= top
    assert all(at + size <= start or start + x.size <= at for x, start in others)

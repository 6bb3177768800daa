"""Tensors that stay on chip: neither stored nor loaded, apart from each other, results equal."""

from typing import Any

import pytest
from compiler_graphs import (
    assert_compiles_exactly,
    conv,
    random_inputs,
    rescale,
    residual_net,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from test_compiler_depthwise import depthwise

from spec.config import PRESETS, preset
from spec.isa import Opcode
from sw.compiler.pipeline import run_stages
from sw.compiler.program.virtual import Access, Buffer, Place
from sw.compiler.tosa.graph import Graph

_COMPUTES = (Opcode.MATRIX, Opcode.DEPTHWISE)


def _chain(size: int, channels: int, layers: int) -> Graph:
    g = Graph()
    x = g.add_input("x", (1, size, size, channels))
    for seed in range(layers):
        k = 1 if seed % 2 else 3
        x = conv(g, x, channels, k, pad=k // 2, seed=seed)
    g.outputs = [x]
    return g


def test_chain_that_fits_moves_only_its_ends() -> None:
    g = _chain(14, 64, 4)
    done = run_stages(g, preset("default"))
    assert len(done.residency.address) == 3
    stores = [n for n in done.program.instructions if n.opcode is Opcode.STORE]
    assert {n.bases["mem_base"].name for n in stores} == set(g.outputs)
    assert done.image.temp_bytes == 0
    assert run_stages(g, preset("default"), on_chip=False).image.temp_bytes > 0


def test_tensor_larger_than_the_scratchpad_goes_through_memory() -> None:
    done = run_stages(_chain(80, 48, 2), preset("default"))
    assert not done.residency.address
    assert done.image.temp_bytes >= 80 * 80 * 48


@pytest.mark.parametrize("config", list(PRESETS))
@pytest.mark.parametrize("on_chip", [True, False])
def test_both_ways_are_exact(config: str, on_chip: bool) -> None:
    g = residual_net(14)
    assert_compiles_exactly(g, preset(config), random_inputs(g), on_chip=on_chip)
    done = run_stages(g, preset(config), on_chip=on_chip)
    assert bool(done.residency.address) is on_chip


@given(st.data())
@settings(max_examples=12, deadline=None)
def test_random_chains_are_exact(data: Any) -> None:
    def one(*values: int) -> int:
        return int(data.draw(st.sampled_from(values)))

    config = preset(str(data.draw(st.sampled_from(["tiny", "small", "rect", "odd"]))))
    g = Graph()
    x = g.add_input("x", (one(1, 2), one(3, 7, 12), one(2, 5, 9), one(3, 8, 17, 40)))
    for seed in range(one(2, 3, 5)):
        k = one(1, 3)
        if one(0, 0, 1):
            pad, stride = (1, 1, 1, 1), (1, 1)
            x = depthwise(g, x, (3, 3), pad=pad, stride=stride, multiplier=one(1, 1, 2), seed=seed)
        else:
            x = conv(g, x, one(4, 9, 16, 33), k, pad=k // 2, seed=seed)
    g.outputs = [x]
    assert_compiles_exactly(g, config, random_inputs(g))


def test_separable_chain_stays_on_chip() -> None:
    g = Graph()
    x = g.add_input("x", (1, 14, 14, 32))
    for seed in range(2):
        x = conv(g, x, 96, 1, seed=seed)
        x = depthwise(g, x, (3, 3), pad=(1, 1, 1, 1), seed=seed)
        x = conv(g, x, 32, 1, seed=seed)
    g.outputs = [x]
    for name in ("small", "default"):
        done = run_stages(g, preset(name))
        assert len(done.residency.address) == 5
        assert_compiles_exactly(g, preset(name), random_inputs(g))


def _lanes(low: int, high: int, buffer: Buffer, pitch: int = 64) -> Access:
    return Access(
        buffer=buffer, start=low, stop=640 + high, write=True, pitch=pitch, lanes=(low, high)
    )


def test_channels_of_the_same_pixels_are_told_apart() -> None:
    one, other = (Buffer(name=n, place=Place.SPAD, size=704) for n in "ab")
    assert _lanes(0, 16, one).misses(_lanes(16, 32, one))
    assert not _lanes(0, 17, one).misses(_lanes(16, 32, one))
    assert not _lanes(0, 16, one).misses(_lanes(16, 32, other))
    assert not _lanes(0, 16, one).misses(_lanes(16, 32, one, pitch=32))
    whole = Access(buffer=one, start=0, stop=704, write=True)
    assert not whole.misses(_lanes(0, 16, one))
    assert whole.spans(_lanes(0, 16, one))
    assert not _lanes(0, 16, one).spans(whole)
    assert _lanes(0, 32, one).spans(_lanes(16, 32, one))
    assert not _lanes(0, 32, one).spans(_lanes(16, 48, one))


def test_depthwise_follows_channel_by_channel_in_other_banks() -> None:
    """Units of both kinds alternate in the program and never meet in the accumulator."""
    config, g = preset("default"), Graph()
    x = conv(g, g.add_input("x", (1, 14, 14, 32)), 160, 1, seed=1)
    g.outputs = [conv(g, depthwise(g, x, (3, 3), pad=(1, 1, 1, 1), seed=2), 32, 1, seed=3)]
    done = run_stages(g, config)
    engines = [n.opcode for n in done.program.instructions if n.layer < 2 and n.opcode in _COMPUTES]
    first = engines.index(Opcode.DEPTHWISE)
    assert Opcode.MATRIX in engines[first:]
    banks: dict[Opcode, set[int]] = {opcode: set() for opcode in _COMPUTES}
    for node in done.program.instructions:
        if node.layer < 2 and node.opcode in _COMPUTES:
            for access in node.accesses:
                if access.buffer.place is Place.ACC:
                    banks[node.opcode] |= {
                        access.start // config.acc_bank,
                        (access.stop - 1) // config.acc_bank,
                    }
    assert banks == {Opcode.MATRIX: {0, 2}, Opcode.DEPTHWISE: {1, 3}}
    assert_compiles_exactly(g, config, random_inputs(g))


def _sums(size: int, channels: int, layers: int) -> Graph:
    """Convolutions each of which adds its operand to what it makes."""
    g = Graph(name="sums")
    x = conv(g, g.add_input("x", (1, size, size, channels)), channels, 1)
    for seed in range(layers):
        y = conv(g, conv(g, x, 16, 1, seed=2 * seed), channels, 3, pad=1, seed=2 * seed + 1)
        sides = [rescale(g, t, s, 0, "int32", 5) for t, s in ((x, 2.0**18), (y, 2.0**17))]
        x = rescale(g, g.add_op("ADD", sides), 2.0**-18, 5)
    g.outputs = [conv(g, x, 8, 1, seed=99)]
    g.verify()
    return g


def test_a_sum_lies_where_what_it_adds_lay() -> None:
    """Two of these images would not fit on chip."""
    g = _sums(40, 96, 2)
    assert preset("default").spad_bytes < 2 * 40 * 40 * 96
    done = run_stages(g, preset("default"))
    streams = [x.output.tensor for x in done.layers.layers if x.output.shape[3] == 96]
    places = {done.residency.address.get(name) for name in streams}
    assert len(streams) == 3 and len(places) == 1 and None not in places
    assert assert_compiles_exactly(g, preset("default"), random_inputs(g)) > 0


def test_a_sum_of_what_is_read_again_lies_elsewhere() -> None:
    g = _sums(24, 48, 1)
    operand = next(op for op in g.ops if op.kind == "RESCALE").outputs[0]
    g.outputs.append(conv(g, operand, 8, 1, seed=7))
    done = run_stages(g, preset("default"))
    streams = [x.output.tensor for x in done.layers.layers if x.output.shape[3] == 48]
    first, second = (done.residency.address[name] for name in streams)
    assert abs(first - second) >= 24 * 24 * 48
    assert assert_compiles_exactly(g, preset("default"), random_inputs(g)) > 0


@given(
    config=st.sampled_from(["tiny", "small", "odd", "rect", "default", "large"]),
    size=st.integers(3, 24),
    channels=st.integers(3, 70),
    layers=st.integers(1, 3),
)
@settings(max_examples=20, deadline=None)
def test_sums_in_place_are_exact(config: str, size: int, channels: int, layers: int) -> None:
    g = _sums(size, channels, layers)
    assert assert_compiles_exactly(g, preset(config), random_inputs(g)) > 0

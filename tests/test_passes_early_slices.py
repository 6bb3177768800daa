"""A RESCALE of which convolutions read groups of channels becomes one for each group."""

from collections import Counter

import numpy as np
import pytest
from compiler_graphs import assert_compiles_exactly, channels, conv, random_inputs, rescale

from spec import preset
from spec.isa import Engine
from sw.compiler.passes import run_passes
from sw.compiler.pipeline import run_stages
from sw.compiler.program.timeline import IDEAL_MEMORY, Timeline
from sw.compiler.tosa.graph import Graph
from sw.compiler.tosa.interpreter import run_graph


def grouped(parts: list[tuple[int, int]], *, kept: bool = True, size: int = 16) -> Graph:
    """A stored int16 tensor of 96 channels, as int8 for a convolution of each part of it."""
    g = Graph(name="groups")
    x = g.add_input("x", (1, size, size, 96), "int16")
    narrow = rescale(g, x, 1 / 300, 5)
    made = [conv(g, channels(g, narrow, *p), 8, 1, seed=i) for i, p in enumerate(parts)]
    g.outputs = [*made, rescale(g, x, 1 / 500, 3)] if kept else made
    g.verify()
    return g


def rescales(g: Graph, name: str = "default") -> Counter[tuple[int, ...]]:
    """How many RESCALEs of int16 there are behind the passes, by channels; values stay."""
    after = run_passes(g, preset(name))
    inputs = random_inputs(g, 1)
    want, got = run_graph(g, inputs), run_graph(after, inputs)
    assert all(np.array_equal(want[n], got[n]) for n in want)
    found = [op for op in after.ops if op.kind == "RESCALE"]
    return Counter(
        after.tensors[op.outputs[0]].shape[-1]
        for op in found
        if after.tensors[op.inputs[0]].dtype == "int16"
    )


THIRDS = [(0, 32), (32, 32), (64, 32)]


def test_each_group_has_a_rescale_of_its_own() -> None:
    g = grouped(THIRDS)
    assert rescales(g) == {32: 3, 96: 1}
    assert assert_compiles_exactly(g, preset("default"), random_inputs(g)) > 0


def test_groups_begin_while_others_are_rescaled() -> None:
    """The first convolution works before the vector engine has rescaled the last group."""
    made = run_stages(grouped(THIRDS, size=24), preset("default"))
    names = [layer.name for layer in made.layers.layers]
    first, last = names.index("conv2d"), max(i for i, n in enumerate(names) if "part" in n)
    times = Timeline(made.todo, made.config, IDEAL_MEMORY)
    jobs = list(enumerate(made.todo))
    works = [times.start[n] for n, x in jobs if (x.layer, x.engine) == (first, Engine.MATRIX)]
    rescaled = [times.stop[n] for n, x in jobs if (x.layer, x.engine) == (last, Engine.VECTOR)]
    assert min(works) < max(rescaled)


@pytest.mark.parametrize(
    ("g", "why"),
    [
        (grouped(THIRDS, kept=False), "the operand is read by nobody else"),
        (grouped([(0, 48), (32, 48)]), "groups overlap: more elements"),
        (grouped([(0, 24), (24, 24), (48, 48)]), "more vectors than the whole has"),
        (grouped(THIRDS, size=8), "too few vectors for layers of their own"),
        (grouped([(0, 96)]), "one reader"),
    ],
)
def test_a_whole_rescale_stays(g: Graph, why: str) -> None:
    assert set(rescales(g)) == {96}, why

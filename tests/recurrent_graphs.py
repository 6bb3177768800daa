"""Graphs whose steps have the same weights, for the tests of what stays on chip between them."""

import random

import numpy as np
from compiler_graphs import conv, rescale

from sw.compiler.tosa.graph import Graph


def steps(
    count: int, channels: int, *, kernel: int = 1, size: int = 1, between: int = 0, seed: int = 0
) -> Graph:
    """A state that passes `count` convolutions with the same weights, and a TABLE behind each.

    `between`: convolutions with weights of their own in every step.
    """
    rng = np.random.default_rng(seed)
    g = Graph()
    state = g.add_input("x", (1, size, size, channels))
    for step in range(count):
        state = conv(g, state, channels, kernel, pad=kernel // 2, seed=seed)
        for other in range(between):
            state = conv(g, state, channels, 1, seed=1000 + 10 * step + other)
        table = g.add_constant("table", rng.integers(-128, 128, 256), "int8")
        state = g.add_op("TABLE", [state, table])
    g.outputs = [state]
    return g


def random_steps(seed: int) -> Graph:
    """A graph of `steps` of random shape."""
    rng = random.Random(seed)
    return steps(
        rng.randint(2, 6),
        rng.choice([5, 16, 24, 33, 48, 64]),
        kernel=rng.choice([1, 1, 3]),
        size=rng.choice([1, 1, 2, 4]),
        between=rng.choice([0, 0, 1]),
        seed=seed,
    )


def gates(count: int, channels: int, seed: int = 0) -> Graph:
    """Slices of one tensor, each through one of two int16 TABLEs in turn; their sum of pairs."""
    rng = np.random.default_rng(seed)
    g = Graph()
    x = g.add_input("x", (1, 1, 1, count * channels), "int16")
    tables = [rng.integers(-32768, 32768, 513) for _ in range(2)]
    made: list[str] = []
    for i in range(count):
        start = g.add_constant("start", [0, 0, 0, i * channels], "shape")
        size = g.add_constant("size", [1, 1, 1, channels], "shape")
        part = g.add_op("SLICE", [x, start, size])
        table = g.add_constant("table", tables[i % 2], "int16")
        looked = g.add_op("TABLE", [part, table])
        narrow = rescale(g, looked, 1 / 128, dtype="int16")
        if made:
            wide = [rescale(g, name, 0.5, dtype="int32") for name in (made[-1], narrow)]
            narrow = rescale(g, g.add_op("ADD", wide), 1.0, dtype="int16")
        made.append(narrow)
    g.outputs = [made[-1]]
    return g

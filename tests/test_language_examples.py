"""The kernels of examples/kernels: right, exact on the RTL, hardly slower than the compiler's."""

import numpy as np
import pytest
from kernel_examples import (
    attention_data,
    attention_graph,
    exact_attention,
    example,
    matmul_graph,
    random_int8,
    score_step,
    separable_data,
    separable_graph,
)

from spec.config import preset
from sw.compiler import compile_graph
from sw.compiler.tosa.interpreter import run_graph
from sw.language.types import int8
from sw.runtime.session import DeviceOptions, run_program


def most(own):
    """Most cycles of a kernel for `own` of the compiler, which waits for its first load, and
    finishes its last tile, part by part: some cycles, which count in the smallest kernels.
    """
    return 1.02 * own + 100


def matmul_case(m, k, n, config="default"):
    """(program, inputs, the result in NumPy, the compiler's graph, its inputs)."""
    rng = np.random.default_rng(m + k + n)
    a, b = random_int8(rng, m, k), random_int8(rng, k, n)
    scale = 2.0**-9
    program = example("matmul").compile(int8[m, k], int8[k, n], scale=scale, config=config)
    sums = a.astype(np.int64) @ b.astype(np.int64)
    want = np.clip((sums + 256) >> 9, -128, 127)
    return (
        program,
        {"a": a, "b": b},
        want,
        matmul_graph(m, k, n, scale),
        {"a": a[None], "b": b[None]},
    )


def separable_case(h, w, c, n, config="default", **more):
    tensors, values = separable_data(h, w, c, n)
    program = example("separable").compile(**tensors, **values, config=config, **more)
    graph = separable_graph(tensors, values)
    inputs = {"x": tensors["x"][None]}
    (want,) = run_graph(graph, inputs).values()
    return program, tensors, want[0], graph, inputs


def attention_case(heads, rows, size, config="default"):
    data = attention_data(heads, rows, size)
    program = example("attention").compile(**data, step=score_step(size), config=config)
    graph = attention_graph(heads, rows, size)
    (want,) = run_graph(graph, data).values()
    return program, data, want, graph, data


SMALL = {
    "matmul": lambda: matmul_case(64, 64, 64),
    "separable": lambda: separable_case(8, 8, 16, 16, rows=4),
    "attention": lambda: attention_case(1, 32, 16),
}
MIDDLE = {
    "matmul": lambda: matmul_case(128, 512, 192),
    "separable": lambda: separable_case(32, 32, 64, 64),
    "attention": lambda: attention_case(4, 128, 64),
}


@pytest.mark.parametrize("case", [*SMALL.values(), *MIDDLE.values()], ids=[*SMALL, *MIDDLE])
def test_a_kernel_computes_exactly_and_takes_hardly_longer_than_the_compilers_own_code(case):
    program, inputs, want, graph, _ = case()
    assert np.array_equal(program.run(**inputs)["out"], want)
    own = compile_graph(graph, preset("default")).info["predicted_cycles"]
    assert program.predicted_cycles <= most(own)


@pytest.mark.rtl
@pytest.mark.parametrize(
    "case",
    [*SMALL.values(), *(pytest.param(case, marks=pytest.mark.slow) for case in MIDDLE.values())],
    ids=[*SMALL, *MIDDLE],
)
def test_the_rtl_gives_the_golden_models_bits_in_hardly_more_cycles_than_the_compilers_own(case):
    program, inputs, want, graph, graph_inputs = case()
    done = program.run(**inputs, device="rtl")
    assert done.report.comparison.exact
    assert np.array_equal(done["out"], want)
    own = compile_graph(graph, preset("default"))
    report, _ = run_program(own, graph_inputs, preset("default"), DeviceOptions(device="rtl"))
    assert done.cycles <= most(report.cycles)


def test_attention_stays_within_a_step_of_float64():
    program, inputs, _, _, _ = attention_case(2, 64, 32)
    error = np.abs(program.run(**inputs)["out"] - exact_attention(inputs))
    assert error.max() < 1.1


@pytest.mark.parametrize("config", ["micro", "tiny", "small"])
def test_a_matrix_product_runs_on_small_machines(config):
    program, inputs, want, _, _ = matmul_case(13, 37, 21, config)
    assert np.array_equal(program.run(**inputs)["out"], want)


@pytest.mark.parametrize("shape", [(7, 9, 5, 3), (5, 6, 33, 40), (1, 4, 16, 16)])
def test_edges_of_images_and_odd_channels(shape):
    program, inputs, want, _, _ = separable_case(*shape)
    assert np.array_equal(program.run(**inputs)["out"], want)


def test_scores_are_never_stored():
    program, *_ = attention_case(2, 64, 32)
    written = program.image.info["predicted_write_bytes"]
    assert written == 2 * 64 * 32
    assert program.image.temp_bytes == 0

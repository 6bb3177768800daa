"""Importing a large linear layer takes memory in proportion to its weights."""

import tracemalloc

import numpy as np
import pytest
import torch

from sw.compiler.frontend.importing import import_model
from sw.compiler.frontend.quantization.smoothing import choose
from sw.compiler.frontend.weights import blocks, column_energy, quantized

_CONSTANT = 8 << 20
"""What an import may take besides: nodes, tables, a few blocks of weights."""


def test_import_of_a_large_linear_layer_copies_no_weights_in_float64() -> None:
    layer = torch.nn.Linear(512, 8000)
    example = (torch.randn(1, 512),)
    import_model(torch.nn.Linear(8, 8), (torch.randn(1, 8),), policy="wide")  # what is loaded once
    tracemalloc.start()
    try:
        import_model(layer, example, policy="wide")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak <= layer.weight.numel() * 4 + _CONSTANT


@pytest.mark.parametrize("transposed", [False, True])
def test_blocks_give_what_the_whole_matrix_gives(transposed: bool) -> None:
    rng = np.random.default_rng(0)
    matrix = rng.standard_normal((300, 900) if not transposed else (900, 300)).astype(np.float32)
    matrix = matrix.T if transposed else matrix
    unit, mean = rng.uniform(0.1, 2, 900), rng.standard_normal(900)
    assert len(list(blocks(matrix))) > 1
    whole = np.ascontiguousarray(matrix, np.float64)
    assert np.array_equal(column_energy(matrix), np.square(whole).sum(axis=0))
    found = quantized(matrix, unit, mean)
    scale = np.abs(whole * unit).max(axis=1) / 127
    integers = np.rint(whole * unit / scale[:, None])
    assert np.array_equal(found.scale, scale)
    assert np.array_equal(found.integers, integers)
    assert found.lost is not None
    assert np.allclose(found.lost, (whole * unit - integers * scale[:, None]) @ mean, atol=1e-9)


def test_smoothing_reads_float32_and_float64_weights_alike() -> None:
    rng = np.random.default_rng(1)
    weights = rng.standard_normal((64, 2000)).astype(np.float32)
    samples = rng.standard_normal((6, 2000)) * rng.uniform(0.1, 30, 2000)
    largest = np.abs(samples).max(axis=0)
    narrow = choose(largest, samples, [weights], "auto")
    wide = choose(largest, samples, [weights.astype(np.float64)], "auto")
    assert np.array_equal(narrow.channels, wide.channels)
    assert (narrow.error, narrow.plain) == (wide.error, wide.plain)

"""Random instructions against the element-by-element reference."""

import dataclasses
from collections.abc import Callable

import numpy as np
import pytest
from golden_programs import (
    ROOMY,
    assert_same,
    decoded,
    random_convolution,
    random_depthwise,
    random_dma,
    random_fused,
    random_indexed,
    random_matrix,
    random_operator,
    random_vector,
    state_of,
)
from golden_reference import Reference, randomize
from hypothesis import given, settings
from hypothesis import strategies as st

from golden_model.machine import execute_program
from spec import Instruction, NpuConfig

MEMORY_BYTES = 2048
Make = Callable[[np.random.Generator, NpuConfig], Instruction]


def check(seed: int, make: Make, many: int = 1, config: NpuConfig = ROOMY) -> None:
    rng = np.random.default_rng(seed)
    reference = Reference(config)
    reference.memory = [bytearray(MEMORY_BYTES) for _ in range(4)] + [bytearray()] * 4
    randomize(reference, rng)
    body = [make(rng, config) for _ in range(many)]
    state = state_of(reference)
    execute_program(state, decoded(config, body), check=False)
    for instruction in body:
        reference.execute(instruction)
    assert_same(state, reference, body[-1])


SEEDS = st.integers(0, 2**32 - 1)


@settings(max_examples=60, deadline=None)
@given(SEEDS)
def test_load_and_store_move_the_bytes_that_the_reference_moves(seed: int) -> None:
    check(seed, lambda rng, config: random_dma(rng, config, MEMORY_BYTES))


@settings(max_examples=150, deadline=None)
@given(SEEDS)
def test_matrix_computes_what_the_reference_computes(seed: int) -> None:
    check(seed, random_matrix)


@settings(max_examples=40, deadline=None)
@given(SEEDS)
def test_matrix_convolves_as_the_reference_does(seed: int) -> None:
    check(seed, random_convolution)


@settings(max_examples=150, deadline=None)
@given(SEEDS)
def test_vector_computes_what_the_reference_computes(seed: int) -> None:
    check(seed, random_vector)


@settings(max_examples=60, deadline=None)
@given(SEEDS)
def test_vector_clamps_and_shifts_its_a_as_the_reference_does(seed: int) -> None:
    check(seed, random_fused)


@settings(max_examples=200, deadline=None)
@given(SEEDS)
def test_vector_has_the_functions_that_the_reference_has(seed: int) -> None:
    check(seed, random_operator)


@settings(max_examples=60, deadline=None)
@given(SEEDS)
def test_load_and_store_go_where_their_indices_say(seed: int) -> None:
    check(seed, lambda rng, config: random_indexed(rng, config, MEMORY_BYTES))


@settings(max_examples=20, deadline=None)
@given(SEEDS, st.integers(1, 8))
def test_depthwise_computes_what_the_reference_computes(seed: int, taps: int) -> None:
    check(seed, random_depthwise, config=dataclasses.replace(ROOMY, taps=taps))


@pytest.mark.parametrize("seed", range(3))
def test_successive_depthwise_instructions_keep_their_weights_apart(seed: int) -> None:
    check(seed, random_depthwise, many=3)


@pytest.mark.parametrize("seed", range(5))
def test_successive_matrix_instructions_keep_their_weights_apart(seed: int) -> None:
    check(seed, random_matrix, many=4)

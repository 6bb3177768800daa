"""Layouts against NumPy: whatever views and permutations follow each other, memory never moves."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sw.compiler.frontend.layout import Layout, transpose_steps


def _array(shape: tuple[int, ...]) -> np.ndarray:
    return np.arange(math.prod(shape)).reshape(shape)


@st.composite
def _walk(draw: st.DrawFn) -> tuple[tuple[int, ...], tuple[int, ...], list[tuple[str, list[int]]]]:
    """A shape, its order in memory, and steps that are valid for it."""
    shape = tuple(draw(st.lists(st.sampled_from([1, 2, 3, 4, 6]), min_size=1, max_size=4)))
    axes = tuple(draw(st.permutations(range(len(shape)))))
    steps: list[tuple[str, list[int]]] = []
    current = list(shape)
    for _ in range(draw(st.integers(1, 4))):
        if draw(st.booleans()):
            perm = list(draw(st.permutations(range(len(current)))))
            steps.append(("permute", perm))
            current = [current[p] for p in perm]
        else:
            rest, target = math.prod(current), []
            while rest > 1 and len(target) < 3:
                target.append(
                    draw(st.sampled_from([d for d in range(1, rest + 1) if rest % d == 0]))
                )
                rest //= target[-1]
            target.append(rest)
            steps.append(("reshape", target))
            current = target
    return shape, axes, steps


@settings(max_examples=300, deadline=None)
@given(_walk())
def test_views_and_permutations_leave_memory_alone(walk) -> None:
    shape, axes, steps = walk
    array = _array(shape)
    layout = Layout.of(shape, axes)
    memory = layout.to_memory(array)
    for kind, argument in steps:
        if kind == "permute":
            layout, array = layout.permute(argument), array.transpose(argument)
        else:
            changed = layout.reshape(argument)
            if changed is None:  # a factor would straddle two dimensions: nothing to check
                return
            layout, array = changed, array.reshape(argument)
        assert layout.shape == array.shape
        assert np.array_equal(layout.to_logical(memory), array)
        assert np.array_equal(layout.to_memory(array).reshape(-1), memory.reshape(-1))
        ordered = layout.is_ordered(range(len(layout.shape)))
        assert ordered == np.array_equal(memory.reshape(-1), array.reshape(-1))


@settings(max_examples=100, deadline=None)
@given(_walk(), st.randoms())
def test_transposition_brings_any_order_about(walk, random) -> None:
    shape, axes, _ = walk
    array = _array(shape)
    layout = Layout.of(shape, axes)
    wanted = list(range(len(shape)))
    random.shuffle(wanted)
    memory_shape, perms = layout.transposition(wanted)
    moved = layout.to_memory(array).reshape(memory_shape).transpose(perms)
    assert np.array_equal(moved.reshape(-1), array.transpose(wanted).reshape(-1))


@settings(max_examples=200, deadline=None)
@given(st.integers(1, 10), st.integers(4, 6), st.randoms())
def test_transposes_of_few_dimensions_do_what_one_of_many_does(rank, most, random) -> None:
    shape = [random.choice([1, 2, 3]) for _ in range(rank)]
    perms = list(range(rank))
    random.shuffle(perms)
    array = np.arange(np.prod(shape)).reshape(shape)
    moved = array
    steps = transpose_steps(shape, perms, most)
    for sizes, order in steps:
        assert len(sizes) <= most
        moved = moved.reshape(sizes).transpose(order)
    assert np.array_equal(moved.reshape(-1), array.transpose(perms).reshape(-1))
    assert len(steps) == 1 or rank > most


def test_flattened_image_is_a_suffix_in_memory_order() -> None:
    layout = Layout.of((2, 3, 4, 5), (0, 2, 3, 1)).reshape((2, 60))
    assert layout is not None
    factors = layout.suffix(1)
    assert factors is not None
    assert [layout.sizes[f] for f in factors] == [4, 5, 3]
    assert layout.replace_suffix(7).shape == (2, 7)


@pytest.mark.parametrize(("shape", "target"), [((4, 6), (6, 4)), ((3, 4), (2, 6))])
def test_reshape_across_factors_of_a_transposed_tensor_is_refused(shape, target) -> None:
    assert Layout.of(shape, (1, 0)).reshape(target) is None


def test_innermost_dimension_that_lies_outside_is_no_suffix() -> None:
    assert Layout.of((3, 4), (1, 0)).suffix(1) is None

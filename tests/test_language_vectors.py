"""Vector expressions of kernels against NumPy, on random chains of operations."""

import random

import numpy as np
import pytest
from kernel_reference import Reference

from spec.isa import Alu
from spec.sequences import FUNCTIONS
from sw.language.errors import AccumulatorFullError
from sw.language.functions import activation, reciprocal
from sw.language.kernel import kernel
from sw.language.products import dot
from sw.language.tensor import Tensor, load, store
from sw.language.types import int8, int32
from sw.language.values import Values, keep


def columns(values):
    return values.shape[-1] if isinstance(values, Values) else values.array.shape[-1]


def operations(seed, n):
    """The same operations in each call, over values and an operand."""
    rng, pick = np.random.default_rng(seed), random.Random(seed)
    short = rng.integers(-128, 128, 256).astype(np.int8)
    long = rng.integers(-32768, 32768, 513).astype(np.int16)
    scales, bias = rng.uniform(0.01, 1.5, n).tolist(), rng.integers(-5000, 5000, n).tolist()
    ratio = [pick.choice([0.37, 2.0**-5, 1.7, 0.011]) for _ in range(4)]
    number = [pick.randint(-100000, 100000), pick.randint(-999, 999), pick.randint(0, 7)]
    return [
        lambda x, y: x + number[0],
        lambda x, y: x + y,
        lambda x, y: x - y,
        lambda x, y: x - number[1],
        lambda x, y: x << number[2],
        lambda x, y: x >> number[2],
        lambda x, y: x.maximum(y),
        lambda x, y: x.minimum(number[1]),
        lambda x, y: x.leading_zeros(),
        lambda x, y: x.absolute(),
        lambda x, y: x.apply(Alu.AND, y),
        lambda x, y: x.apply(Alu.GT, y),
        lambda x, y: x.sum(),
        lambda x, y: x.max(),
        lambda x, y: x.min(0),
        lambda x, y: x.sum(0),
        lambda x, y: x.rescale(ratio[0]),
        lambda x, y: x.rescale(scales if columns(x) == n else ratio[1]),
        lambda x, y: x.clamp(-700, 300),
        lambda x, y: x.to("int16"),
        lambda x, y: x.to("int8"),
        lambda x, y: x.requantize(ratio[2], 3),
        lambda x, y: x.requantize(
            scales if columns(x) == n else ratio[3], -3, bias=bias if columns(x) == n else 77
        ),
        lambda x, y: x.lookup(short),
        lambda x, y: x.lookup(long),
        lambda x, y: x.times(y, 3),
    ]


def case(seed):
    """(inputs of a kernel, a chain of operations over sums, a tile and a row)."""
    rng = np.random.default_rng(seed)
    m, k = (int(x) for x in rng.integers(1, 40, 2))
    n = int(rng.choice([1, 5, 16, 17, 33, 40]))
    inputs = {
        "a": rng.integers(-128, 128, (m, k), dtype=np.int8),
        "b": rng.integers(-128, 128, (k, n), dtype=np.int8),
        "c": rng.integers(-128, 128, (m, n), dtype=np.int8),
        "d": rng.integers(-30000, 30000, (1, n)).astype(np.int32),
    }
    of = operations(seed, n)
    picks = [(int(rng.integers(len(of))), int(rng.integers(3))) for _ in range(rng.integers(1, 6))]

    def chain(sums, tile, row):
        x = sums if seed % 2 else tile
        for which, operand in picks:
            x = of[which](x, (sums, tile, row)[operand])
        return x

    return inputs, chain


@pytest.mark.parametrize("seed", range(48))
def test_chains_of_operations_give_numpys_integers(seed):
    inputs, chain = case(seed)
    a, b = (inputs[name].astype(np.int64) for name in "ab")
    want = chain(Reference(a @ b), Reference(inputs["c"]), Reference(inputs["d"])).array

    @kernel
    def chained(a: Tensor, b: Tensor, c: Tensor, d: Tensor, out: Tensor) -> None:
        x = chain(dot(load(a), load(b)), load(c), load(d))
        store(out, x if x.dtype == "int32" else keep(x) + 0)

    config = ("default", "tiny", "small")[seed % 3]
    try:
        program = chained.compile(**inputs, out=int32[want.shape], config=config)
    except AccumulatorFullError:
        assert config == "tiny"
        program = chained.compile(**inputs, out=int32[want.shape])
    taken = {port.name: inputs[port.name] for port in program.image.inputs}
    assert np.array_equal(program.run(**taken)["out"], want)


@kernel(result=lambda v: int32[v.shape])
def inverted(v: Tensor, out: Tensor, low: int, high: int, factors: list) -> None:
    inverse, factor = reciprocal(load(v), low, high)
    factors.append(factor)
    store(out, inverse)


@pytest.mark.parametrize(("low", "high"), [(255, 255 * 128), (1, 1 << 20), (7, 9)])
def test_reciprocals_have_the_stated_error(low, high):
    rng = np.random.default_rng(low)
    v = np.unique(np.append(rng.integers(low, high + 1, 400), [low, high])).astype(np.int32)
    factors = []
    program = inverted.compile(int32[v.size, 1], low=low, high=high, factors=factors)
    got = program.run(v[:, None])["out"][:, 0] * factors[0]
    bound = 2.0**-14 + (high / low > 2**8) * (high / low) * 2.0**-30
    assert np.abs(got * v - 1).max() <= bound


@kernel(result=lambda x: int8[x.shape])
def activated(x: Tensor, out: Tensor, name: str) -> None:
    store(out, activation(name, load(x), 0.05, 0.04, in_zero=-3, out_zero=4))


@pytest.mark.parametrize("name", ["gelu", "sigmoid"])
def test_activations_are_rounded_correctly(name):
    x = np.arange(-128, 128, dtype=np.int8).reshape(4, 64)
    exact = FUNCTIONS[name][0]((x.astype(np.float64) + 3) * 0.05) / 0.04
    want = np.clip(np.rint(exact) + 4, -128, 127)
    assert np.array_equal(activated.compile(x, name=name).run(x)["out"], want)


def test_columns_keep_their_scales_where_rows_broadcast_and_are_summed():
    scales = [0.5, 0.25, 1.5, 0.01, 3.0]
    rng = np.random.default_rng(0)
    a = rng.integers(-128, 128, (33, 1), dtype=np.int8)
    b = rng.integers(-999, 999, (1, 5)).astype(np.int32)

    @kernel
    def scaled(a: Tensor, b: Tensor, out: Tensor) -> None:
        store(out, keep(load(a) + 0).maximum(load(b)).rescale(scales).sum(0))

    want = Reference(a).maximum(Reference(b)).rescale(scales).sum(0).array
    program = scaled.compile(a=a, b=b, out=int32[1, 5])
    assert np.array_equal(program.run(a=a, b=b)["out"], want)

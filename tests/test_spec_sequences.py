"""Softmax, norms and functions of one value, run operator by operator, against float64."""

import math

import numpy as np
import pytest
from numpy.typing import NDArray

from spec.sequences import (
    FUNCTIONS,
    Sequence,
    attention_weights,
    error_bound,
    group_norm,
    layer_norm,
    quantize_rows,
    reciprocal,
    rms_norm,
    rsqrt,
    softmax,
    tabled,
    unary,
)
from spec.sequences.softmax import mask_value
from spec.sequences.unary import ROUGH, silu
from sw.compiler.tosa.graph import Graph
from sw.compiler.tosa.interpreter import run_graph
from sw.compiler.tosa.sequences import emit

Int = NDArray[np.int64]


def run(sequence: Sequence, *inputs: Int) -> list[Int]:
    """The sequence as a verified TOSA graph, in the interpreter."""
    graph = Graph(name="sequence")
    arrays = {}
    for name, array in zip(sequence.inputs, inputs, strict=True):
        dtype = sequence.dtypes[name]
        graph.add_input(name, array.shape, dtype)
        arrays[name] = array.astype(dtype)
    graph.outputs = emit(graph, sequence, list(sequence.inputs), name="s")
    graph.verify()
    values = run_graph(graph, arrays)
    return [values[name].astype(np.int64) for name in graph.outputs]


@pytest.mark.parametrize("reach", [8.0, 30.0])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_int16_input_of_a_function_stays_within_its_stated_error(
    name: str, reach: float
) -> None:
    x = np.arange(-32768, 32768)
    in_scale = reach / 32768
    exact = FUNCTIONS[name][0](x * in_scale)
    for dtype, limit in (("int8", 127), ("int16", 32767)):
        out_scale = reach / limit
        (y,) = run(unary(name, in_scale, out_scale, out_dtype=dtype), x)
        inside = np.abs(exact) < limit * out_scale
        error = np.abs(y * out_scale - exact)[inside].max()
        assert error <= error_bound(name, in_scale, out_scale)
        assert error > 0.4 * out_scale  # the bound says something


@pytest.mark.parametrize("turns", [0.4, 3.9, 4.1, 50.0, 3000.0])
def test_a_periodic_function_is_as_fine_over_many_periods(turns: float) -> None:
    """The error is that of a table over one period, or over at most eight."""
    x = np.arange(-32768, 32768)
    period = 2.5
    in_scale = turns * period / 32768

    def wave(v: NDArray[np.float64]) -> NDArray[np.float64]:
        return 0.7 * np.sin(2 * math.pi / period * v) + 0.2 * np.cos(6 * math.pi / period * v)

    sequence = tabled(wave, in_scale, 1 / 32767, in_dtype="int16", out_dtype="int16", period=period)
    (y,) = run(sequence, x)
    table = min(2 * turns, 8) if turns <= 4 else 1
    curve = (0.7 + 0.2 * 9) * (2 * math.pi / period) ** 2
    bound = (table * period / 512) ** 2 / 8 * curve + 2.0**-14 + math.pi * 2.0**-15
    assert np.abs(y / 32767 - wave(x * in_scale)).max() <= bound


CURVED = {
    "tanh": (np.tanh, 400.0),
    "log": (lambda v: np.log(np.maximum(v, 0) + 0.5), 2000.0),
    "root": (lambda v: np.sqrt(np.maximum(v, 0)), 50.0),
    "reciprocal": (lambda v: 1 / (np.maximum(v, 0) + 0.1), 20.0),
    "bell": (lambda v: np.exp(-v * v), 200.0),
}
"""Functions that are curved around zero only, and how far the input reaches."""


@pytest.mark.parametrize("name", CURVED)
def test_a_second_table_has_what_the_first_one_lacks_around_zero(name: str) -> None:
    f, reach = CURVED[name]
    x = np.arange(-32768, 32768)
    exact = f(x * reach / 32768)
    top = np.abs(exact).max()
    sequence = tabled(f, reach / 32768, top / 32767, in_dtype="int16", out_dtype="int16")
    assert [step.kind for step in sequence.steps].count("TABLE") == 2
    (y,) = run(sequence, x)
    errors = np.abs(y * top / 32767 - exact)
    # Between two entries of the second table lies one step of the input.
    step = np.abs(np.diff(f(np.arange(-600, 600) * reach / 32768))).max()
    assert errors.max() <= step + 2e-3 * top
    coarse = np.interp(x, np.arange(-256, 257) * 128, f(np.arange(-256, 257) * reach / 256))
    assert errors.max() < np.abs(coarse - exact).max() / 3


def _hardswish(x):
    return x * np.clip(x + 3, 0, 6) / 6


@pytest.mark.parametrize(
    ("f", "reach"), [(_hardswish, 60.0), (silu, 40.0), (np.tanh, 12.0), (_hardswish, 16.0)]
)
def test_a_second_table_lies_where_the_first_one_lacks_most_if_all_bits_count(f, reach):
    x = np.arange(-32768, 32768)
    exact, errors = f(x * reach / 32768), []
    top = float(np.abs(exact).max())
    for rough in (ROUGH, 2.0**-13):
        sequence = tabled(
            f, reach / 32768, top / 32767, in_dtype="int16", out_dtype="int16", rough=rough
        )
        (y,) = run(sequence, x)
        errors.append(np.abs(y * top / 32767 - exact).max())
    assert errors[1] < errors[0] / 3 or errors[1] < 2 * top / 32767


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_of_usual_ranges_have_one_table(name: str) -> None:
    sequence = unary(name, 12 / 32768, 12 / 127)
    assert [step.kind for step in sequence.steps] == ["TABLE", "RESCALE"]


def test_an_int8_function_is_correctly_rounded() -> None:
    x = np.arange(-128, 128)
    (y,) = run(unary("gelu", 0.05, 0.03, in_dtype="int8", in_zp=3, out_zp=-100), x)
    exact = FUNCTIONS["gelu"][0]((x - 3) * 0.05) / 0.03 - 100
    assert np.abs(y - np.clip(exact, -128, 127)).max() <= 0.5


def test_an_int8_output_may_have_a_scale_for_each_channel() -> None:
    x = np.arange(-32768, 32768).reshape(-1, 4)
    channels = np.array([0.5, 1.0, 2.0, 4.0])
    (y,) = run(unary("gelu", 8 / 32768, 0.05, channels=channels), x)
    exact = np.clip(FUNCTIONS["gelu"][0](x * 8 / 32768) / (0.05 * channels), -128, 127)
    assert np.abs(y - exact).max() <= 0.52


@pytest.mark.parametrize(("low", "high"), [(1, 32768), (1 << 22, 1 << 29), (5, 5), (1, 200)])
def test_reciprocals_are_good_to_14_bits(low: int, high: int) -> None:
    s = Sequence()
    name, factor = reciprocal(s, s.input("v", "int32"), 1, low, high)
    s.outputs = [name]
    v = np.unique(np.append(np.geomspace(low, high, 100_001).astype(np.int64), [low, high]))
    (r,) = run(s, v)
    bound = 2.0**-14 + (high / low > 256) * (high / low) * 2.0**-30
    assert np.abs(r * factor * v - 1).max() <= bound


def test_reciprocal_square_roots_are_good_to_13_bits() -> None:
    s = Sequence()
    name, factor = rsqrt(s, s.input("v", "int32"), 1)
    s.outputs = [name]
    dense = np.geomspace(1, (1 << 31) - 1, 200_001).astype(np.int64)
    v = np.unique(np.concatenate([dense, np.arange(1, 4096)]))
    (r,) = run(s, v)
    assert np.abs(r * factor * np.sqrt(v) - 1).max() <= 2.0**-13
    assert r.min() >= 1 << 14 and r.max() <= 1 << 30
    (zero,) = run(s, np.zeros(1, np.int64))
    assert zero[0] * factor == pytest.approx(math.sqrt(2), rel=1e-4)


def _softmax(x: NDArray[np.float64]) -> NDArray[np.float64]:
    e = np.exp(x - x.max(-1, keepdims=True))
    return np.asarray(e / e.sum(-1, keepdims=True))


@pytest.mark.parametrize("keys", [7, 128, 512, 2048])
def test_softmax_stays_within_its_stated_error(keys: int) -> None:
    rng = np.random.default_rng(keys)
    steps = 0.6 if keys <= 512 else 1.5
    for spread in (1.0, 4.0, 20.0):
        x = np.rint(rng.normal(size=(2, 40, keys)) * spread / 1e-3).astype(np.int64)
        exact = _softmax(x * 1e-3)
        (p,) = run(softmax(x.shape, 1e-3), x)
        assert np.abs((p + 128) - np.minimum(exact * 256, 255)).max() <= steps
        (wide,) = run(softmax(x.shape, 1e-3, out_dtype="int16", out_scale=1 / 32767, out_zp=0), x)
        assert np.abs(wide / 32767 - exact).max() <= (steps - 0.5) / 100 + 0.0005 * (keys > 128)


def test_masked_scores_have_probability_zero_and_the_others_sum_to_one() -> None:
    rng = np.random.default_rng(3)
    x = rng.integers(-30_000, 30_000, size=(2, 3, 32, 32))
    hidden = np.triu(np.ones((1, 1, 32, 32), bool), 1)
    mask = np.where(hidden, mask_value(1e-3, 32), 0)
    (p,) = run(softmax(x.shape, 1e-3, mask=True), x, mask)
    assert (p[np.broadcast_to(hidden, x.shape)] == -128).all()
    exact = _softmax(np.where(hidden, -np.inf, x * 1e-3))
    assert np.abs((p + 128) - np.minimum(exact * 256, 255)).max() <= 0.6


@pytest.mark.parametrize("keys", [7, 128, 1024])
def test_attention_weights_divide_after_the_product(keys: int) -> None:
    rng = np.random.default_rng(keys)
    x = np.rint(rng.normal(size=(2, 30, keys)) * 3 / 1e-3).astype(np.int64)
    values = rng.integers(-127, 128, size=(2, keys, 8))
    sequence, factor = attention_weights(x.shape, 1e-3)
    w, r = run(sequence, x)
    assert (w.max(-1) == 127).all()
    assert np.abs((w + 128).sum(-1, keepdims=True) * r * factor - 1).max() <= 2.0**-12
    result = ((w + 128) @ values) * r * factor
    exact = _softmax(x * 1e-3) @ values
    assert np.abs(result - exact).max() <= 127 * np.sqrt(keys) / 255


def _norm(
    x: NDArray[np.float64], gamma: NDArray[np.float64], eps: float, *, centre: bool
) -> NDArray[np.float64]:
    d = x - x.mean(-1, keepdims=True) if centre else x
    return np.asarray(d / np.sqrt((d * d).mean(-1, keepdims=True) + eps) * gamma)


@pytest.mark.parametrize("negative", [False, True])
@pytest.mark.parametrize("size", [16, 384, 768, 1000])
def test_norms_stay_within_their_stated_error(size: int, negative: bool) -> None:
    rng = np.random.default_rng(size)
    gamma = rng.uniform(0.2, 2.0, size)
    if negative:
        gamma[::5] *= -1
    beta = rng.normal(size=size)
    out_scale, in_scale = 40 / 32767, 1e-3
    for deviation, bound in ((128, 2e-2), (1000, 4e-3), (6000, 2e-3)):
        x = np.clip(rng.normal(size=(3, 20, size)) * deviation + deviation / 3, -24000, 24000)
        x[..., 3] = np.clip(x[..., 3] * 20, -24000, 24000)  # an outlier channel
        steps = np.rint(x).astype(np.int64)
        exact = _norm(steps * in_scale, gamma, 1e-12, centre=True) + beta
        (y,) = run(layer_norm(x.shape, in_scale, 1e-12, gamma, beta, out_scale), steps)
        assert np.abs(y * out_scale - exact).max() <= bound * (1 + np.abs(exact).max() / 8)
        far = np.clip(steps + 16000 * rng.choice([-1, 1], (3, 20, 1)), -32768, 32767)
        exact = _norm(far * in_scale, gamma, 1e-12, centre=True) + beta
        (y,) = run(layer_norm(x.shape, in_scale, 1e-12, gamma, beta, out_scale), far)
        assert np.abs(y * out_scale - exact).max() <= bound * (1 + np.abs(exact).max() / 8)
        exact = _norm(steps * in_scale, gamma, 1e-6, centre=False)
        (y,) = run(rms_norm(x.shape, in_scale, 1e-6, gamma, out_scale), steps)
        assert np.abs(y * out_scale - exact).max() <= bound * (1 + np.abs(exact).max() / 8)


@pytest.mark.parametrize("mean", [0, 20000])
@pytest.mark.parametrize(
    ("pixels", "channels", "groups"), [(49, 32, 8), (9, 24, 24), (2048, 64, 1), (70000, 16, 4)]
)
def test_group_norms_are_norms_of_channels_in_all_pixels(
    pixels: int, channels: int, groups: int, mean: int
) -> None:
    """Sums of int16 exceed int32 in the last two, where the mean is far from 0."""
    rng = np.random.default_rng(pixels)
    gamma, beta = rng.uniform(0.2, 2.0, channels), rng.normal(size=channels)
    gamma[::5] *= -1
    steps = np.rint(rng.normal(size=(2, pixels, channels)) * 1000 + mean)
    steps = np.clip(steps, -32768, 32767).astype(np.int64)
    rows = steps.reshape(2, pixels, groups, -1).transpose(0, 2, 1, 3)
    flat = _norm(rows.reshape(2, groups, -1) * 1e-3, np.ones(1), 1e-12, centre=True)
    exact = flat.reshape(rows.shape).transpose(0, 2, 1, 3).reshape(steps.shape) * gamma + beta
    out_scale = 40 / 32767
    operators = group_norm(steps.shape, groups, 1e-3, 1e-12, gamma, beta, out_scale)
    (y,) = run(operators, steps)
    assert np.abs(y * out_scale - exact).max() <= 4e-3 * (1 + np.abs(exact).max() / 8)
    assert abs((y * out_scale - exact).mean()) <= 1e-3


def test_group_norms_of_few_values_that_are_not_0() -> None:
    """As behind a ReLU: a pixel lies far out, under weights of both signs."""
    rng = np.random.default_rng(0)
    steps = rng.integers(0, 2000, size=(1, 400, 8))
    steps[0, 7] = 30000
    exact = _norm(steps.reshape(1, 1, -1) * 1e-3, np.ones(1), 1e-12, centre=True)
    gamma = np.where(np.arange(8) % 2, 1.5, -1.5)
    exact = exact.reshape(steps.shape) * gamma
    out_scale = 40 / 32767
    (y,) = run(group_norm(steps.shape, 1, 1e-3, 1e-12, gamma, None, out_scale), steps)
    assert np.abs(exact).max() > 24
    assert np.abs(y * out_scale - exact).max() <= 4e-3 * (1 + np.abs(exact).max() / 8)


def test_layer_norms_of_rows_whose_sums_exceed_int32() -> None:
    rng = np.random.default_rng(0)
    steps = np.rint(rng.normal(size=(1, 2, 150_000)) * 1000 + 20000).astype(np.int64)
    exact = _norm(steps * 1e-3, np.ones(1), 1e-12, centre=True)
    (y,) = run(layer_norm(steps.shape, 1e-3, 1e-12, None, None, 8 / 32767), steps)
    assert np.abs(y * 8 / 32767 - exact).max() <= 2e-2 * (1 + np.abs(exact).max() / 8)


@pytest.mark.parametrize("signs", [1.0, -1.0])
@pytest.mark.parametrize("size", [1, 16, 1000])
def test_norms_follow_values_of_any_size_beside_eps(size: int, signs: float) -> None:
    """Deviations from 10^-30 to 10 · √eps, in half decades where the norm changes over."""
    rng = np.random.default_rng(size)
    steps = np.clip(np.rint(rng.normal(size=(4, 20, size)) * 6000), -24000, 24000).astype(np.int64)
    steps[0] = 32767 * (-1) ** np.arange(size)  # as far as int16 reaches
    gamma, offset = (
        rng.uniform(0.2, 2.0, size) * rng.choice([1, signs], size),
        rng.normal(size=size),
    )
    for deviation in 10.0 ** np.array([-30, -15, *np.arange(-9, 1.5, 0.5)]):
        eps = 1e-5
        in_scale = deviation * eps**0.5 / 6000
        beta = offset * min(deviation, 1)
        layer = _norm(steps * in_scale, gamma, eps, centre=True) + beta
        rms = _norm(steps * in_scale, gamma, eps, centre=False)
        scales = [np.abs(exact).max() / 32000 for exact in (layer, rms)]
        (y,) = run(layer_norm(steps.shape, in_scale, eps, gamma, beta, scales[0]), steps)
        assert np.abs(y - layer / scales[0]).max() <= 6
        (y,) = run(rms_norm(steps.shape, in_scale, eps, gamma, scales[1]), steps)
        assert np.abs(y - rms / scales[1]).max() <= 6


def test_norms_of_constant_rows_are_beta() -> None:
    beta = np.linspace(-1, 1, 64)
    x = np.stack([np.zeros(64), np.full(64, 32767), np.full(64, -32768)])[None].astype(np.int64)
    (y,) = run(layer_norm(x.shape, 1e-3, 1e-5, None, beta, 1e-3), x)
    assert np.array_equal(y, np.broadcast_to(np.rint(beta / 1e-3), x.shape))


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize(("least", "early"), [(0.0, False), (1e-3, False), (0.1, True)])
def test_channels_whose_gamma_is_next_to_nothing_have_their_beta(
    least: float, early: bool, sign: int
) -> None:
    """β/γ that is too large for int32 is added behind the product with γ, all others before it."""
    rng = np.random.default_rng(4)
    steps = np.rint(rng.normal(size=(1, 20, 16)) * 5000).astype(np.int64)
    gamma, beta = rng.uniform(0.5, 2.0, 16) * rng.choice([1, sign], 16), rng.normal(size=16)
    gamma[3], beta[3] = least, 1.5
    exact = _norm(steps * 1e-3, gamma, 1e-12, centre=True) + beta
    operators = layer_norm(steps.shape, 1e-3, 1e-12, gamma, beta, 8 / 32767)
    (y,) = run(operators, steps)
    assert np.abs(y * 8 / 32767 - exact).max() <= 0.003 * (1 + np.abs(exact).max() / 8)
    by_channel = [s for s in operators.steps if s.attributes.get("per_channel")]
    assert [s.dtype for s in by_channel] == (
        ["int32"] if not early else ["int16"] if (gamma > 0).all() else []
    )


def test_rows_are_quantized_by_their_own_magnitude() -> None:
    rng = np.random.default_rng(5)
    x = np.rint(rng.normal(size=(1, 50, 64)) * np.exp(rng.uniform(3, 9, size=(1, 50, 1))))
    steps = np.clip(x, -32768, 32767).astype(np.int64)
    steps[0, 0] = 0
    q, m = run(quantize_rows(steps.shape), steps)
    assert np.array_equal(m[0, :, 0], np.maximum(np.abs(steps).max(-1)[0], 1))
    assert np.abs(q - steps * 127 / m).max() <= 0.5 + 127 * 2.0**-13
    ratios = rng.uniform(0.3, 1.0, 64)
    smoothed = quantize_rows(steps.shape, ratios)
    q, m = run(smoothed, steps)
    assert smoothed.steps[0].dtype == "int16"  # what is moved through memory
    large = m[0, :, 0] > 1000
    assert np.abs(q - steps * ratios * 127 / m)[0, large].max() <= 0.6


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: softmax((1, 1 << 19), 1.0), "softmax over 524288 values: at most 262143"),
        (lambda: reciprocal(Sequence(), "v", 1, 0, 9), "reciprocal of 0…9"),
        (lambda: unary("gelu", 0.1, 0.1, in_dtype="int8", out_dtype="int16"), "gives int8"),
    ],
)
def test_impossible_sequences_are_refused(make: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()  # type: ignore[operator]

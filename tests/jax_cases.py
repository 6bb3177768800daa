"""Calls of JAX for each operation that the StableHLO door takes: family, name, function, inputs."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import jax_networks  # noqa: F401 - which sets JAX's platform
import numpy as np
from jax import lax, nn

Case = tuple[Callable[..., Any], tuple[Any, ...]]


def floats(*shape: int, seed: int = 0, positive: bool = False) -> Any:
    x = np.random.default_rng(seed).normal(size=shape).astype(np.float32)
    return np.abs(x) + np.float32(0.1) if positive else x


def ints(*shape: int, high: int = 10, seed: int = 0) -> Any:
    return np.random.default_rng(seed).integers(0, high, size=shape).astype(np.int32)


def const(*shape: int, seed: int = 5) -> Any:
    return jnp.asarray(floats(*shape, seed=seed))


X, Y, POSITIVE = floats(3, 5), floats(3, 5, seed=1), floats(3, 5, positive=True)
_UNARY = [
    "abs", "ceil", "cos", "exp", "expm1", "floor", "is_finite", "logistic", "neg", "sign", "sin",
    "tan", "tanh", "erf", "erfc", "cbrt", "square", "asinh", "atan", "sinh", "cosh",
]  # fmt: skip
_BINARY = ["add", "sub", "mul", "div", "max", "min", "atan2", "rem"]

ELEMENTWISE: dict[str, Case] = {
    **{name: (getattr(lax, name), (X,)) for name in _UNARY},
    **{name: (getattr(lax, name), (POSITIVE,)) for name in ("log", "log1p", "rsqrt", "sqrt")},
    **{name: (getattr(lax, name), (np.tanh(X),)) for name in ("asin", "acos", "atanh")},
    **{n: (getattr(lax, n), (X, Y)) for n in _BINARY},
    "acosh": (lax.acosh, (POSITIVE + 1,)),
    "round": (jnp.round, (np.float32([0.5, 1.5, -2.5, 2.2]),)),
    "round away": (lax.round, (np.float32([0.5, 1.5, -2.5, 2.2]),)),
    "pow": (lax.pow, (POSITIVE, X)),
    "cube": (lambda x: x**3, (X,)),
    "integer div": (lax.div, (ints(3, 5) - 5, ints(3, 5, seed=1) + 1)),
    "integer rem": (lax.rem, (ints(3, 5) - 5, ints(3, 5, seed=1) + 1)),
    "bits": (lambda a, b: (a & b, a | b, a ^ b, ~a), (ints(3, 5), ints(3, 5, seed=1))),
    "bools": (lambda a, b: ((a > 0) & (b > 0), (a > 0) ^ (b > 0), ~(a > 0)), (X, Y)),
    "shifts": (lambda a: (a << 2, a >> 1), (ints(3, 5) - 5,)),
    "compare": (
        lambda a, b: (a == b, a != b, a < b, a <= b, a > b, a >= b),
        (ints(3, 5, high=3), ints(3, 5, high=3, seed=1)),
    ),
    "where": (lambda a, b: jnp.where(a > b, a, 0.0), (X, Y)),
    "clamp": (lambda x, y: (lax.clamp(-0.5, x, 0.7), lax.clamp(-y, x, y)), (X, POSITIVE)),
    "convert": (lambda x: (x.astype(jnp.int32), (x > 0).astype(jnp.float32)), (X * 3,)),
    "bfloat16": (lambda x: (x.astype(jnp.bfloat16) * 2.5).astype(jnp.float32), (np.round(X * 8),)),
    "barrier": (lax.optimization_barrier, (X,)),
}


def _conv(
    shape: tuple[int, ...], weight: tuple[int, ...], layout: str, pad: Any = "SAME", **more: Any
) -> Case:
    spatial = "".join(c for c in layout if c not in "NC")
    kernel = f"{spatial}IO" if layout.endswith("C") else f"OI{spatial}"
    w, strides = const(*weight), more.pop("strides", (1,) * len(spatial))

    def function(x: Any) -> Any:
        numbers = (layout, kernel, layout)
        return lax.conv_general_dilated(x, w, strides, pad, dimension_numbers=numbers, **more)

    return function, (floats(*shape),)


NCHW = ((2, 3, 5, 5), (4, 3, 3, 3), "NCHW")
PRODUCTS: dict[str, Case] = {
    "matmul": (lambda a, b: a @ b, (X, floats(5, 4))),
    "batched": (lambda a, b: jnp.einsum("bij,bjk->bik", a, b), (floats(2, 3, 5), floats(2, 5, 4))),
    "heads": (
        lambda a, b: jnp.einsum("bqhd,bkhd->bhqk", a, b), (floats(2, 3, 4, 5), floats(2, 6, 4, 5)),
    ),
    "two contracted": (
        lambda a, b: jnp.einsum("abc,bcd->da", a, b), (floats(2, 3, 4), floats(3, 4, 5)),
    ),
    "outer": (jnp.outer, (floats(3), floats(4))),
    "vectors": (lambda a, b: a @ b, (floats(3), floats(3))),
    "constant right": (lambda a: (a @ const(5, 4) + const(4)) * 2 - const(4, seed=7), (X,)),
    "constant left": (lambda a: const(4, 3) @ a, (X,)),
    "scaled": (lambda a: 1 - (a @ const(5, 4)) / const(4), (X,)),
    "dense of heads": (
        lambda a: jnp.einsum("bld,dhk->blhk", a, const(5, 2, 3)) + const(2, 3), (floats(2, 3, 5),),
    ),
    "conv": _conv(*NCHW),
    "conv NHWC": _conv((2, 8, 8, 3), (3, 3, 3, 4), "NHWC", strides=(2, 2)),
    "depthwise": _conv((2, 8, 8, 4), (3, 3, 1, 8), "NHWC", feature_group_count=4),
    "dilated": _conv((2, 3, 8, 8), (4, 3, 3, 3), "NCHW", rhs_dilation=(2, 2)),
    "negative pad": _conv(*NCHW, [(-1, 2), (0, 1)]),
    "transposed": _conv(*NCHW, [(1, 2), (1, 2)], lhs_dilation=(2, 2)),
    "transposed, cut": _conv(*NCHW, [(2, 2), (3, 1)], lhs_dilation=(2, 2)),
    "transposed, groups": _conv(
        (2, 4, 5, 5), (6, 2, 3, 3), "NCHW", [(1, 1)] * 2, lhs_dilation=(3, 3),
        feature_group_count=2,
    ),
    "conv of rows": _conv((2, 8, 3), (3, 3, 4), "NWC"),
    "conv of volumes": _conv((1, 2, 4, 4, 4), (3, 2, 2, 2, 2), "NCDHW"),
    "conv, norm": (
        lambda x: (lax.conv(x, const(4, 3, 3, 3), (1, 1), "SAME") - const(4, 1, 1)) * 3 + 1,
        (floats(1, 3, 6, 6),),
    ),
}  # fmt: skip


def _window(x: Any, initial: float, function: Any, size: Any, strides: Any, pad: str) -> Any:
    return lax.reduce_window(x, initial, function, size, strides, pad)


IMAGE, ROWS_3, ROWS_2 = floats(1, 6, 6, 3), (1, 3, 3, 1), (1, 2, 2, 1)
REDUCTIONS: dict[str, Case] = {
    "reduce": (
        lambda x: (x.sum(1), x.max((0, 2)), x.min(), x.prod(1), x.mean((1, 2)),
                   x.sum(1, keepdims=True)), (floats(2, 3, 4),),
    ),
    "reduce bools": (lambda x: ((x > 0).any(1), (x > 0).all(1)), (X,)),
    "begins with 2": (lambda x: lax.reduce(x, 2.0, lax.max, (1,)), (X,)),
    "argmax": (lambda x: (jnp.argmax(x, 1), jnp.argmin(x, 0)), (X,)),
    "max pool": (lambda x: _window(x, -jnp.inf, lax.max, ROWS_2, ROWS_2, "VALID"), (IMAGE,)),
    "max pool, same": (lambda x: _window(x, -jnp.inf, lax.max, ROWS_3, ROWS_2, "SAME"), (IMAGE,)),
    "min pool": (lambda x: _window(x, jnp.inf, lax.min, ROWS_2, ROWS_2, "VALID"), (IMAGE,)),
    "pool of rows": (
        lambda x: _window(x, -jnp.inf, lax.max, (1, 3), (1, 2), "SAME"), (floats(2, 9),),
    ),
    "average pool": (lambda x: _window(x, 0.0, lax.add, ROWS_2, ROWS_2, "VALID") / 4, (IMAGE,)),
    "average pool, same": (
        lambda x: _window(x, 0.0, lax.add, ROWS_3, (1,) * 4, "SAME")
        / _window(jnp.ones_like(x), 0.0, lax.add, ROWS_3, (1,) * 4, "SAME"), (IMAGE,),
    ),
    "sums of windows": (lambda x: _window(x, 0.0, lax.add, ROWS_3, ROWS_2, "SAME"), (IMAGE,)),
    "cumulative": (lambda x: (jnp.cumsum(x, 1), lax.cummax(x, 1)), (X,)),
}  # fmt: skip
MOVES: dict[str, Case] = {
    "moves": (
        lambda x: (x.reshape(6, 4), x.transpose(2, 0, 1), x[:, 1:, ::2], x[::-1],
                   jnp.concatenate([x, x], 1), jnp.broadcast_to(x[:, :1], (2, 3, 4)),
                   jnp.stack([x, x])), (floats(2, 3, 4),),
    ),
    "broadcast": (
        lambda x: lax.broadcast_in_dim(x, (3, 2, 4), (2,))
        + lax.broadcast_in_dim(x.reshape(4, 1), (3, 2, 4), (2, 1)), (floats(4),),
    ),
    "iota": (lambda x: x + jnp.arange(5) + lax.broadcasted_iota(jnp.float32, (3, 5), 0), (X,)),
    "pad": (
        lambda x: (jnp.pad(x, ((1, 2), (0, 1))), lax.pad(x, 1.5, ((-1, 2, 0), (1, 1, 2)))), (X,),
    ),
    "slices": (
        lambda x: (lax.dynamic_slice(x, (1, 2), (2, 2)),
                   lax.dynamic_update_slice(x, x[:1, :2], (1, 1))), (X,),
    ),
    "indices": (
        lambda x, a: (x[a], x[:, a], jnp.take(x, a, 1), x[a, a], x[0], x[:, -1],
                      x[..., jnp.array([0, 2])]), (floats(4, 4, 4), ints(3, high=4)),
    ),
    "negative indices": (lambda x, a: x[a - 2], (floats(4, 5), ints(2, 3, high=4))),
    "clipped": (
        lambda x, a: jnp.take(x, a, 0, mode="clip"), (floats(4, 5), ints(2, 3, high=4)),
    ),
    "along": (
        lambda x, a: jnp.take_along_axis(x, a, 1), (floats(4, 5), ints(4, 2, high=5)),
    ),
    "one hot": (lambda a: nn.one_hot(a, 5), (ints(4, high=5),)),
    "triangle": (jnp.tril, (floats(4, 4),)),
}  # fmt: skip
GROUPS: dict[str, Case] = {
    "layer norms": (
        lambda x: (nn.standardize(x), (x - x.mean(-1, keepdims=True)) / jnp.sqrt(
            x.var(-1, keepdims=True) + 1e-5) * const(5) + const(5, seed=6)), (X,),
    ),
    "rms norm": (
        lambda x: x * lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-6) * const(5), (X,),
    ),
    "softmax": (lambda x: (nn.softmax(x), nn.softmax(x, 0), nn.log_softmax(x)), (X,)),
    "masked softmax": (lambda x: nn.softmax(jnp.where(jnp.tri(5)[:3] > 0, x, -1e9)), (X,)),
    "logsumexp": (lambda x: nn.logsumexp(x, 1), (X,)),
    "variance": (lambda x: (x.var(1), x.std(1)), (X,)),
    "attention": (lambda x: nn.dot_product_attention(x, x, x), (floats(1, 4, 2, 3),)),
    "causal": (
        lambda x: nn.dot_product_attention(x, x, x, is_causal=True), (floats(1, 4, 2, 3),),
    ),
    "resize": (lambda x: jax.image.resize(x, (1, 8, 8, 2), "bilinear"), (floats(1, 4, 4, 2),)),
}  # fmt: skip
ORDERS: dict[str, Case] = {
    "sort": (lambda x: (jnp.sort(x), jnp.sort(x, 0), jnp.sort(x, descending=True)), (X,)),
    "argsort": (lambda x: (jnp.argsort(x), jnp.argsort(-x, 0)), (X,)),
    "sort integers": (jnp.sort, (ints(3, 7, high=99),)),
    "sort two": (lambda x, y: lax.sort((x, y), num_keys=1), (X, Y)),
    "median": (lambda x: (jnp.median(x, -1), jnp.quantile(x, 0.3, -1)), (X,)),
    "top_k": (lambda x: lax.top_k(x, 3), (X,)),
    "nan": (lambda x: (jnp.isnan(x), jnp.nan_to_num(x), jnp.nanmean(x, 1)), (X,)),
}
_AT = jnp.array([2, 0])
WRITES: dict[str, Case] = {
    "set": (lambda x: (x.at[1].set(0.0), x.at[:, -2].set(x[:, 0]), x.at[1:3, 2:4].set(1.0)), (X,)),
    "set some": (lambda x: (x.at[_AT].set(x[:2] + 1), x.at[:, ::2].set(2.0)), (X,)),
    "element": (lambda x: x.at[1, 2].set(7.0).at[2, 3].add(1.0), (X,)),
    "add": (lambda x: x.at[jnp.array([1, 1, 2])].add(x), (X,)),
    "others": (lambda x: (x.at[0].max(0.5), x.at[1].min(0.5), x.at[:, 1].mul(2.0)), (X,)),
    "outside": (lambda x: (x.at[9].set(1.0), x.at[:, 8].add(1.0)), (X,)),
    "constant": (lambda x: x + jnp.zeros((3, 5)).at[1].set(2.0).at[:, 4].add(3.0), (X,)),
}


def _cell(h: Any, x: Any) -> Any:
    h = jnp.tanh(x @ const(5, 4) + h @ const(4, 4, seed=6))
    return h, h


def _layer(h: Any, weight: Any) -> Any:
    return nn.gelu(h @ weight) + h, h.sum(-1)


def _turns(h: Any, _: Any) -> Any:
    return lax.fori_loop(0, 2, lambda i, c: jnp.tanh(c) + i, h), h


LOOPS: dict[str, Case] = {
    "scan": (lambda x: lax.scan(_cell, jnp.zeros((2, 4)), x), (floats(6, 2, 5),)),
    "reverse": (lambda x: lax.scan(_cell, jnp.zeros((2, 4)), x, reverse=True), (floats(6, 2, 5),)),
    "unrolled": (lambda x: lax.scan(_cell, jnp.zeros((2, 4)), x, unroll=4), (floats(6, 2, 5),)),
    "layers": (lambda x: lax.scan(_layer, x, const(3, 5, 5)), (X,)),
    "nested": (lambda x: lax.scan(_turns, x, None, length=3), (X,)),
    "fori": (lambda x: lax.fori_loop(0, 5, lambda i, c: c * 0.5 + x[i % 3], x[0]), (X,)),
    "while": (
        lambda x: lax.while_loop(lambda c: c[0] < 4, lambda c: (c[0] + 1, c[1] * 2), (0, x)), (X,),
    ),
    "map": (lambda x: lax.map(lambda row: row * 2 + row.sum(), x), (X,)),
    "cumulative": (lambda x: lax.associative_scan(jnp.add, x, axis=1), (X,)),
}  # fmt: skip
BRANCHES: dict[str, Case] = {
    "cond": (
        lambda x: [lax.cond(x.sum() > t, lambda v: v * 2, lambda v: -v, x) for t in (-99, 99)],
        (X,),
    ),
    "known": (lambda x: lax.cond(len(x) > 1, lambda v: v * 2, lambda v: -v, x), (X,)),
    "switch": (
        lambda x, at: [
            lax.switch(i, [lambda v: v * 2, lambda v: -v, lambda v: v + 1], x) for i in at
        ],
        (X, np.int32([-1, 0, 1, 2, 7])),
    ),
    "in a loop": (
        lambda x: lax.fori_loop(
            0, 4, lambda i, c: lax.cond(i % 2 == 0, lambda v: v + 1, lambda v: v * 3, c), x
        ),
        (X,),
    ),
}
FAMILIES = {
    "elementwise": ELEMENTWISE, "products": PRODUCTS, "reductions": REDUCTIONS, "moves": MOVES,
    "groups": GROUPS, "orders": ORDERS, "writes": WRITES, "loops": LOOPS, "branches": BRANCHES,
}  # fmt: skip

ACTIVATIONS: dict[str, tuple[Callable[..., Any], str]] = {
    "relu": (nn.relu, "maximum"),
    "relu6": (nn.relu6, "relu6"),
    "sigmoid": (nn.sigmoid, "sigmoid"),
    "silu": (nn.silu, "silu"),
    "gelu": (nn.gelu, "gelu"),
    "exact gelu": (lambda x: nn.gelu(x, approximate=False), "gelu"),
    "softplus": (nn.softplus, "softplus"),
    "log_sigmoid": (nn.log_sigmoid, "logsigmoid"),
    "mish": (nn.mish, "mish"),
    "selu": (nn.selu, "selu"),
    "hard_swish": (nn.hard_swish, "hardswish"),
    "hard_sigmoid": (nn.hard_sigmoid, "hardsigmoid"),
    "elu": (lambda x: nn.elu(x, 0.3), "elu"),
    "leaky_relu": (lambda x: nn.leaky_relu(x, 0.3), "leaky_relu"),
    "hard_tanh": (nn.hard_tanh, "hardtanh"),
    "erf": (jax.scipy.special.erf, "erf"),
}

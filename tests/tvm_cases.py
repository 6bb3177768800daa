"""Calls of Relax operators, at least one for each that the TVM door takes: `cases()`."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """op: the operator's name. arrays: parameters of the call that `make` makes of them."""

    op: str
    arrays: tuple[Any, ...]
    make: Callable[..., Any]


def _floats(*shape: int, seed: int = 0, low: float = -1.0, high: float = 1.0) -> Any:
    return np.random.default_rng(seed).uniform(low, high, shape).astype(np.float32)


def _image(channels: int = 4, size: int = 8, seed: int = 0) -> Any:
    return _floats(1, channels, size, size, seed=seed)


def cases() -> list[Case]:
    from tvm import relax

    o = relax.op
    const = relax.const
    found: list[Case] = []

    def add(op: str, make: Callable[..., Any], *arrays: Any) -> None:
        found.append(Case(op=op, arrays=arrays, make=make))

    _products(add, o, const)
    _norms(add, o, const)
    _elementwise(add, o, const, relax)
    _moves(add, o, const, relax)
    return found


def _products(add: Any, o: Any, const: Any) -> None:
    nn, x = o.nn, _image()
    w = const(_floats(6, 4, 3, 3, seed=1))
    add("nn.conv2d", lambda a: nn.conv2d(a, w, strides=2, padding=[1, 0, 2, 1]), x)
    add(
        "nn.conv2d",
        lambda a: nn.conv2d(
            a, const(_floats(3, 3, 2, 6, seed=1)), groups=2, dilation=2, data_layout="NHWC",
            kernel_layout="HWIO",
        ),
        _floats(1, 9, 9, 4),
    )  # fmt: skip
    add("nn.conv1d", lambda a: nn.conv1d(a, const(_floats(5, 4, 3))), _floats(1, 4, 9))
    add("nn.conv3d", lambda a: nn.conv3d(a, const(_floats(2, 2, 2, 2, 2))), _floats(1, 2, 4, 4, 4))
    up = const(_floats(4, 3, 3, 3, seed=2))
    add(
        "nn.conv2d_transpose",
        lambda a: nn.conv2d_transpose(a, up, strides=2, padding=1, output_padding=1),
        x,
    )
    line = const(_floats(4, 3, 3, seed=2))
    add("nn.conv1d_transpose", lambda a: nn.conv1d_transpose(a, line, strides=2), _floats(1, 4, 6))
    add(
        "nn.conv3d_transpose",
        lambda a: nn.conv3d_transpose(a, const(_floats(2, 2, 2, 2, 2)), strides=2),
        _floats(1, 2, 3, 3, 3),
    )
    for rank, shape in ((1, (1, 4, 9)), (2, (1, 4, 9, 9)), (3, (1, 2, 5, 5, 5))):
        for kind in ("max", "avg"):
            pool = getattr(nn, f"{kind}_pool{rank}d")
            add(f"nn.{kind}_pool{rank}d", lambda a, p=pool: p(a, 3, 2, 1), _floats(*shape))
        mean = getattr(nn, f"adaptive_avg_pool{rank}d")
        add(f"nn.adaptive_avg_pool{rank}d", lambda a, p=mean: p(a, 1), _floats(*shape))
    add(
        "nn.avg_pool2d",
        lambda a: nn.avg_pool2d(a, 3, 2, 1, ceil_mode=True, count_include_pad=True),
        _image(),
    )
    add("nn.adaptive_avg_pool2d", lambda a: nn.adaptive_avg_pool2d(a, (4, 2)), x)
    add("matmul", lambda a: o.matmul(a, const(_floats(6, 5, seed=3))), _floats(3, 6))
    add("matmul", o.matmul, _floats(2, 3, 4), _floats(2, 4, 5, seed=1))
    heads = [_floats(1, 5, 2, 4, seed=i) for i in range(3)]
    add("nn.attention", lambda q, k, v: nn.attention(q, k, v), *heads)
    add("nn.attention_bias", lambda q, k, v: nn.attention(q, k, v, const(_floats(1, 2, 5, 5))),
        *heads)  # fmt: skip
    resize = o.image.resize2d
    add("image.resize2d", lambda a: resize(a, (16, 16), method="linear"), x)
    add(
        "image.resize2d",
        lambda a: resize(
            a, (12, 12), method="nearest_neighbor", coordinate_transformation_mode="asymmetric",
            rounding_method="floor",
        ),
        x,
    )  # fmt: skip


def _norms(add: Any, o: Any, const: Any) -> None:
    nn, x = o.nn, _image()
    row = [const(_floats(4, seed=i, low=0.5)) for i in range(4)]
    add("nn.batch_norm", lambda a: nn.batch_norm(a, *row, axis=1, training=False)[0], x)
    add(
        "nn.batch_norm",
        lambda a: nn.batch_norm(a, *row, axis=3, training=False, scale=False)[0],
        _floats(1, 5, 5, 4),
    )
    last = [const(_floats(6, seed=i)) for i in range(2)]
    add("nn.layer_norm", lambda a: nn.layer_norm(a, *last, axes=[-1]), _floats(3, 6))
    add("nn.rms_norm", lambda a: nn.rms_norm(a, last[0], axes=[-1]), _floats(3, 6))
    add("nn.group_norm", lambda a: nn.group_norm(a, *row[:2], 2, 1, [2, 3]), x)
    for name in ("softmax", "log_softmax"):
        add(f"nn.{name}", lambda a, f=name: getattr(nn, f)(a, axis=-1), _floats(3, 6))


def _elementwise(add: Any, o: Any, const: Any, relax: Any) -> None:
    nn, x = o.nn, _floats(2, 3, 4)
    for name in ("relu", "gelu", "gelu_tanh", "selu", "silu", "softplus", "leakyrelu"):
        add(f"nn.{name}", getattr(nn, name), x)
    add("nn.prelu", lambda a: nn.prelu(a, const(_floats(3, low=0.0)), axis=1), x)
    add("nn.dropout", lambda a: nn.dropout(a)[0], x)
    for name in (
        "abs", "acos", "asin", "asinh", "atan", "atanh", "ceil", "cos", "cosh", "erf", "exp",
        "floor", "negative", "sigmoid", "sign", "sin", "sinh", "square", "tan", "tanh", "isnan",
    ):  # fmt: skip
        add(name, getattr(o, name), x * np.float32(0.9))
    for name in ("acosh", "log", "rsqrt", "sqrt"):
        add(name, getattr(o, name), _floats(2, 3, low=1.5, high=3.0))
    add("round", o.round, _floats(3, 7, high=9.0))
    other = _floats(3, 1, seed=5)
    for name in (
        "add", "divide", "maximum", "minimum", "multiply", "subtract", "greater", "less", "equal",
        "greater_equal", "less_equal", "not_equal",
    ):  # fmt: skip
        add(name, getattr(o, name), x, other)
    add("power", lambda a: o.power(a, const(2.0, "float32")), x)
    bools = [_floats(2, 3, seed=i) > 0 for i in range(2)]
    for name in ("logical_and", "logical_or", "logical_xor"):
        add(name, getattr(o, name), *bools)
    add("logical_not", o.logical_not, bools[0])
    add("where", o.where, bools[0], _floats(2, 3), _floats(2, 3, seed=1))
    add("clip", lambda a: o.clip(a, -0.5, 0.25), x)
    add("astype", lambda a: o.astype(a, "float32"), np.arange(6, dtype=np.int32))
    for name in ("sum", "mean", "max", "min", "prod", "std", "variance"):
        add(name, lambda a, f=name: getattr(o, f)(a, [1], True), x)
    add("mean", lambda a: o.mean(a), x)
    for name in ("argmax", "argmin"):
        add(name, lambda a, f=name: getattr(o, f)(a, 1), x)
    add("cumsum", lambda a: o.cumsum(a, 1), x)


def _moves(add: Any, o: Any, const: Any, relax: Any) -> None:
    nn, x = o.nn, _floats(2, 3, 4)
    add("broadcast_to", lambda a: o.broadcast_to(a, (2, 3, 4)), _floats(3, 1))
    add("concat", lambda a, b: o.concat([a, b], 1), x, _floats(2, 2, 4))
    add("stack", lambda a, b: o.stack([a, b], -1), x, x)
    add("expand_dims", lambda a: o.expand_dims(a, [0, -1]), x)
    add("flatten", o.flatten, x)
    add("nn.batch_flatten", nn.batch_flatten, x)
    add("squeeze", lambda a: o.squeeze(a), _floats(1, 3, 1))
    add("squeeze", lambda a: o.squeeze(a, [0]), _floats(1, 3, 1))
    add("reshape", lambda a: o.reshape(a, (4, 6)), x)
    add("permute_dims", lambda a: o.permute_dims(a), x)
    add("permute_dims", lambda a: o.permute_dims(a, [0, 2, 1]), x)
    add("split", lambda a: o.split(a, 2, 2)[1], x)
    add("split", lambda a: o.split(a, [1, 2], 1)[2], x)
    add("strided_slice", lambda a: o.strided_slice(a, [1, 2], [0, 1], [3, 4], [2, 1]), x)
    at = const(np.array([2, 0], np.int64))
    add("take", lambda a: o.take(a, at, 1), x)
    add("gather_elements",
        lambda a: o.gather_elements(a, const(np.zeros((2, 3, 4), np.int64)), 1), x)  # fmt: skip
    add("tile", lambda a: o.tile(a, (2, 1, 1, 3)), x)
    add("nn.pad", lambda a: nn.pad(a, [0, 0, 1, 2, 0, 1]), x)
    add("nn.pixel_shuffle", lambda a: nn.pixel_shuffle(a, 2), _image())
    add("topk", lambda a: o.topk(a, 2, ret_type="values"), x)
    add("topk", lambda a: o.topk(a, 2, ret_type="indices", dtype="int32"), x)
    for name in ("zeros_like", "ones_like"):
        add(name, lambda a, f=name: o.add(a, getattr(o, f)(a)), x)
    add("full_like", lambda a: o.add(a, o.full_like(a, const(2.5, "float32"))), x)
    for name in ("zeros", "ones"):
        add(name, lambda a, f=name: o.add(a, getattr(o, f)((3, 4), "float32")), x)
    add("full", lambda a: o.add(a, o.full((3, 4), const(2.5, "float32"), "float32")), x)


def module_of(chosen: Sequence[Case]) -> tuple[Any, list[Any]]:
    """(a module whose function `main` returns a tuple of what the cases make, its arguments)."""
    from tvm import relax

    params, arrays, groups = [], [], []
    for i, case in enumerate(chosen):
        group = []
        for j, array in enumerate(case.arrays):
            kind = relax.TensorType(array.shape, array.dtype.name)
            group.append(relax.Var(f"x{i}_{j}", kind))
            arrays.append(array)
        groups.append(group)
        params += group
    builder = relax.BlockBuilder()
    with builder.function("main", params):
        with builder.dataflow():
            made = [
                builder.emit(case.make(*group)) for case, group in zip(chosen, groups, strict=True)
            ]
            result = builder.emit_output(relax.Tuple(made))
        builder.emit_func_output(result)
    return builder.get(), arrays

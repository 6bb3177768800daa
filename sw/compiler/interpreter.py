"""The meaning of a TOSA graph: every operator in NumPy, bit for bit.

The semantics are those of the TOSA 1.0 integer profile; values are computed in int64 (products of
convolutions and matrices in float64, where every partial sum is exact) and stored in the tensor's
type. It is the yardstick for each compiler stage, and is itself checked against
`tosa_reference_model` over random operators.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from spec.numerics import apply_scale, reciprocal_scale, wrap32
from sw.compiler.errors import GraphError
from sw.compiler.tosa import DTYPES, Graph, Op

Array = NDArray[Any]
Int = NDArray[np.int64]

_LIMITS = {"int8": (-128, 127), "int16": (-32768, 32767), "int32": (-(1 << 31), (1 << 31) - 1)}


def run_graph(graph: Graph, inputs: Mapping[str, Array], *, keep: bool = False) -> dict[str, Array]:
    """Execute `graph` and return its outputs by name (`keep`: every tensor).

    `inputs` has one array per graph input, of the declared shape and dtype; `GraphError` names the
    first that is missing or does not fit.
    """
    values: dict[str, Array] = {n: t.data for n, t in graph.tensors.items() if t.data is not None}
    for name in graph.inputs:
        values[name] = _checked_input(graph, name, inputs)
    for op in graph.ops:
        run = _EVALUATE.get(op.kind)
        if run is None:
            raise GraphError(
                f"the interpreter has no operator {op.kind}", node=op.name, source=op.source
            )
        out = graph.tensors[op.outputs[0]]
        result = run(op, [values[n] for n in op.inputs], out.dtype)
        values[out.name] = np.ascontiguousarray(result.astype(DTYPES[out.dtype]))
        if result.shape != out.shape:
            raise GraphError(
                f"{op.kind} gave {list(result.shape)}, tensor {out.name!r} is {list(out.shape)}",
                node=op.name,
            )
    return values if keep else {name: values[name] for name in graph.outputs}


def _checked_input(graph: Graph, name: str, inputs: Mapping[str, Array]) -> Array:
    tensor = graph.tensors[name]
    if name not in inputs:
        raise GraphError(f"no value for graph input {name!r}", hint=f"it is {tensor}")
    value = np.asarray(inputs[name])
    if value.shape != tensor.shape or value.dtype != DTYPES[tensor.dtype]:
        raise GraphError(
            f"graph input {name!r} is {tensor.dtype}{list(tensor.shape)}, "
            f"got {value.dtype}{list(value.shape)}"
        )
    return value


def _scalar(array: Array, *, unsigned: bool = False) -> int:
    value = array.reshape(-1)[:1]
    return int(_as_unsigned(value)[0] if unsigned else value[0])


def _as_unsigned(array: Array) -> Array:
    """The same bits as an unsigned type."""
    return array.view(np.dtype(f"uint{array.dtype.itemsize * 8}"))


def _matmul_exact(a: Array, b: Array) -> Int:
    """a @ b through float64: exact while every sum stays below 2^53 (9-bit operands: K < 2^36)."""
    product = np.asarray(a, np.float64) @ np.asarray(b, np.float64)
    return wrap32(product.astype(np.int64))


def _pads(op: Op) -> tuple[tuple[int, int], ...]:
    top, bottom, left, right = op.attributes["pad"]
    return ((0, 0), (top, bottom), (left, right), (0, 0))


def _windows(x: Array, kernel: Any, stride: Any, dilation: Any = (1, 1)) -> Array:
    """Windows of padded NHWC `x`: [n, oh, ow, c, kh, kw], a view."""
    reach = tuple((k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True))
    # NumPy's stub knows only a single axis, the function takes several.
    view: Array = sliding_window_view(x, reach, axis=(1, 2))  # type: ignore[call-overload]
    return view[:, :: stride[0], :: stride[1], :, :: dilation[0], :: dilation[1]]


def _conv2d(op: Op, args: list[Array], _: str) -> Int:
    x, weight, bias, input_zp, weight_zp = args
    oc, kh, kw, ic = weight.shape
    centred = np.pad(x.astype(np.int16) - _scalar(input_zp), _pads(op))
    windows = _windows(centred, (kh, kw), op.attributes["stride"], op.attributes["dilation"])
    n, oh, ow = windows.shape[:3]
    columns = windows.transpose(0, 1, 2, 4, 5, 3).reshape(n * oh * ow, kh * kw * ic)
    matrix = (weight.astype(np.int16) - _scalar(weight_zp)).reshape(oc, -1).T
    return wrap32(_matmul_exact(columns, matrix) + bias).reshape(n, oh, ow, oc)


def _depthwise_conv2d(op: Op, args: list[Array], _: str) -> Int:
    x, weight, bias, input_zp, weight_zp = args
    kh, kw, channels, multiplier = weight.shape
    centred = np.pad(x.astype(np.int64) - _scalar(input_zp), _pads(op))
    windows = _windows(centred, (kh, kw), op.attributes["stride"], op.attributes["dilation"])
    taps = weight.astype(np.int64) - _scalar(weight_zp)
    n, oh, ow = windows.shape[:3]
    out = np.zeros((n, oh, ow, channels, multiplier), np.int64)
    for ky, kx in np.ndindex(kh, kw):  # one pass over the output per tap needs no im2col
        out += windows[..., ky, kx, None] * taps[ky, kx]
    return wrap32(out.reshape(n, oh, ow, channels * multiplier) + bias)


def _matmul(op: Op, args: list[Array], _: str) -> Int:
    a, b, a_zp, b_zp = args
    return _matmul_exact(a.astype(np.int16) - _scalar(a_zp), b.astype(np.int16) - _scalar(b_zp))


def _max_pool2d(op: Op, args: list[Array], dtype: str) -> Int:
    # The lowest value of the type never wins against an element, and every window has one.
    padded = np.pad(args[0].astype(np.int64), _pads(op), constant_values=_LIMITS[dtype][0])
    windows = _windows(padded, op.attributes["kernel"], op.attributes["stride"])
    return np.asarray(windows.max(axis=(4, 5)))


def _avg_pool2d(op: Op, args: list[Array], dtype: str) -> Int:
    x, input_zp, output_zp = args
    kernel, stride = op.attributes["kernel"], op.attributes["stride"]
    centred = np.pad(x.astype(np.int64) - _scalar(input_zp), _pads(op))
    inside = np.pad(np.ones((1, *x.shape[1:3], 1), np.int64), _pads(op))
    sums = _windows(centred, kernel, stride).sum(axis=(4, 5))
    counts = _windows(inside, kernel, stride).sum(axis=(4, 5))
    scales = {int(c): reciprocal_scale(int(c)) for c in np.unique(counts)}
    multiplier = np.vectorize(lambda c: scales[c][0], otypes=[np.int64])(counts)
    shift = np.vectorize(lambda c: scales[c][1], otypes=[np.int64])(counts)
    return np.clip(
        apply_scale(wrap32(sums), multiplier, shift) + _scalar(output_zp), *_LIMITS[dtype]
    )


def _rescale(op: Op, args: list[Array], dtype: str) -> Int:
    x, multiplier, shift, input_zp, output_zp = args
    from_unsigned, to_unsigned = op.attributes["input_unsigned"], op.attributes["output_unsigned"]
    value = (_as_unsigned(x) if from_unsigned else x).astype(np.int64)
    value -= _scalar(input_zp, unsigned=from_unsigned)
    low, high = _LIMITS[dtype]
    if to_unsigned:
        low, high = 0, high - low
    scaled = apply_scale(value, multiplier.astype(np.int64), shift.astype(np.int64))
    return np.clip(scaled + _scalar(output_zp, unsigned=to_unsigned), low, high)


def _clamp(op: Op, args: list[Array], _: str) -> Int:
    low, high = op.attributes["min_val"], op.attributes["max_val"]
    return np.clip(args[0].astype(np.int64), low, high)


def _binary(function: Callable[[Int, Int], Int]) -> Callable[[Op, list[Array], str], Int]:
    def run(op: Op, args: list[Array], _: str) -> Int:
        return wrap32(function(args[0].astype(np.int64), args[1].astype(np.int64)))

    return run


def _table(op: Op, args: list[Array], _: str) -> Array:
    return np.asarray(args[1][args[0].astype(np.int64) + 128])


def _reshape(op: Op, args: list[Array], _: str) -> Array:
    return args[0].reshape(tuple(args[1]))


def _transpose(op: Op, args: list[Array], _: str) -> Array:
    return args[0].transpose(op.attributes["perms"])


def _pad(op: Op, args: list[Array], _: str) -> Array:
    x, padding, value = args
    return np.pad(x, padding.reshape(-1, 2), constant_values=_scalar(value))


def _slice(op: Op, args: list[Array], _: str) -> Array:
    x, start, size = args
    return np.asarray(x[tuple(slice(a, a + n) for a, n in zip(start, size, strict=True))])


def _identity(op: Op, args: list[Array], _: str) -> Array:
    return args[0]


_EVALUATE: dict[str, Callable[[Op, list[Array], str], Array]] = {
    "CONV2D": _conv2d,
    "DEPTHWISE_CONV2D": _depthwise_conv2d,
    "MATMUL": _matmul,
    "MAX_POOL2D": _max_pool2d,
    "AVG_POOL2D": _avg_pool2d,
    "ADD": _binary(np.add),
    "SUB": _binary(np.subtract),
    "MAXIMUM": _binary(np.maximum),
    "MINIMUM": _binary(np.minimum),
    "RESCALE": _rescale,
    "CLAMP": _clamp,
    "TABLE": _table,
    "RESHAPE": _reshape,
    "TRANSPOSE": _transpose,
    "PAD": _pad,
    "SLICE": _slice,
    "IDENTITY": _identity,
}

"""Convolutions, MATMUL and the pools; products go through float64, where every sum is exact."""

from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from spec.numerics import apply_scale, reciprocal_scale, wrap32
from sw.compiler.tosa.nodes import Op
from sw.compiler.tosa.semantics.arrays import LIMITS, Array, Int, scalar


def _matmul_exact(a: Array, b: Array) -> Int:
    """a @ b through float64: exact while every sum stays below 2^53 (9-bit operands: K < 2^36)."""
    product = np.asarray(a, np.float64) @ np.asarray(b, np.float64)
    return wrap32(product.astype(np.int64))


def _pads(op: Op) -> list[tuple[int, int]]:
    """Attribute `pad` as a pair for each dimension of the input."""
    pad = op.attributes["pad"]
    return [(0, 0), *zip(pad[::2], pad[1::2], strict=True), (0, 0)]


def _windows(x: Array, kernel: Any, stride: Any, dilation: Any) -> Array:
    """Windows of padded N…C `x`: [n, *output sizes, c, *kernel], a view."""
    reach = tuple((k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True))
    axes = tuple(range(1, 1 + len(reach)))
    # NumPy's stub knows only a single axis, the function takes several.
    view: Array = sliding_window_view(x, reach, axis=axes)  # type: ignore[call-overload]
    steps = tuple(slice(None, None, s) for s in stride)
    return view[(slice(None), *steps, slice(None), *(slice(None, None, d) for d in dilation))]


def conv(op: Op, args: list[Array], _: str) -> Int:
    """CONV2D and CONV3D, whose weights are [OC, *kernel, IC]."""
    x, weight, bias, input_zp, weight_zp = args
    oc, *kernel, ic = weight.shape
    centred = np.pad(x.astype(np.int16) - scalar(input_zp), _pads(op))
    windows = _windows(centred, kernel, op.attributes["stride"], op.attributes["dilation"])
    sizes, rank = windows.shape[: 1 + len(kernel)], len(kernel)
    order = (*range(1 + rank), *range(2 + rank, 2 + 2 * rank), 1 + rank)
    columns = windows.transpose(order).reshape(int(np.prod(sizes)), int(np.prod(kernel)) * ic)
    matrix = (weight.astype(np.int16) - scalar(weight_zp)).reshape(oc, -1).T
    return wrap32(_matmul_exact(columns, matrix) + bias).reshape(*sizes, oc)


def depthwise_conv2d(op: Op, args: list[Array], _: str) -> Int:
    x, weight, bias, input_zp, weight_zp = args
    kh, kw, channels, multiplier = weight.shape
    centred = np.pad(x.astype(np.int64) - scalar(input_zp), _pads(op))
    windows = _windows(centred, (kh, kw), op.attributes["stride"], op.attributes["dilation"])
    taps = weight.astype(np.int64) - scalar(weight_zp)
    n, oh, ow = windows.shape[:3]
    out = np.zeros((n, oh, ow, channels, multiplier), np.int64)
    for ky, kx in np.ndindex(kh, kw):  # one pass over the output per tap needs no im2col
        out += windows[..., ky, kx, None] * taps[ky, kx]
    return wrap32(out.reshape(n, oh, ow, channels * multiplier) + bias)


def transpose_conv2d(op: Op, args: list[Array], _: str) -> Int:
    x, weight, bias, input_zp, weight_zp = args
    oc, kh, kw, _ic = weight.shape
    sy, sx = op.attributes["stride"]
    top, bottom, left, right = op.attributes["out_pad"]
    n, h, w, _ = x.shape
    taps = weight.astype(np.int64) - scalar(weight_zp)
    centred = x.astype(np.int64) - scalar(input_zp)
    # The whole plane that the kernels touch; out_pad then adds to it or cuts from it.
    plane = np.zeros((n, (h - 1) * sy + kh, (w - 1) * sx + kw, oc), np.int64)
    for ky, kx in np.ndindex(kh, kw):
        part = plane[:, ky : ky + (h - 1) * sy + 1 : sy, kx : kx + (w - 1) * sx + 1 : sx]
        part += _matmul_exact(centred, taps[:, ky, kx].T)
    for axis, (start, end) in ((1, (top, bottom)), (2, (left, right))):
        plane = _extend(plane, axis, start, end)
    return wrap32(plane + bias)


def _extend(x: Array, axis: int, start: int, end: int) -> Array:
    """Zeros added at both ends of `axis`; negative counts cut."""
    widths = [(0, 0)] * x.ndim
    widths[axis] = (max(0, start), max(0, end))
    grown = np.pad(x, widths)
    kept = slice(max(0, -start), grown.shape[axis] - max(0, -end))
    return grown[(slice(None),) * axis + (kept,)]


def matmul(op: Op, args: list[Array], _: str) -> Int:
    a, b, a_zp, b_zp = args
    return _matmul_exact(a.astype(np.int16) - scalar(a_zp), b.astype(np.int16) - scalar(b_zp))


def max_pool2d(op: Op, args: list[Array], dtype: str) -> Int:
    # The lowest value of the type never wins against an element, and every window has one.
    padded = np.pad(args[0].astype(np.int64), _pads(op), constant_values=LIMITS[dtype][0])
    windows = _windows(padded, op.attributes["kernel"], op.attributes["stride"], (1, 1))
    return np.asarray(windows.max(axis=(4, 5)))


def avg_pool2d(op: Op, args: list[Array], dtype: str) -> Int:
    x, input_zp, output_zp = args
    kernel, stride = op.attributes["kernel"], op.attributes["stride"]
    centred = np.pad(x.astype(np.int64) - scalar(input_zp), _pads(op))
    inside = np.pad(np.ones((1, *x.shape[1:3], 1), np.int64), _pads(op))
    sums = _windows(centred, kernel, stride, (1, 1)).sum(axis=(4, 5))
    counts = _windows(inside, kernel, stride, (1, 1)).sum(axis=(4, 5))
    scales = {int(c): reciprocal_scale(int(c)) for c in np.unique(counts)}
    multiplier = np.vectorize(lambda c: scales[c][0], otypes=[np.int64])(counts)
    shift = np.vectorize(lambda c: scales[c][1], otypes=[np.int64])(counts)
    return np.clip(apply_scale(wrap32(sums), multiplier, shift) + scalar(output_zp), *LIMITS[dtype])

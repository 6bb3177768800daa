"""Operands of products with 16 bits: two int8 tensors that one product reads.

x = δ · (high + low / FINER), with `high` the value in int8 and `low` what rounding took from it.
Both are operands of one product, side by side, with the weights W and W / FINER: no other
accumulator, and no second pass over the results. Rounding W / FINER costs as much as rounding
`low`, so that together about 11 bits remain of the 16.
"""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from torch.fx import Node

from sw.compiler.frontend.building import Value
from sw.compiler.frontend.importer import Importer
from sw.compiler.frontend.quantization.formats import FINE
from sw.compiler.frontend.quantization.precise import FINER

Float = NDArray[np.float64]


def halves(im: Importer, source: Node) -> tuple[Value, Value]:
    """(high, low) of a value: int8 with the same zero point."""
    want = im.formats.high(source)
    value = im.convert(im.value(source), im.formats.fine(source), f"{source.name}_fine")
    high = im.convert(value, want, f"{source.name}_high")
    if high.tensor not in im.lows:
        zero = want.zero_point
        taken = im.rescale(high.tensor, float(FINE), "int32", input_zp=zero)
        wide = im.op(None, "CAST", [value.tensor], name=f"{source.name}_wide", out_dtype="int32")
        rest = im.op(None, "SUB", [wide, taken], name=f"{source.name}_rest")
        name = f"{source.name}_low"
        im.lows[high.tensor] = im.rescale(rest, FINER / FINE, "int8", output_zp=zero, name=name)
    return high, replace(high, tensor=im.lows[high.tensor])


def low_weights(weights: Float, scale: Float) -> Float:
    """Integers for `low`, of real weights [out, …] and the scale of each output."""
    shaped = scale.reshape(-1, *[1] * (weights.ndim - 1))
    return np.asarray(np.rint(weights / FINER / shaped), np.float64)


def by_channels(im: Importer, tensors: tuple[str, str]) -> str:
    """Both halves side by side in the innermost dimension."""
    axis = len(im.graph.tensors[tensors[0]].shape) - 1
    return im.concat(im.current, tensors, axis)


def by_rows(im: Importer, tensors: tuple[str, str]) -> str:
    """[N, 2·H, W, C]: a row of the low half behind each of the high one."""
    n, h, w, c = im.graph.tensors[tensors[0]].shape
    return im.reshaped(im.concat(im.current, tensors, 2), (n, 2 * h, w, c))


def interleaved(high: Float, low: Float) -> Float:
    """Kernels [out, in, rows, columns] as those of `by_rows`."""
    out, inner, rows, columns = high.shape
    return np.stack([high, low], axis=3).reshape(out, inner, 2 * rows, columns)

"""Operands of products with 16 bits: two int8 tensors that one product reads.

x = δ · (high + low / n), with `high` the value in int8 and `low` what rounding took from it.

`int16`: both are operands of one product, side by side, with the weights W and W / n: no other
accumulator, and no second pass over the results. Rounding W / n costs as much as rounding `low`, so
that together about 11 bits remain of the 16.

`int16x16`: weights have halves too, W = high + low / n with n = `FINE`. One product has the high
halves of both; a second one, in steps n times as fine, high · low and low · high. low · low is less
than the rounding of the 16 bits.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch.fx import Node

from sw.compiler.frontend.building import Value
from sw.compiler.frontend.importer import Importer
from sw.compiler.frontend.quantization.formats import Format
from sw.compiler.frontend.quantization.precise import FINE, FINER
from sw.compiler.frontend.quantization.precision import Width

Float = NDArray[np.float64]


def halves(im: Importer, source: Node, width: Width) -> tuple[Value, Value]:
    """(high, low) of a value: int8 with the same zero point."""
    value = im.convert(im.value(source), im.formats.fine(source), f"{source.name}_fine")
    return split(im, value, im.formats.high(source), width, source.name)


def split(
    im: Importer, value: Value, want: Format, width: Width, name: str
) -> tuple[Value, Value]:  # fmt: skip
    """(high, low) of an int16 value. `want`: of the high half, in steps of `FINE` of the value."""
    high = im.convert(value, want, f"{name}_high")
    key = high.tensor, FINER[width]
    if key not in im.lows:
        zero = want.zero_point
        taken = im.rescale(high.tensor, float(FINE), "int32", input_zp=zero)
        wide = im.op(None, "CAST", [value.tensor], name=f"{name}_wide", out_dtype="int32")
        rest = im.op(None, "SUB", [wide, taken], name=f"{name}_rest")
        ratio = FINER[width] / FINE
        im.lows[key] = im.rescale(rest, ratio, "int8", output_zp=zero, name=f"{name}_low")
    return high, replace(high, tensor=im.lows[key])


def halves_of_constant(im: Importer, source: Node, real: Float) -> tuple[Value, Value]:
    """(high, low) of a constant, in steps that differ by `FINE`."""
    form = im.formats.symmetric(source)
    step = float(np.max(form.scale))
    high = np.clip(np.rint(real / step), -127, 127)
    parts = high * step, (real - high * step) * FINE
    first, second = (im.quantized(f"{source.name}_half", part, form) for part in parts)
    return first, second


@dataclass(frozen=True, slots=True, kw_only=True)
class Product:
    """The weights of one product. high, low: for those halves; None: it does not read `low`.

    steps: of its results for one of the layer's.
    """

    high: NDArray[Any]
    low: NDArray[Any] | None = None
    steps: int = 1


def products(
    width: Width, real: Float, integers: NDArray[Any], scale: Float, zero_point: int = 0
) -> list[Product]:
    """What a layer adds up, of its weights [out, …] as int8 and the scale of each output.

    real: what `integers`, less the zero point, times the scale are rounded from.
    """
    if width == "int8":
        return [Product(high=integers)]
    steps = real / scale.reshape(-1, *[1] * (real.ndim - 1))
    if width == "int16":
        low = np.rint(steps / FINER[width]) + zero_point
        return [Product(high=integers, low=low)]
    rest = np.rint((steps - integers + zero_point) * FINE) + zero_point
    return [Product(high=integers), Product(high=rest, low=integers, steps=FINE)]


def added(im: Importer, node: Node, sums: Sequence[str], steps: Sequence[int]) -> str:
    """The sum of accumulators, in the layer's steps. `steps`: of each, for one of the layer's."""
    first, *others = (
        tensor if finer == 1 else im.rescale(tensor, 1 / finer, "int32")
        for tensor, finer in zip(sums, steps, strict=True)
    )
    return reduce(lambda total, other: im.op(node, "ADD", [total, other]), others, first)


def by_channels(im: Importer, tensors: Sequence[str]) -> str:
    """Both halves side by side in the innermost dimension."""
    axis = len(im.graph.tensors[tensors[0]].shape) - 1
    return im.concat(im.current, tensors, axis)


def by_rows(im: Importer, tensors: Sequence[str]) -> str:
    """[N, 2·H, W, C]: a row of the low half behind each of the high one."""
    n, h, w, c = im.graph.tensors[tensors[0]].shape
    return im.reshaped(im.concat(im.current, tensors, 2), (n, 2 * h, w, c))


def interleaved(high: Float, low: Float) -> Float:
    """Kernels [out, in, rows, columns] as those of `by_rows`."""
    out, inner, rows, columns = high.shape
    return np.stack([high, low], axis=3).reshape(out, inner, 2 * rows, columns)

"""Products of activations: one MATMUL of int8 operands, or of the halves of 16 bits."""

import math
from collections.abc import Sequence
from dataclasses import replace

from torch.fx import Node

from sw.compiler.frontend.building import Value
from sw.compiler.frontend.importer import Importer
from sw.compiler.frontend.layout import Layout
from sw.compiler.frontend.quantization.precise import FINE
from sw.compiler.frontend.rules.halves import added, halves, halves_of_constant

Operand = Sequence[Value]
"""int8, or the high and the low half of 16 bits."""


def operand(im: Importer, product: Node, source: Node) -> Operand:
    """What a product reads of `source`."""
    if product not in im.formats.precise:
        return (im.int8(source),)
    known = im.constant(source)
    if known is not None:
        return halves_of_constant(im, source, known)
    return halves(im, source, im.formats.precise[product])


def shaped(im: Importer, values: Operand, size: Sequence[int]) -> Operand:
    """Row-major values under another shape."""
    ordered = [im.ordered(value) for value in values]
    layout = Layout.of(size)
    return [replace(v, tensor=im.reshaped(v.tensor, size), layout=layout) for v in ordered]


def flat(im: Importer, values: Operand) -> Operand:
    """Row-major, with the leading dimensions as one."""
    *lead, m, k = values[0].shape
    return shaped(im, values, (math.prod(lead), m, k))


def permuted(values: Operand, axes: Sequence[int]) -> Operand:
    return [replace(value, layout=value.layout.permute(axes)) for value in values]


def product(im: Importer, node: Node, a: Operand, b: Operand, size: tuple[int, ...]) -> Value:
    """Row-major [B, M, K] times [B, K, N]: an int32 value of shape `size`.

    Of halves: high · high, and in finer steps high · low + low · high as one product.
    """
    sums, steps = [_matmul(im, node, a[0], b[0])], [1]
    if len(a) > 1:
        left = replace(a[0], tensor=im.concat(node, [v.tensor for v in a], 2))
        right = replace(b[0], tensor=im.concat(node, [v.tensor for v in reversed(b)], 1))
        sums, steps = [*sums, _matmul(im, node, left, right)], [1, FINE]
    out = im.reshaped(added(im, node, sums, steps), size)
    return Value(tensor=out, layout=Layout.of(size), scale=a[0].step * b[0].step)


def _matmul(im: Importer, node: Node, a: Value, b: Value) -> str:
    zero_points = (im.scalar(v.zero_point, "int8") for v in (a, b))
    return im.op(node, "MATMUL", [a.tensor, b.tensor, *zero_points])

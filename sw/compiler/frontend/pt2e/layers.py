"""Convolutions, linear layers and matrix products."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from torch.fx import Node

from sw.compiler.frontend.layout import Layout
from sw.compiler.frontend.pt2e.arguments import NHWC, args, argument, out_shape, pair
from sw.compiler.frontend.pt2e.importer import Importer, Item, Value
from sw.compiler.frontend.pt2e.pools import exact_windows


def _int8_weights(im: Importer, node: Node) -> tuple[np.ndarray[Any, Any], Any, int]:
    """(integers, scale per output channel or one, zero point) of operand 1."""
    weight = im.constant(node, args(node)[1])
    im.require(
        weight.integers is not None and weight.axis in (-1, 0),
        node,
        "weights are not quantized to int8 (per tensor, or per output channel)",
        "quantize the module with sw.compiler.frontend.quantizer.SystolaQuantizer",
    )
    assert weight.integers is not None
    return weight.integers, weight.scale, weight.zero_point


def _bias(im: Importer, node: Node, scale: Any, channels: int) -> str:
    """int32 bias in accumulator steps: PT2E's integers, or rounded from a float bias."""
    operand = argument(node, 2, "bias")
    values = np.zeros(channels, np.int64)
    if operand is not None:
        bias = im.constant(node, operand)
        values = np.rint(bias.real / scale).astype(np.int64)
        limit = (1 << 31) - 1
        im.require(
            int(np.abs(values).max()) <= limit, node, "the bias does not fit in the accumulator"
        )
    return im.graph.add_constant(f"{node.name}_bias", values, "int32")


def _weighted(
    im: Importer,
    node: Node,
    tensor: str,
    x: Value,
    weight: np.ndarray[Any, Any],
    attributes: dict[str, Any],
    kind: str = "CONV2D",
) -> tuple[str, Any]:
    """A convolution of an NHWC tensor, weights as TOSA wants them: (int32 tensor, scale of its
    steps, per output channel).
    """
    integers, weight_scale, weight_zp = _int8_weights(im, node)
    scale = x.scale * weight_scale
    operands = [
        tensor,
        im.graph.add_constant(f"{node.name}_weight", weight, "int8"),
        _bias(im, node, scale, integers.shape[0]),
        im.scalar(x.zero_point, "int8"),
        im.scalar(weight_zp, "int8"),
    ]
    return im.op(node, kind, operands, attributes), scale


def conv2d(im: Importer, node: Node) -> Item:
    stride, dilation = pair(argument(node, 3, "stride", 1)), pair(argument(node, 5, "dilation", 1))
    return _convolution(im, node, stride, argument(node, 4, "padding", 0), dilation, 6)


def aten_convolution(im: Importer, node: Node) -> Item:
    im.require(not args(node)[6], node, "transposed convolution is not supported")
    return _convolution(im, node, pair(args(node)[3]), args(node)[4], pair(args(node)[5]), 8)


def _convolution(
    im: Importer,
    node: Node,
    stride: tuple[int, int],
    padding: Any,
    dilation: tuple[int, int],
    groups_at: int,
) -> Item:
    x = im.int8(node, args(node)[0])
    weight = _int8_weights(im, node)[0]
    im.require(
        len(x.shape) == 4 and weight.ndim == 4,
        node,
        f"convolution of {len(x.shape)} dimensions: only two-dimensional batches [N,C,H,W]",
    )
    groups = argument(node, groups_at, "groups", 1)
    im.require(
        groups in (1, x.shape[1]),
        node,
        f"groups={groups} of {x.shape[1]} channels: only groups=1 and depthwise convolutions "
        "(one group per input channel)",
        "split the channels into convolutions of their own, or use groups=1",
    )
    reach = [(k - 1) * d + 1 for k, d in zip(weight.shape[2:], dilation, strict=True)]
    pads = _same_padding(padding, reach) if isinstance(padding, str) else pair(padding)
    ends = [pads] * 2 if not isinstance(padding, str) else _split(pads)
    x = im.ordered(node, x, NHWC)
    tensor, begin, end = _absorb_pad(im, x, ends[0], ends[1])
    tensor, pad = exact_windows(im, node, tensor, reach, stride, list(zip(begin, end, strict=True)))
    attributes = {"pad": pad, "stride": stride, "dilation": dilation}
    kind, weight = _tosa_weight(weight, groups)
    out, scale = _weighted(im, node, tensor, x, weight, attributes, kind)
    return Value(tensor=out, layout=Layout.of(out_shape(node), NHWC), scale=scale)


def _tosa_weight(weight: np.ndarray[Any, Any], groups: int) -> tuple[str, np.ndarray[Any, Any]]:
    """(operator, its weights) from PyTorch's [out, in/groups, kh, kw]."""
    if groups == 1:
        return "CONV2D", weight.transpose(0, 2, 3, 1)
    split = weight.reshape(groups, -1, *weight.shape[2:])  # [C, M, kh, kw]
    return "DEPTHWISE_CONV2D", split.transpose(2, 3, 0, 1)


def _same_padding(padding: str, reach: Sequence[int]) -> tuple[int, int]:
    return (0, 0) if padding == "valid" else (reach[0] - 1, reach[1] - 1)


def _split(total: tuple[int, int]) -> list[tuple[int, int]]:
    """PyTorch's 'same': the smaller half in front."""
    begin = (total[0] // 2, total[1] // 2)
    return [begin, (total[0] - begin[0], total[1] - begin[1])]


def _absorb_pad(
    im: Importer, x: Value, begin: Sequence[int], end: Sequence[int]
) -> tuple[str, list[int], list[int]]:
    """Move a PAD with the zero point on height and width into the convolution's own padding."""
    producer = im.graph.producers().get(x.tensor)
    if producer is None or producer.kind != "PAD":
        return x.tensor, list(begin), list(end)
    pads = im.graph.constant(producer.inputs[1]).reshape(-1, 2)
    value = int(im.graph.constant(producer.inputs[2]).reshape(-1)[0])
    if len(pads) != 4 or pads[[0, 3]].any() or value != x.zero_point:
        return x.tensor, list(begin), list(end)
    (top, bottom), (left, right) = pads[1:3].tolist()
    return (
        producer.inputs[0],
        [begin[0] + top, begin[1] + left],
        [end[0] + bottom, end[1] + right],
    )


def linear(im: Importer, node: Node) -> Item:
    return _fully_connected(im, node, im.int8(node, args(node)[0]), _int8_weights(im, node)[0])


def _fully_connected(im: Importer, node: Node, x: Value, weight: np.ndarray[Any, Any]) -> Item:
    """A 1×1 CONV2D over rows; weights follow the order of the features in memory."""
    axis = len(x.shape) - 1
    factors = x.layout.suffix(axis)
    if factors is None:
        x = im.ordered(node, x, range(len(x.shape)))
        factors = x.layout.suffix(axis)
    assert factors is not None
    channels, features = weight.shape
    own = [f for f in x.layout.dims[axis] if x.layout.sizes[f] > 1]
    sizes = [x.layout.sizes[f] for f in own]
    perm = [1 + own.index(f) for f in factors]
    columns = weight.reshape(channels, *sizes).transpose(0, *perm).reshape(channels, features)
    rows = math.prod(x.shape[:-1])
    tensor = im.reshaped(node, x.tensor, (1, rows, 1, features))
    out, scale = _weighted(im, node, tensor, x, columns.reshape(channels, 1, 1, features), {})
    layout = x.layout.replace_suffix(channels)
    # The channels are the last axis, so that a per-channel RESCALE applies.
    return Value(tensor=out, layout=layout, scale=scale)


def matmul(im: Importer, node: Node) -> Item:
    a, b = (im.int8(node, operand) for operand in args(node)[:2])
    im.require(
        len(a.shape) == len(b.shape) >= 2 and a.shape[:-2] == b.shape[:-2],
        node,
        f"matrix product of {list(a.shape)} and {list(b.shape)}: equal leading dimensions needed",
        "expand the smaller operand, or use a linear layer for constant weights",
    )
    a, b = (im.ordered(node, v, range(len(v.shape))) for v in (a, b))
    batch = math.prod(a.shape[:-2])
    operands = [im.reshaped(node, v.tensor, (batch, *v.shape[-2:])) for v in (a, b)]
    operands += [im.scalar(v.zero_point, "int8") for v in (a, b)]
    out = im.op(node, "MATMUL", operands)
    return Value(tensor=out, layout=Layout.of(out_shape(node)), scale=a.scale * b.scale)

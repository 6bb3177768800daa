"""Limits of operators as code: '' where a node lies inside, else the reason why not."""

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import torch
from torch.fx import Node

from sw.compiler.frontend.nodes import arguments, is_float, kind, shape

MOST_PRODUCTS = ((1 << 31) - 1) >> 15
"""Products of two int8, of which one is less its zero point, whose sum always fits in int32."""


def nothing(_: Node) -> str:
    return ""


def alpha(node: Node) -> str:
    by = arguments(node).get("alpha", 1)
    return "" if by == 1 else f"alpha={by}: only 1; multiply the operand first"


def whole_sums(node: Node) -> str:
    return "whole sums of float values" if is_float(node.args[0]) and not is_float(node) else ""


def integer_division(node: Node) -> str:
    if any(is_float(a) or isinstance(a, float) for a in node.args[:2]):
        return "rounded division of float values by a tensor"
    return "" if node.kwargs.get("rounding_mode") == "trunc" else "integer division, rounded down"


def one_variable(node: Node) -> str:
    """Powers are tables: of one value."""
    variable = [a for a in node.args[:2] if len(shape(a)) or _reads_inputs(a)]
    return "" if len(variable) < 2 else "power of two tensors: only one of them may vary"


def _reads_inputs(value: Any) -> bool:
    """Whether a value changes from call to call."""
    if not isinstance(value, Node):
        return False
    return value.op == "placeholder" or any(map(_reads_inputs, value.all_input_nodes))


def addmm(node: Node) -> str:
    factors = [arguments(node).get(name, 1) for name in ("alpha", "beta")]
    if factors != [1, 1]:
        return f"alpha, beta = {factors}: only 1"
    return _sums(shape(node.args[-1])[-2])


def _sums(products: int) -> str:
    most = f"at most {MOST_PRODUCTS:,} fit in int32; add up the products of parts"
    return "" if products <= MOST_PRODUCTS else f"sums of {products:,} products: {most}"


def matmul(node: Node) -> str:
    a, b = shape(node.args[0]), shape(node.args[1])
    if len(b) == 2 and len(a) >= 2:
        return _sums(b[-2])
    if len(a) == len(b) >= 2 and a[:-2] == b[:-2]:
        return _sums(b[-2])
    return (
        f"matrix product of {list(a)} and {list(b)}: equal leading dimensions needed; expand the "
        "smaller operand, or use a linear layer for constant weights"
    )


def attention(node: Node) -> str:
    q, k = shape(node.args[0]), shape(node.args[1])
    if len(q) != 4 or len(k) != 4:
        return f"attention of {len(q)} dimensions: only [batch, heads, tokens, size]"
    return _sums(k[2]) if q[1] % k[1] == 0 else f"{q[1]} heads and {k[1]} heads of keys"


def convolution(node: Node) -> str:
    rank = len(shape(node))
    if rank not in (3, 4, 5):
        return f"convolution of {rank} dimensions: only [N, C, W], [N, C, H, W] and [N, C, D, H, W]"
    if rank == 5 and arguments(node).get("transposed"):
        return "transposed convolution of three spatial dimensions as aten.convolution"
    return ""


def inference(node: Node) -> str:
    training = arguments(node).get("training", False)
    return "batch norm in training mode" if training else ""


def _images(node: Node) -> str:
    rank = len(shape(node))
    return "" if rank == 4 else f"{rank} dimensions: only [N, C, H, W]"


def pair(value: Any) -> tuple[int, int]:
    """An attribute of rows and of columns."""
    items = [value] if isinstance(value, int) else list(value)
    return int(items[0]), int(items[-1])


def max_pool(node: Node) -> str:
    dilation = arguments(node)["dilation"]
    if pair(dilation) != (1, 1):
        return f"max pool with dilation {dilation}: only 1"
    return _images(node)


def avg_pool(node: Node) -> str:
    given = arguments(node)
    if given["ceil_mode"]:
        return "average pool with ceil_mode=True: pad the input instead"
    divisor = given["divisor_override"]
    if divisor not in (None, math.prod(pair(given["kernel_size"]))):
        return f"average pool with divisor_override={divisor}"
    return _images(node)


def adaptive_pool(node: Node) -> str:
    before, after = shape(node.args[0])[-2:], shape(node)[-2:]
    if any(s % o for s, o in zip(before, after, strict=True)):
        return (
            f"adaptive average pool from {list(before)} to {list(after)}: sizes must divide evenly"
        )
    return _images(node)


def upsample(node: Node) -> str:
    """What TOSA's RESIZE allows: rational factors above 1/16 of numerators up to 2048."""
    before, after = shape(node.args[0])[2:], shape(node)[2:]
    if max(*before, *after) >= _SIDE:
        return f"resizing from {list(before)} to {list(after)}: sides below {_SIDE}"
    for step in resize_steps(node):
        if step.numerator > _NUMERATOR or step.denominator >= 16 * step.numerator:
            return (
                f"resizing from {list(before)} to {list(after)}: factors above 1/16 whose "
                f"numerator is at most {_NUMERATOR}"
            )
    return "" if len(before) in (1, 2) else f"{len(before)} spatial dimensions: only one or two"


_SIDE, _NUMERATOR = 16384, 2048


@dataclass(frozen=True, slots=True, kw_only=True)
class ResizeStep:
    """Output i of a dimension lies at (i · denominator + offset) / numerator of the input."""

    numerator: int
    denominator: int
    offset: int


def resize_steps(node: Node) -> list[ResizeStep]:
    """The steps of each spatial dimension of a resize, PyTorch's spelling of it."""
    name, given = str(node.target), arguments(node)
    nearest = "nearest" in name
    before, after = shape(node.args[0])[2:], shape(node)[2:]
    aligned, scales = given.get("align_corners", False), given["scale_factors"]
    found = []
    for i, (size, out) in enumerate(zip(before, after, strict=True)):
        if aligned:
            found.append(_aligned(size, out))
            continue
        ratio = Fraction(size, out)
        if scales is not None and scales[i]:
            ratio = Fraction(1 / scales[i]).limit_denominator(_NUMERATOR // 2)
        n, d = 2 * ratio.denominator, 2 * ratio.numerator
        # Half-pixel centres; for the nearest value of PyTorch's older kind the left edge counts.
        edge = nearest and "exact" not in name
        offset = (2 if edge else d) // 2 - n // 2
        found.append(ResizeStep(numerator=n, denominator=d, offset=offset))
    return found


def _aligned(size: int, out: int) -> ResizeStep:
    """Corners on corners; of a single row or column there is one neighbour only."""
    if size == 1 or out == 1:
        return ResizeStep(numerator=max(out, 1), denominator=1, offset=0)
    ratio = Fraction(size - 1, out - 1)
    return ResizeStep(numerator=ratio.denominator, denominator=ratio.numerator, offset=0)


def last_axis(node: Node) -> str:
    axis, rank = node.args[1], len(shape(node))
    return "" if axis in (-1, rank - 1) else f"softmax along dimension {axis}: only the last one"


def layer_norm(node: Node) -> str:
    sizes = node.args[1]
    assert isinstance(sizes, list | tuple)
    last = tuple(sizes) == shape(node)[-1:]
    return "" if last else f"layer norm over {list(sizes)}: only the last dimension"


def dropout(node: Node) -> str:
    training = arguments(node).get("train", False)
    return "dropout in training mode" if training else ""


def precision(node: Node) -> str:
    kinds = {torch.float32, torch.bool}
    for at in (node, *node.all_input_nodes):
        dtype = at.meta["val"].dtype
        if dtype.is_complex or (dtype.is_floating_point and dtype not in kinds):
            return f"{dtype}: only float32, integers and bool"
    return ""


def one_index(node: Node) -> str:
    indices = node.args[1]
    assert isinstance(indices, list | tuple)
    given = [i for i in indices if isinstance(i, Node)]
    if len(given) != 1:
        return f"{len(given)} index tensors: only one"
    mask = kind(given[0]) == "bool"
    return "indices of bool: the result's size depends on them" if mask else ""

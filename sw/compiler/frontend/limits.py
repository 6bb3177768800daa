"""Limits of operators as code: '' where a node lies inside, else the reason why not."""

import math
from typing import Any

import torch
from torch.fx import Node

from sw.compiler.frontend.operator_sets import aten


def argument(node: Node, index: int, name: str = "", default: Any = None) -> Any:
    """An argument by position or name."""
    if len(node.args) > index:
        return node.args[index]
    return node.kwargs.get(name, default)


def shape(node: Any) -> tuple[int, ...]:
    """The shape of a node's (first) result; () for a number."""
    value = node.meta.get("val") if isinstance(node, Node) else None
    if isinstance(value, tuple | list):
        value = value[0]
    return tuple(value.shape) if isinstance(value, torch.Tensor) else ()


def nothing(_: Node) -> str:
    return ""


def alpha(node: Node) -> str:
    by = node.kwargs.get("alpha", 1)
    return "" if by == 1 else f"alpha={by}: only 1; multiply the operand first"


def addmm(node: Node) -> str:
    factors = [node.kwargs.get(name, 1) for name in ("alpha", "beta")]
    return "" if factors == [1, 1] else f"alpha, beta = {factors}: only 1"


def matmul(node: Node) -> str:
    a, b = shape(node.args[0]), shape(node.args[1])
    if len(b) == 2 and len(a) >= 2:
        return ""
    if len(a) == len(b) >= 2 and a[:-2] == b[:-2]:
        return ""
    return (
        f"matrix product of {list(a)} and {list(b)}: equal leading dimensions needed; expand the "
        "smaller operand, or use a linear layer for constant weights"
    )


def attention(node: Node) -> str:
    q, k = shape(node.args[0]), shape(node.args[1])
    if len(q) != 4 or len(k) != 4:
        return f"attention of {len(q)} dimensions: only [batch, heads, tokens, size]"
    return "" if q[1] % k[1] == 0 else f"{q[1]} heads and {k[1]} heads of keys"


def convolution(node: Node) -> str:
    rank = len(shape(node))
    if rank not in (3, 4):
        return f"convolution of {rank} dimensions: only [N, C, W] and [N, C, H, W]"
    if node.target is aten.convolution.default and node.args[6]:
        dilation, groups = node.args[5], node.args[8]
        assert isinstance(dilation, list | tuple)
        if groups != 1 or any(d != 1 for d in dilation):
            return f"transposed convolution with groups={groups}, dilation={list(dilation)}: only 1"
    return ""


def inference(node: Node) -> str:
    training = node.target is aten.batch_norm.default and bool(node.args[5])
    return "batch norm in training mode" if training else ""


def _images(node: Node) -> str:
    rank = len(shape(node))
    return "" if rank == 4 else f"{rank} dimensions: only [N, C, H, W]"


def _pair(value: Any) -> tuple[int, int]:
    items = [value] if isinstance(value, int) else list(value)
    return int(items[0]), int(items[-1])


def max_pool(node: Node) -> str:
    dilation = argument(node, 4, "dilation", 1)
    if _pair(dilation) != (1, 1):
        return f"max pool with dilation {dilation}: only 1"
    return _images(node)


def avg_pool(node: Node) -> str:
    if argument(node, 4, "ceil_mode", False):
        return "average pool with ceil_mode=True: pad the input instead"
    divisor = argument(node, 6, "divisor_override")
    if divisor not in (None, math.prod(_pair(node.args[1]))):
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
    before, after = shape(node.args[0])[2:], shape(node)[2:]
    if any(a % b or a // b > 512 for a, b in zip(after, before, strict=True)):
        return f"resizing from {list(before)} to {list(after)}: only whole factors up to 512"
    aligned = "bilinear" in str(node.target) and bool(node.args[2])
    return "align_corners=True" if aligned else _images(node)


def last_axis(node: Node) -> str:
    axis, rank = node.args[1], len(shape(node))
    return "" if axis in (-1, rank - 1) else f"softmax along dimension {axis}: only the last one"


def layer_norm(node: Node) -> str:
    sizes = node.args[1]
    assert isinstance(sizes, list | tuple)
    last = tuple(sizes) == shape(node)[-1:]
    return "" if last else f"layer norm over {list(sizes)}: only the last dimension"


def dropout(node: Node) -> str:
    training = node.target is aten.dropout.default and bool(node.args[2])
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
    mask = given[0].meta["val"].dtype is torch.bool
    return "indices of bool: the result's size depends on them" if mask else ""

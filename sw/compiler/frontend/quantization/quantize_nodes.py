"""PT2E's quantize and dequantize nodes: grids of values, and parameters stored as integers.

Nodes are known by their names, so that reading a graph does not need torchao.
"""

from collections.abc import Mapping
from operator import attrgetter
from typing import Any, cast

import numpy as np
import torch
from torch.fx import GraphModule, Node

from sw.compiler.frontend.nodes import node_argument, permutation
from sw.compiler.frontend.operators import targets
from sw.compiler.frontend.quantization.values import Grid, Stored

_NAMESPACE = "quantized_decomposed."
_QUANTIZE = f"{_NAMESPACE}quantize_per_tensor.default"
_DEQUANTIZE = f"{_NAMESPACE}dequantize_per_tensor.default"
_DEQUANTIZE_CHANNELS = f"{_NAMESPACE}dequantize_per_channel.default"

_VIEWS, _PERMUTES = targets("view"), targets("permute")


def is_quantize(node: Node) -> bool:
    """Whether `node` rounds a value to a grid."""
    return str(node.target) == _QUANTIZE


def is_dequantize(node: Node) -> bool:
    """Whether `node` turns integers of one grid back into floats."""
    return str(node.target) == _DEQUANTIZE


def is_quantized_operator(node: Node) -> bool:
    """Whether `node` belongs to PT2E's namespace, known to this importer or not."""
    return str(node.target).startswith(_NAMESPACE)


def grid_of(node: Node) -> Grid:
    """The grid of a quantize node; that of uint8 as int8, 128 less.

    `ValueError` for other types, and for uint8 that is read as numbers.
    """
    given: Any = [*node.args, *(node.kwargs.get(k) for k in _KEYWORDS[len(node.args) :])]
    _, scale, zero_point, low, high, dtype = given[:6]
    shift = _SHIFTS.get(dtype)
    if shift is None or not -128 <= low - shift <= high - shift <= 127:
        raise ValueError(
            f"activations of type {dtype} in {low}…{high}: only int8 and uint8 are supported"
        )
    if shift and not all(is_dequantize(user) for user in node.users):
        raise ValueError("integers of type torch.uint8 that are not dequantized: int8 is supported")
    return Grid(
        scale=float(scale),
        zero_point=int(zero_point) - shift,
        low=int(low) - shift,
        high=int(high) - shift,
    )


_SHIFTS = {torch.int8: 0, torch.uint8: 128}
"""By type, how much less the NPU's int8 is."""


_KEYWORDS = ("input", "scale", "zero_point", "quant_min", "quant_max", "dtype")


def stored_parameters(constants: Mapping[Node, torch.Tensor]) -> dict[Node, Stored]:
    """The constants of a graph that are integers with scales, through views and permutations."""
    found: dict[Node, Stored] = {}
    for node in constants:
        stored = _stored(node, constants, found)
        if stored is not None:
            found[node] = stored
    return found


def _stored(
    node: Node, constants: Mapping[Node, torch.Tensor], found: Mapping[Node, Stored]
) -> Stored | None:
    if str(node.target) == _DEQUANTIZE:
        source, given, zero = node.args[:3]
        assert isinstance(source, Node) and isinstance(given, float | int)
        scale, zero_point = float(given), int(cast(int, zero))
        if is_quantize(source):  # exactly, not as float32 would round it
            real = constants[node_argument(source, 0)].double().numpy()
            grid = grid_of(source)
            steps = np.clip(np.rint(real / grid.scale) + grid.zero_point, grid.low, grid.high)
            return Stored(integers=steps.astype(np.int64), scale=scale, zero_point=grid.zero_point)
        shift = _SHIFTS.get(constants[source].dtype, 0)
        integers = constants[source].long().numpy() - shift
        return Stored(integers=integers, scale=scale, zero_point=zero_point - shift)
    if str(node.target) == _DEQUANTIZE_CHANNELS:
        return _by_channel(node, constants)
    source = node.args[0] if node.args else None
    if isinstance(source, Node) and source in found and node.op == "call_function":
        return _moved(node, found[source])
    return None


def _by_channel(node: Node, constants: Mapping[Node, torch.Tensor]) -> Stored | None:
    args: Any = node.args
    integers, scales = (constants[a].double().numpy() for a in args[:2])
    zeros = constants[args[2]].numpy() if isinstance(args[2], Node) else np.zeros(1)
    if zeros.any():  # PT2E's own asymmetric weights: their float values are quantized anew
        return None
    return Stored(integers=integers.astype(np.int64), scale=scales, axis=int(args[3]))


def _moved(node: Node, stored: Stored) -> Stored | None:
    shape = tuple(node.meta["val"].shape)
    if node.target in _VIEWS and stored.axis < 0:
        return Stored(
            integers=stored.integers.reshape(shape),
            scale=stored.scale,
            zero_point=stored.zero_point,
        )
    if node.target not in _PERMUTES:
        return None
    axes = permutation(node, stored.integers.ndim)
    return Stored(
        integers=stored.integers.transpose(axes),
        scale=stored.scale,
        zero_point=stored.zero_point,
        axis=axes.index(stored.axis) if stored.axis >= 0 else -1,
    )


def note_values(module: GraphModule) -> None:
    """Give the nodes that PT2E inserts the note of shape and type that others have (`val`)."""
    for node in module.graph.nodes:
        if node.meta.get("val") is not None:
            continue
        if node.op == "get_attr":
            node.meta["val"] = attrgetter(str(node.target))(module)
        elif node.op == "call_function" and is_quantized_operator(node):
            source = node_argument(node, 0).meta["val"]
            dtype = torch.int8 if "dequantize" not in str(node.target) else torch.float32
            node.meta["val"] = torch.empty(tuple(source.shape), dtype=dtype, device="meta")

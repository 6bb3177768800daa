"""Calibration of a float graph: how large each value gets, and which values never change."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.fx import GraphModule, Interpreter, Node

from sw.compiler.frontend.nodes import aten
from sw.compiler.frontend.operator_sets import CONVOLUTIONS, LINEAR, SAME
from sw.compiler.frontend.quantization.quantize_nodes import grid_of, is_dequantize, is_quantize
from sw.compiler.frontend.quantization.values import TINY

Float = NDArray[np.float64]


HUGE = 1e30
"""Values below −HUGE are masks: −∞, or the type's lowest value."""

MASKED = -128.0
"""What they count as: e^−128 is 0 in every format."""

ROWS = 128
"""Rows of a value that are kept as samples."""

_PER_CALL = 16


@dataclass(slots=True, kw_only=True)
class Images:
    """Channels of what convolutions read. least, most: of each channel, by call.

    mean, square: of values and of their squares, over all calls.
    """

    least: list[Float] = field(default_factory=list)
    most: list[Float] = field(default_factory=list)
    mean: Float
    square: Float

    @property
    def variance(self) -> Float:
        return np.maximum(self.square - np.square(self.mean), 0.0)

    @property
    def reach(self) -> Float:
        """From the least to the largest value of each channel, zero among them."""
        low, high = np.min(self.least, axis=0), np.max(self.most, axis=0)
        return np.asarray(np.maximum(high, 0.0) - np.minimum(low, 0.0), np.float64)

    def ends(self, factors: Float) -> list[tuple[float, float]]:
        """(least, largest) of all channels divided by `factors`, by call."""
        return [
            (float((low / factors).min()), float((high / factors).max()))
            for low, high in zip(self.least, self.most, strict=True)
        ]


@dataclass(slots=True, kw_only=True)
class Ranges:
    """By node: largest magnitude, the same by channel (last axis), values that are constant.

    least, most: the smallest and the largest value. ends: the same by call, [calls, 2].

    rows: samples of the rows of what linear layers read, [up to ROWS, channels]. images: channels
    of what convolutions read.
    """

    largest: dict[Node, float] = field(default_factory=dict)
    least: dict[Node, float] = field(default_factory=dict)
    most: dict[Node, float] = field(default_factory=dict)
    ends: dict[Node, list[tuple[float, float]]] = field(default_factory=dict)
    channels: dict[Node, Float] = field(default_factory=dict)
    constants: dict[Node, torch.Tensor] = field(default_factory=dict)
    rows: dict[Node, Float] = field(default_factory=dict)
    images: dict[Node, Images] = field(default_factory=dict)


class RangesNeededError(LookupError):
    """A range was asked for that no calibration has measured."""


class _Unmeasured(dict[Node, Any]):
    """Ranges that are known without calibration; asking for others is an error."""

    def __missing__(self, node: Node) -> Any:
        raise RangesNeededError(node.name)

    def get(self, node: Node, default: Any = None) -> Any:
        return self[node]


def unmeasured(module: GraphModule) -> Ranges:
    """Ranges of a quantized graph as its own grids tell them, without running it."""
    largest, least, most = _Unmeasured(), _Unmeasured(), _Unmeasured()
    for node in module.graph.nodes:
        if is_dequantize(node) and is_quantize(node.args[0]):
            try:
                ends = grid_of(node.args[0]).ends
            except ValueError:
                continue  # the planner refuses it, and names the node
            for each in (node, node.args[0]):
                least[each], most[each] = ends
                largest[each] = max(abs(least[each]), abs(most[each]))
    return Ranges(
        largest=largest,
        least=least,
        most=most,
        channels=_Unmeasured(),
        constants=constant_values(module, fixed_nodes(module)),
        rows=_Unmeasured(),
    )


def constant_values(module: GraphModule, fixed: Collection[Node]) -> dict[Node, torch.Tensor]:
    """The tensors that no input reaches."""
    interpreter = Interpreter(module)
    found: dict[Node, torch.Tensor] = {}
    with torch.no_grad():
        for node in module.graph.nodes:
            if node in fixed:
                value = interpreter.env[node] = interpreter.run_node(node)
                if isinstance(value, torch.Tensor):
                    found[node] = value.detach()
    return found


def fixed_nodes(module: GraphModule) -> set[Node]:
    """Nodes that no input of the model reaches: parameters, positions, masks of fixed shape."""
    fixed: set[Node] = set()
    for node in module.graph.nodes:
        made = node.op not in ("placeholder", "output") and not varies(node)
        if made and all(n in fixed for n in node.all_input_nodes):
            fixed.add(node)
    return fixed


def varies(node: Node) -> bool:
    """Whether an operator gives something else each time, or writes to its operands."""
    schema = getattr(node.target, "_schema", None)
    random = torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ())
    return random or bool(schema is not None and schema.is_mutable)


def _finite(value: torch.Tensor) -> torch.Tensor:
    """Values with masks as MASKED."""
    if float(value.min()) > -HUGE:
        return value
    return torch.where(value > -HUGE, value, torch.full_like(value, MASKED))


class _Recorder(Interpreter):
    def __init__(self, module: GraphModule, ranges: Ranges) -> None:
        super().__init__(module)
        self.ranges = ranges

    def run_node(self, n: Node) -> Any:
        if n in self.ranges.constants:
            return self.ranges.constants[n]
        result = super().run_node(n)
        if isinstance(result, torch.Tensor) and result.numel():
            if result.is_floating_point():
                self._record(n, _finite(result.detach()))
                if self.ranges.largest[n] <= TINY:  # zero for its readers too, as on the NPU
                    result = torch.zeros_like(result)
            elif not result.is_complex():
                self._ends(n, result.detach())
        return result

    def _record(self, node: Node, value: torch.Tensor) -> None:
        magnitude = value.abs()
        last = magnitude.reshape(-1, magnitude.shape[-1]) if magnitude.dim() else magnitude[None]
        by_channel = last.amax(0).double().numpy()
        seen = self.ranges.channels.get(node)
        if seen is not None and seen.shape == by_channel.shape:
            by_channel = np.maximum(seen, by_channel)
        self.ranges.channels[node] = by_channel
        self.ranges.largest[node] = float(self.ranges.channels[node].max())
        self._ends(node, value)
        if value.dim() >= 2 and feeds(node, _PRODUCTS_OF_ROWS):
            self._sample(node, value.reshape(-1, value.shape[-1]))
        if value.dim() >= 3 and feeds(node, CONVOLUTIONS):
            self._image(node, value.double())

    def _image(self, node: Node, value: torch.Tensor) -> None:
        others = [d for d in range(value.dim()) if d != 1]
        mean, square = (v.mean(others).numpy() for v in (value, value.square()))
        seen = self.ranges.images.setdefault(node, Images(mean=mean, square=square))
        seen.least.append(value.amin(others).numpy())
        seen.most.append(value.amax(others).numpy())
        calls = len(seen.most)
        seen.mean = seen.mean + (mean - seen.mean) / calls
        seen.square = seen.square + (square - seen.square) / calls

    def _ends(self, node: Node, value: torch.Tensor) -> None:
        r, least, most = self.ranges, float(value.min()), float(value.max())
        r.least[node] = min(r.least.get(node, np.inf), least)
        r.most[node] = max(r.most.get(node, -np.inf), most)
        r.ends.setdefault(node, []).append((least, most))
        if not value.is_floating_point():
            r.largest[node] = max(r.largest.get(node, 0.0), abs(least), abs(most))

    def _sample(self, node: Node, rows: torch.Tensor) -> None:
        seen = self.ranges.rows.get(node)
        room = ROWS - (0 if seen is None else len(seen))
        count = min(room, _PER_CALL, len(rows))
        if count <= 0:
            return
        # Evenly spread over the rows, first and last among them: special tokens stand there.
        at = np.unique(np.linspace(0, len(rows) - 1, count).astype(np.int64))
        picked = rows[torch.from_numpy(at)].double().numpy()
        self.ranges.rows[node] = picked if seen is None else np.concatenate([seen, picked])


_PRODUCTS_OF_ROWS = LINEAR | {aten.matmul.default}


def feeds(node: Node, layers: Collection[Any]) -> bool:
    """Whether one of `layers` reads `node`, or what only renames it."""
    return any(
        user.target in layers or (user.target in SAME and feeds(user, layers))
        for user in node.users
    )


def calibrate(module: GraphModule, samples: Iterable[Sequence[torch.Tensor]]) -> Ranges:
    """Run `module` on every sample (the arguments of one call)."""
    ranges = Ranges(constants=constant_values(module, fixed_nodes(module)))
    recorder = _Recorder(module, ranges)
    with torch.no_grad():
        for sample in samples:
            recorder.run(*sample)
    return ranges

"""Which layers are computed in stripes of rows.

A block of a mobile network widens its channels, takes a depthwise convolution, and narrows them
again. In a large image what lies between does not fit on chip: it is stored and loaded, which takes
longer than to compute it. In stripes it stays.
"""

import math
from collections.abc import Callable, Iterator

from spec.config import NpuConfig
from sw.compiler.passes.row_stripes import ROWS, Layers, cut_rows, rows_read
from sw.compiler.tosa.bound import op_bound
from sw.compiler.tosa.graph import Graph, Op, Tensor

Predict = Callable[[Graph], float]
"""Predicted cycles of a graph; infinite if they are not known."""

WIDE, KEPT = 0.5, 0.4
"""Part of the scratchpad that a tensor between two layers has at least, in stripes at most."""

EVEN = 1.5
"""Up to so many times the stripes that would do are taken for all to have as many rows."""

BESIDE = 8
"""Operators before and behind a region that are predicted together with it."""

BUS = 0.5
"""Part of the busier engine's cycles that a store of what lies between takes; less is hidden."""

GAIN = 0.98
"""The part of the cycles without stripes that those with stripes may take."""

MOST_DEPTHWISE = 2
"""Depthwise layers of a region: each of them makes the stripes of those before it higher."""

_DEPTHWISE = "DEPTHWISE_CONV2D"
_PRODUCTS = ("CONV2D", _DEPTHWISE)
_TAIL = ("RESCALE", "CLAMP", "TABLE", "CAST")


def stripe_rows(graph: Graph, config: NpuConfig, predict: Predict) -> None:
    """Every region in stripes that is predicted to be faster so, with its neighbours."""
    chosen = []
    for layers in _regions(graph, config):
        count = _count(graph, layers, config) if _is_moved(graph, layers, config) else 0
        if count > 1 and (ahead := _best(graph, layers, count, predict)) is not None:
            chosen.append((layers, count, ahead))
    for layers, count, ahead in chosen:
        cut_rows(graph, layers, count, ahead)


def _best(graph: Graph, layers: Layers, count: int, predict: Predict) -> int | None:
    """How many layers of a stripe are best computed beside the stripe before; None: no stripes."""
    whole = predict(_window(graph, layers)[0])
    if whole == math.inf:
        # Nothing to compare with.
        return None
    best, least = None, GAIN * whole
    # The last depthwise layer and what follows it beside the next stripe's first layers.
    split = max(i for i, layer in enumerate(layers) if layer[0].kind == _DEPTHWISE)
    for ahead in dict.fromkeys((split, 0)):
        window, inside = _window(graph, layers)
        cut_rows(window, inside, count, ahead)
        cycles = predict(window)
        if cycles < least:
            best, least = ahead, cycles
        if cycles > whole:
            break
    return best


def _regions(graph: Graph, config: NpuConfig) -> Iterator[Layers]:
    """The longest chains of layers with wide tensors between all of them."""
    readers, taken = graph.consumers(), set[int]()
    for op in graph.ops:
        if id(op) in taken or not _is_layer(graph, op):
            continue
        layers = [_with_tail(graph, readers, op)]
        while _is_wide(graph.tensors[layers[-1][-1].outputs[0]], config):
            follower = _only_reader(graph, readers, layers[-1][-1])
            if follower is None or not _is_layer(graph, follower):
                break
            depthwise = sum(layer[0].kind == _DEPTHWISE for layer in layers)
            if follower.kind == _DEPTHWISE and depthwise == MOST_DEPTHWISE:
                break
            layers.append(_with_tail(graph, readers, follower))
        taken |= {id(op) for layer in layers for op in layer}
        if len(layers) > 1 and any(layer[0].kind == _DEPTHWISE for layer in layers):
            yield layers


def _is_layer(graph: Graph, op: Op) -> bool:
    """A depthwise convolution, or a product of single pixels, with constant weights."""
    if op.kind not in _PRODUCTS or len(graph.tensors[op.inputs[0]].shape) != 4:
        return False
    if not all(graph.tensors[name].is_constant for name in op.inputs[1:]):
        return False
    weights = graph.tensors[op.inputs[1]].shape
    pointwise = weights[1:3] == (1, 1) and tuple(op.attributes["stride"]) == (1, 1)
    return graph.tensors[op.inputs[0]].shape[0] == 1 and (op.kind == _DEPTHWISE or pointwise)


def _is_moved(graph: Graph, layers: Layers, config: NpuConfig) -> bool:
    """Whether what lies between keeps the bus busy for long."""
    moved = sum(graph.tensors[layer[-1].outputs[0]].nbytes for layer in layers[:-1])
    busy = dict.fromkeys(_PRODUCTS, 0.0)
    for layer in layers:
        busy[layer[0].kind] += op_bound(graph, layer[0], config)
    return moved >= BUS * config.bus_bytes * max(busy.values())


def _with_tail(graph: Graph, readers: dict[str, list[Op]], op: Op) -> list[Op]:
    """A product and the elementwise operators that alone follow it."""
    layer = [op]
    while (follower := _only_reader(graph, readers, layer[-1])) is not None:
        constant = all(graph.tensors[name].is_constant for name in follower.inputs[1:])
        if follower.kind not in _TAIL or not constant:
            break
        layer.append(follower)
    # What widens the result is left to its reader.
    sizes = [graph.tensors[op.outputs[0]].nbytes for op in layer]
    return layer[: len(sizes) - sizes[::-1].index(min(sizes))]


def _only_reader(graph: Graph, readers: dict[str, list[Op]], op: Op) -> Op | None:
    """What alone reads the result of `op`, as its first operand."""
    (name,) = op.outputs
    users = readers[name]
    if len(users) != 1 or name in graph.outputs or users[0].inputs[0] != name:
        return None
    return users[0]


def _is_wide(tensor: Tensor, config: NpuConfig) -> bool:
    return tensor.nbytes > WIDE * config.spad_bytes


def _count(graph: Graph, layers: Layers, config: NpuConfig) -> int:
    """How many stripes keep what lies between the layers small; 0 if no number of them does."""
    height = graph.tensors[layers[-1][-1].outputs[0]].shape[ROWS]
    rows = next((n for n in range(height, 0, -1) if _fits(graph, layers, n, config)), 0)
    if not rows:
        return 0
    least = -(-height // rows)
    equal = (n for n in range(least, int(EVEN * least) + 1) if height % n == 0)
    return next(equal, least)


def _fits(graph: Graph, layers: Layers, rows: int, config: NpuConfig) -> bool:
    """Whether each tensor between the layers is small for so many rows of the result."""
    for layer in reversed(layers[1:]):
        for op in reversed(layer):
            first, last = rows_read(graph, op, (0, rows))
            rows = last - first
        tensor = graph.tensors[layer[0].inputs[0]]
        rows = min(rows, tensor.shape[ROWS])
        if tensor.nbytes * rows > KEPT * config.spad_bytes * tensor.shape[ROWS]:
            return False
    return True


def _window(graph: Graph, layers: Layers) -> tuple[Graph, Layers]:
    """A graph of the region and some operators around it, and the region's layers in it."""
    first, last = graph.ops.index(layers[0][0]), graph.ops.index(layers[-1][-1])
    ops = graph.ops[max(0, first - BESIDE) : last + 1 + BESIDE]
    copies = {id(op): op.copy() for op in ops}
    made = {name for op in ops for name in op.outputs}
    read = {name for op in ops for name in op.inputs}
    wanted = {name for op in graph.ops if id(op) not in copies for name in op.inputs}
    wanted |= set(graph.outputs)
    tensors = {name: tensor for name, tensor in graph.tensors.items() if name in made | read}
    window = Graph(
        name=graph.name,
        inputs=[name for name in tensors if name not in made and not tensors[name].is_constant],
        outputs=[name for name in tensors if name in made and (name in wanted or name not in read)],
        ops=list(copies.values()),
        tensors=tensors,
    )
    return window, [[copies[id(op)] for op in layer] for layer in layers]

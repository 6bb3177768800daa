"""Stage `residency`: which tensors stay on chip between layers, and where; which weights too.

A tensor on chip is neither stored nor loaded, and its reader starts on its first channels while
the last are computed. It takes scratchpad from every layer of its life, so it stays only where the
cost model says that those layers together become no slower.

Weights that several products have, the steps of a recurrence, are loaded once where the bus would
have little else to do.

Tensors lie at the top of the scratchpad, lowest address last; the buffers of a layer rotate below.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from spec.config import NpuConfig
from spec.isa import Engine
from spec.program import REGION_TEMP
from sw.compiler.errors import CompileError, LegalityError
from sw.compiler.kernels.base import Layer, LayerProgram, common_weights
from sw.compiler.kernels.budget import MemoryBudget

WEIGHTS_SHARE = 0.5
"""Share of the cycles of a time that loads of the same weights must take to keep them on chip."""

MARGIN = 1
"""Layers for which a place is left alone once its tensor is read no more, where that costs nothing:
the next layer's first results need not wait for the last reads."""

LEAST = 8
"""Part of the scratchpad (1/LEAST) that is always left to the buffers of a layer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Residency:
    """Addresses of the tensors on chip, by storage root, and the budget of every layer."""

    address: Mapping[str, int] = field(default_factory=dict)
    budgets: tuple[MemoryBudget, ...] = ()


Cost = Callable[[Layer, MemoryBudget], int | None]
"""Estimated cycles of a layer in a budget; None if it does not fit."""


@dataclass(frozen=True, slots=True)
class _Life:
    """A storage root, from the first layer that writes it to the last that reads it; or weights,
    from the first product that has them to the last, and bytes that all of these would load.
    """

    root: str
    size: int
    born: int
    dies: int
    loads: float = math.inf

    def meets(self, other: "_Life", margin: int = 0) -> bool:
        """Whether both are there in a layer, or one is born `margin` layers behind the other."""
        return self.born <= other.dies + margin and other.born <= self.dies + margin


def choose(program: LayerProgram, config: NpuConfig, cost: Cost) -> Residency:
    """Decide tensor by tensor, in order of birth."""
    whole = MemoryBudget(config.spad_bytes, channelwise=_channelwise(program))
    budgets = [replace(whole, shares_acc=b) for b in _shares_acc(program)]
    address: dict[str, int] = {}
    placed: list[tuple[_Life, int]] = []
    # Greedy: what was placed is never given up for a tensor that is born later.
    for life in _lives(program, config):
        span = slice(life.born, life.dies + 1)
        layers, old = program.layers[span], budgets[span]
        # Together no slower: the store and the load that fall away must pay for the scratchpad.
        best = sum(_cost(cost, layer, b) for layer, b in zip(layers, old, strict=True))
        # Loads of weights run ahead: they must be most of what happens for others to wait.
        if WEIGHTS_SHARE * best > life.loads / config.bus_bytes:
            continue
        found = None
        for at in (_place(life, placed, config), _place(life, placed, config, MARGIN)):
            # Below that the rotating buffers of the layers would have too little.
            if at < config.spad_bytes // LEAST:
                continue
            new = [_with(budget, life.root, at) for budget in old]
            after = [cost(layer, budget) for layer, budget in zip(layers, new, strict=True)]
            known = [c for c in after if c is not None]
            if len(known) == len(after) and sum(known) <= best:
                best, found = sum(known), (at, new)
        if found is not None:
            address[life.root], budgets[span] = found
            placed.append((life, found[0]))
    return Residency(address=address, budgets=tuple(budgets))


def _cost(cost: Cost, layer: Layer, budget: MemoryBudget) -> int:
    found = cost(layer, budget)
    if found is None:
        raise CompileError(
            f"no tile of this layer fits in {budget.spad_bytes} bytes of scratchpad",
            node=layer.name,
            source=layer.source,
            hint="use a configuration with more memory",
        )
    return found


def _with(budget: MemoryBudget, root: str, at: int) -> MemoryBudget:
    return replace(budget, spad_bytes=min(budget.spad_bytes, at), held=budget.held | {root})


def _shares_acc(program: LayerProgram) -> list[bool]:
    """Of each layer, whether a product and a depthwise layer exchange a tensor through it."""
    writers = {layer.output.tensor: i for i, layer in enumerate(program.layers)}
    out = [False] * len(program.layers)
    for i, layer in enumerate(program.layers):
        before = writers.get(layer.inputs[0].tensor)
        if before is None:
            continue
        # Both accumulate: on banks of their own neither holds the other up.
        if {layer.engine, program.layers[before].engine} == {Engine.MATRIX, Engine.DEPTHWISE}:
            out[i] = out[before] = True
    return out


def _channelwise(program: LayerProgram) -> frozenset[str]:
    """The tensors of products that only depthwise layers read."""
    products = {x.output.tensor for x in program.layers if x.engine is Engine.MATRIX}
    others = {
        view.tensor for x in program.layers if x.engine is not Engine.DEPTHWISE for view in x.inputs
    }
    return frozenset(products - others)


def _lives(program: LayerProgram, config: NpuConfig) -> list[_Life]:
    """The tensors that could stay: temporaries that only such layers touch as take them on chip."""
    born: dict[str, int] = {}
    dies: dict[str, int] = {}
    written: dict[str, int] = {}
    barred: set[str] = set()
    for i, layer in enumerate(program.layers):
        barred |= {view.tensor for view in layer.memory_views}
        for view in layer.outputs:
            born.setdefault(view.tensor, i)
            written[view.tensor] = i
        for view in layer.inputs:
            dies[view.tensor] = i
    # Inputs and outputs are ports, which the host reads and writes in memory. What fills the
    # scratchpad leaves no room for the buffers of its own layers.
    storage = program.storage
    tensors = [
        _Life(root, storage.nbytes[root], first, max(dies[root], written[root]))
        for root, first in born.items()
        if storage.region[root] == REGION_TEMP
        and root in dies
        and root not in barred
        and storage.nbytes[root] < config.spad_bytes
    ]
    return sorted([*tensors, *_weights(program, config)], key=lambda life: life.born)


def _weights(program: LayerProgram, config: NpuConfig) -> Iterator[_Life]:
    """Weights that several products have."""
    users: dict[str, list[int]] = defaultdict(list)
    for i, layer in enumerate(program.layers):
        if layer.common:
            users[layer.common].append(i)
    for root, size in common_weights(program).items():
        first, *_, last = users[root]
        if size < config.spad_bytes:
            yield _Life(root, size, first, last, size * len(users[root]))


def _place(
    life: _Life, placed: Sequence[tuple[_Life, int]], config: NpuConfig, margin: int = 0
) -> int:
    """The highest address at which it does not overlap what lives at the same time, or within
    `margin` layers; or below 0.
    """
    size = -(-life.size // config.word_bytes) * config.word_bytes
    taken = [(at, at + other.size) for other, at in placed if other.meets(life, margin)]
    at = config.spad_bytes - size
    # Down from the top, each time below all that is in the way; these may overlap one another.
    while inside := [start for start, stop in taken if start < at + size and at < stop]:
        at = min(inside) - size
    return at


def check_residency(residency: Residency, program: LayerProgram, config: NpuConfig) -> None:
    """Tensors that live at the same time are disjoint, and above the budget of every layer."""
    lives = {life.root: life for life in _lives(program, config)}
    held = [(lives[root], at) for root, at in residency.address.items()]
    for i, (life, at) in enumerate(held):
        for index in range(life.born, life.dies + 1):
            if residency.budgets[index].spad_bytes > at or at + life.size > config.spad_bytes:
                raise LegalityError(
                    f"tensor {life.root!r} at {at:#x} is in the way of layer {index}"
                )
        for other, place in held[:i]:
            apart = place + other.size <= at or at + life.size <= place
            if other.meets(life) and not apart:
                raise LegalityError(f"tensors {life.root!r} and {other.root!r} overlap on chip")

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
from sw.compiler.kernels.operands import Residual

WEIGHTS_SHARE = 0.5
"""Share of the cycles of a time that loads of the same weights must take to keep them on chip."""

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
class Life:
    """A storage root, from the first layer that writes it to the last that reads it; or weights,
    from the first product that has them to the last, and bytes that all of these would load.

    over: roots that it may replace byte by byte.
    """

    root: str
    size: int
    born: int
    dies: int
    loads: float = math.inf
    over: frozenset[str] = frozenset()

    def meets(self, other: "Life") -> bool:
        return self.born <= other.dies and other.born <= self.dies


def choose(program: LayerProgram, config: NpuConfig, cost: Cost) -> Residency:
    """Decide tensor by tensor, in order of birth."""
    whole = MemoryBudget(config.spad_bytes, channelwise=_channelwise(program))
    budgets = [replace(whole, shares_acc=b) for b in _shares_acc(program)]
    address: dict[str, int] = {}
    placed: list[tuple[Life, int]] = []
    # Greedy: what was placed is never given up for a tensor that is born later.
    for life in lives(program, config):
        others = [(x, at) for x, at in placed if x.meets(life)]
        at = _replacing(life, others)
        if at is None:
            at = place(life, others, config)
        # Below that the rotating buffers of the layers would have too little.
        if at < config.spad_bytes // LEAST:
            continue
        span = slice(life.born, life.dies + 1)
        layers, old = program.layers[span], budgets[span]
        new = [_with(budget, life.root, at) for budget in old]
        before = sum(_cost(cost, layer, b) for layer, b in zip(layers, old, strict=True))
        after = [cost(layer, budget) for layer, budget in zip(layers, new, strict=True)]
        known = [c for c in after if c is not None]
        # Together no slower: the store and the load that fall away must pay for the scratchpad.
        if len(known) < len(after) or sum(known) > before:
            continue
        # Loads of weights run ahead: they must be most of what happens for others to wait.
        if WEIGHTS_SHARE * before > life.loads / config.bus_bytes:
            continue
        placed.append((life, at))
        address[life.root] = at
        budgets[span] = new
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


def lives(program: LayerProgram, config: NpuConfig) -> list[Life]:
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
        Life(
            root,
            storage.nbytes[root],
            first,
            max(dies[root], written[root]),
            over=frozenset(
                old
                for old in _summands(program.layers[first])
                if _is_replaced(program.layers[first : dies[old] + 1], old, root)
                and storage.nbytes[old] == storage.nbytes[root]
            ),
        )
        for root, first in born.items()
        if storage.region[root] == REGION_TEMP
        and root in dies
        and root not in barred
        and storage.nbytes[root] < config.spad_bytes
    ]
    return sorted([*tensors, *_weights(program, config)], key=lambda life: life.born)


def _summands(layer: Layer) -> Iterator[str]:
    """The tensor that a product adds to its results."""
    residual = getattr(layer, "residual", None)
    if isinstance(residual, Residual):
        yield residual.operand.view.tensor


def _is_replaced(layers: Sequence[Layer], old: str, new: str) -> bool:
    """Whether layers write each element of `new` where they have just read that of `old`, added it,
    and nobody reads `old` again.
    """
    for layer in layers:
        touched = [view for view in layer.inputs if view.tensor == old]
        if not touched and all(view.tensor != new for view in layer.outputs):
            continue
        added = [] if old not in _summands(layer) else touched
        (result, *others) = layer.outputs
        if others or len(added) != 1 or replace(added[0], tensor=new) != result:
            return False
    return True


def _weights(program: LayerProgram, config: NpuConfig) -> Iterator[Life]:
    """Weights that several products have."""
    users: dict[str, list[int]] = defaultdict(list)
    for i, layer in enumerate(program.layers):
        if layer.common:
            users[layer.common].append(i)
    for root, size in common_weights(program).items():
        first, *_, last = users[root]
        if size < config.spad_bytes:
            yield Life(root, size, first, last, size * len(users[root]))


def place(life: Life, others: Sequence[tuple[Life, int]], config: NpuConfig) -> int:
    """The highest address at which it overlaps none of `others`, which have places; or below 0."""
    size = -(-life.size // config.word_bytes) * config.word_bytes
    at = config.spad_bytes - size
    # Down from the top, each time below all that is in the way.
    while inside := overlaps(life, at, others):
        at = min(inside) - size
    return at


def _replacing(life: Life, others: Sequence[tuple[Life, int]]) -> int | None:
    """The place of a tensor that it replaces, where nothing else is in the way."""
    for old, at in others:
        rest = [(x, start) for x, start in others if x is not old]
        if old.root in life.over and not overlaps(life, at, rest):
            return at
    return None


def overlaps(life: Life, at: int, others: Sequence[tuple[Life, int]]) -> list[int]:
    """The places of those of `others` that it would overlap from `at` on."""
    return [start for x, start in others if start < at + life.size and at < start + x.size]


def check_residency(residency: Residency, program: LayerProgram, config: NpuConfig) -> None:
    """Tensors that live at the same time are disjoint, and above the budget of every layer."""
    by_root = {life.root: life for life in lives(program, config)}
    held = [(by_root[root], at) for root, at in residency.address.items()]
    for i, (life, at) in enumerate(held):
        for index in range(life.born, life.dies + 1):
            if residency.budgets[index].spad_bytes > at or at + life.size > config.spad_bytes:
                raise LegalityError(
                    f"tensor {life.root!r} at {at:#x} is in the way of layer {index}"
                )
        for other, place in held[:i]:
            apart = place + other.size <= at or at + life.size <= place
            replaced = place == at and (other.root in life.over or life.root in other.over)
            if other.meets(life) and not (apart or replaced):
                raise LegalityError(f"tensors {life.root!r} and {other.root!r} overlap on chip")

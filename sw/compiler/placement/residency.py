"""Stage `residency`: which tensors stay on chip between layers, and where.

A tensor on chip is neither stored nor loaded, and its reader starts on its first channels while
the last are computed. It takes scratchpad from every layer of its life, so it stays only where the
cost model says that those layers together become no slower.

Tensors lie at the top of the scratchpad, lowest address last; the buffers of a layer rotate below.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from spec.config import NpuConfig
from spec.program import REGION_TEMP
from sw.compiler.errors import CompileError, LegalityError
from sw.compiler.kernels.layers import (
    ConvLayer,
    DepthwiseLayer,
    ElementwiseLayer,
    Layer,
    LayerProgram,
    PoolLayer,
)
from sw.compiler.kernels.views import View

ABREAST = 2
"""Parts of the scratchpad where a chain and a product run at the same time."""

LEAST = 8
"""Part of the scratchpad (1/LEAST) that is always left to the buffers of a layer."""


@dataclass(frozen=True, slots=True)
class Room:
    """What a layer may use: scratchpad bytes from address 0, and the tensors that lie on chip.

    `channelwise`: tensors that only depthwise layers read, which want one channel after another.
    `beside`: a product next to a depthwise layer or a chain, or the reverse: they take turns in the
    banks of the accumulator, the product in the first and third. `parts`: into how many the
    scratchpad is cut, so that neighbours that run at the same time lie side by side. `rowwise`: the
    layer follows the one before it row by row (see `flow`).
    """

    spad_bytes: int
    held: frozenset[str] = frozenset()
    channelwise: frozenset[str] = frozenset()
    beside: bool = False
    parts: int = 1
    rowwise: bool = False

    @property
    def buffer_bytes(self) -> int:
        """Bytes that the buffers of the layer may take."""
        return self.spad_bytes // self.parts

    @property
    def concurrent(self) -> bool:
        """Whether the layer runs at the same time as its neighbours, on another engine."""
        return self.beside or self.parts > 1

    @property
    def abreast(self) -> bool:
        """Whether it is a chain or a product beside one (see `overlap`)."""
        return self.parts == ABREAST

    @staticmethod
    def whole(config: NpuConfig) -> "Room":
        """All of the scratchpad, nothing on chip."""
        return Room(config.spad_bytes)

    def streams(self, view: View, config: NpuConfig) -> bool:
        """Whether the depthwise engine follows the writer of a tensor channel by channel.

        Then both accumulate whole images.
        """
        n, h, w, _ = view.shape
        kept = view.tensor in self.held and view.tensor in self.channelwise
        return kept and config.rows <= n * h * w <= config.acc_bank


@dataclass(slots=True)
class Residency:
    """Addresses of the tensors on chip, by storage root, and the room of every layer."""

    address: dict[str, int] = field(default_factory=dict)
    rooms: list[Room] = field(default_factory=list)


Cost = Callable[[Layer, Room], int | None]
"""Estimated cycles of a layer in a room; None if it does not fit."""


@dataclass(frozen=True, slots=True)
class _Life:
    """A storage root, from the layer that writes it to the last that reads it."""

    root: str
    size: int
    born: int
    dies: int

    def meets(self, other: "_Life") -> bool:
        return self.born <= other.dies and other.born <= self.dies


def choose(program: LayerProgram, config: NpuConfig, cost: Cost) -> Residency:
    """Decide tensor by tensor, in order of birth."""
    whole = Room(config.spad_bytes, channelwise=_channelwise(program))
    out = Residency(rooms=[replace(whole, beside=b) for b in _beside(program)])
    placed: list[tuple[_Life, int]] = []
    for life in _lives(program, config):
        at = _place(life, placed, config)
        if at < config.spad_bytes // LEAST:
            continue
        span = range(life.born, life.dies + 1)
        rooms = [_with(out.rooms[i], life.root, at) for i in span]
        layers = [program.layers[i] for i in span]
        before = sum(
            _cost(cost, layer, out.rooms[i]) for i, layer in zip(span, layers, strict=True)
        )
        after = [cost(layer, room) for layer, room in zip(layers, rooms, strict=True)]
        known = [c for c in after if c is not None]
        if len(known) < len(after) or sum(known) > before:
            continue
        placed.append((life, at))
        out.address[life.root] = at
        for i, room in zip(span, rooms, strict=True):
            out.rooms[i] = room
    return out


def _cost(cost: Cost, layer: Layer, room: Room) -> int:
    found = cost(layer, room)
    if found is None:
        raise CompileError(
            f"no tile of this layer fits in {room.spad_bytes} bytes of scratchpad",
            node=layer.name,
            source=layer.source,
            hint="use a configuration with more memory",
        )
    return found


def _with(room: Room, root: str, at: int) -> Room:
    return replace(room, spad_bytes=min(room.spad_bytes, at), held=room.held | {root})


def _beside(program: LayerProgram) -> list[bool]:
    """Of each layer, whether it exchanges a tensor with one of the other kind."""
    writers = {layer.output.tensor: i for i, layer in enumerate(program.layers)}
    out = [False] * len(program.layers)
    for i, layer in enumerate(program.layers):
        before = writers.get(layer.inputs[0].tensor)
        if before is None:
            continue
        kinds = {type(layer), type(program.layers[before])}
        if kinds == {ConvLayer, DepthwiseLayer}:
            out[i] = out[before] = True
    return out


def _channelwise(program: LayerProgram) -> frozenset[str]:
    """The tensors of products that only depthwise layers read."""
    products = {x.output.tensor for x in program.layers if isinstance(x, ConvLayer)}
    others = {
        view.tensor
        for x in program.layers
        if not isinstance(x, DepthwiseLayer)
        for view in x.inputs
    }
    return frozenset(products - others)


def _lives(program: LayerProgram, config: NpuConfig) -> list[_Life]:
    """The tensors that could stay: temporaries that only such layers touch as take them on chip."""
    born: dict[str, int] = {}
    dies: dict[str, int] = {}
    barred: set[str] = set()
    for i, layer in enumerate(program.layers):
        barred |= _barred(layer)
        root = layer.output.tensor
        if root in born:
            barred.add(root)
        born.setdefault(root, i)
        for view in layer.inputs:
            dies[view.tensor] = i
    storage = program.storage
    return [
        _Life(root, storage.nbytes[root], first, dies[root])
        for root, first in born.items()
        if storage.region[root] == REGION_TEMP
        and root in dies
        and root not in barred
        and storage.nbytes[root] < config.spad_bytes
    ]


def _barred(layer: Layer) -> set[str]:
    """The tensors of a layer that it needs in memory."""
    if isinstance(layer, ConvLayer | DepthwiseLayer):
        views = (layer.weight_view, layer.epilogue.params)
        return {view.tensor for view in views if view is not None}
    if isinstance(layer, PoolLayer | ElementwiseLayer):
        return set()
    return {view.tensor for view in (*layer.inputs, *layer.outputs)}


def _place(life: _Life, placed: Sequence[tuple[_Life, int]], config: NpuConfig) -> int:
    """The highest address at which it does not overlap what lives at the same time; or below 0."""
    size = -(-life.size // config.word_bytes) * config.word_bytes
    taken = sorted(
        ((at, at + other.size) for other, at in placed if other.meets(life)), reverse=True
    )
    top = config.spad_bytes
    for start, stop in taken:
        if top - stop >= size:
            break
        top = min(top, start)
    return top - size


def check_residency(residency: Residency, program: LayerProgram, config: NpuConfig) -> None:
    """Tensors that live at the same time are disjoint, and above the room of every layer."""
    lives = {life.root: life for life in _lives(program, config)}
    held = [(lives[root], at) for root, at in residency.address.items()]
    for i, (life, at) in enumerate(held):
        for index in range(life.born, life.dies + 1):
            if residency.rooms[index].spad_bytes > at or at + life.size > config.spad_bytes:
                raise LegalityError(
                    f"tensor {life.root!r} at {at:#x} is in the way of layer {index}"
                )
        for other, place in held[:i]:
            apart = place + other.size <= at or at + life.size <= place
            if other.meets(life) and not apart:
                raise LegalityError(f"tensors {life.root!r} and {other.root!r} overlap on chip")

"""Copies of copies become copies of what they begin with.

A shifted window of attention is two rolls, each of two pieces, and a permutation: three times each
element is copied. Together they are a few strided boxes from the first tensor into the last one.
"""

import math
from collections import defaultdict
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from spec.config import NpuConfig
from spec.program import REGION_TEMP
from sw.compiler.kernels.base import Layer
from sw.compiler.kernels.dma import copies
from sw.compiler.kernels.move.layer import MoveLayer
from sw.compiler.kernels.transpose.cost import copy_cycles

Places = NDArray[np.int64]

MOST_BOXES = 16
"""Copies that may come in the place of fewer; otherwise there are no more than before."""

MOST_RUNS = 1 << 16
"""Runs of bytes of a tensor that is looked at."""

Place = tuple[int, int]
"""A byte of the source, and one of the target."""

Dims = tuple[tuple[int, int, int], ...]
"""(count, bytes apart in the source, in the target) of loops, outermost first."""

Box = tuple[Place, Dims]


def compose_copies(
    layers: Sequence[Layer], regions: Mapping[str, int], config: NpuConfig
) -> list[Layer]:
    """The layers without tensors that copies alone write and read, where that is less work.

    regions: of the tensors.
    """
    found, tried = list(layers), set[str]()
    while (root := _between(found, regions, tried)) is not None:
        tried.add(root)
        writers = [x for x in found if isinstance(x, MoveLayer) and x.output.tensor == root]
        readers = [x for x in found if isinstance(x, MoveLayer) and x.tensor == root]
        made = _composed(writers, readers, config)
        if made is not None:
            gone = {id(layer) for layer in writers}
            kept = [layer for layer in found if id(layer) not in gone]
            found = [part for layer in kept for part in made.get(id(layer), [layer])]
    return found


def _between(
    layers: Sequence[Layer], regions: Mapping[str, int], tried: Container[str]
) -> str | None:
    """A tensor that copies alone write and read, and that was not tried."""
    written, read, others = dict[str, None](), set[str](), set[str]()
    for layer in layers:
        if isinstance(layer, MoveLayer) and layer.copies:
            written[layer.output.tensor] = None
            read.add(layer.tensor)
        else:
            others.update(view.tensor for view in (*layer.inputs, *layer.outputs))
    return next(
        (
            root
            for root in written
            if root in read - others and root not in tried and regions.get(root) == REGION_TEMP
        ),
        None,
    )


def _composed(
    writers: Sequence[MoveLayer], readers: Sequence[MoveLayer], config: NpuConfig
) -> dict[int, list[Layer]] | None:
    """For the id of each reader the copies in its place; None if they are not worth it."""
    copied = [_Copy.of(layer) for layer in (*writers, *readers)]
    unit = math.gcd(*(copy.unit for copy in copied))
    if unit < config.bus_bytes or sum(copy.size for copy in copied) > MOST_RUNS * unit:
        return None
    first, second = copied[: len(writers)], copied[len(writers) :]
    # Of each run of the tensor, who writes it, and where it comes from.
    size = 1 + max(int(copy.targets(unit).max()) for copy in first) // unit
    origin, owner = np.full(size, -1, np.int64), np.full(size, -1, np.int64)
    for i, copy in enumerate(first):
        at = copy.targets(unit) // unit
        origin[at], owner[at] = copy.sources(unit), i
    made: dict[int, list[Layer]] = {}
    for reader, copy in zip(readers, second, strict=True):
        at = copy.sources(unit) // unit
        if at.max() >= size or (origin[at] < 0).any():
            return None
        parts: list[Layer] = []
        for i in np.unique(owner[at]).tolist():
            mine = owner[at] == i
            boxes = _boxes(origin[at][mine], copy.targets(unit)[mine])
            if boxes is None:
                return None
            parts += _layers(reader, writers[i], boxes, unit, len(parts))
        made[id(reader)] = parts
    if sum(map(len, made.values())) > max(MOST_BOXES, len(copied)):
        return None
    before = sum(_cycles(x, config) for x in (*writers, *readers))
    after = sum(_cycles(x, config) for parts in made.values() for x in parts)
    return made if after < before else None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Copy:
    """Runs of `run` bytes from byte `source` to byte `target`; dims: (count, bytes apart in each)
    of the loops around, outermost first.
    """

    source: int
    target: int
    run: int
    dims: Dims

    @staticmethod
    def of(layer: MoveLayer) -> "_Copy":
        offset, shape, strides = layer.target
        dims = [d for d in zip(shape, layer.source_strides, strides, strict=True) if d[0] > 1]
        run = layer.output.item
        while dims and dims[-1][1:] == (run, run):
            run *= dims.pop()[0]
        return _Copy(source=layer.offset, target=offset, run=run, dims=tuple(dims))

    @property
    def unit(self) -> int:
        """What divides the run and the place of each."""
        return math.gcd(self.run, self.source, self.target, *(s for d in self.dims for s in d[1:]))

    @property
    def size(self) -> int:
        """Bytes."""
        return self.run * math.prod(n for n, _, _ in self.dims)

    def sources(self, unit: int) -> Places:
        """Where pieces of `unit` bytes come from."""
        return self._places(self.source, [(n, a) for n, a, _ in self.dims], unit)

    def targets(self, unit: int) -> Places:
        """Where they go, in the same order."""
        return self._places(self.target, [(n, b) for n, _, b in self.dims], unit)

    def _places(self, start: int, dims: Sequence[tuple[int, int]], unit: int) -> Places:
        found = np.array([start], np.int64)
        for n, step in (*dims, (self.run // unit, unit)):
            found = (found[:, None] + np.arange(n, dtype=np.int64) * step).reshape(-1)
        return found


def _boxes(sources: Places, targets: Places) -> list[Box] | None:
    """Boxes of the pieces that move from `sources` to `targets`; None for too many."""
    order = np.argsort(targets, kind="stable")
    boxes: list[Box] = [
        ((a, b), ()) for a, b in zip(sources[order].tolist(), targets[order].tolist(), strict=True)
    ]
    while True:
        alike: dict[Dims, list[Place]] = defaultdict(list)
        for at, dims in boxes:
            alike[dims].append(at)
        joined = [
            (start, dims if count == 1 else ((count, *apart), *dims))
            for dims, places in alike.items()
            for start, count, apart in _progressions(places)
        ]
        if len(joined) == len(boxes):
            return boxes if len(boxes) <= MOST_BOXES else None
        boxes = sorted(joined, key=lambda box: box[0][1])


def _progressions(places: Sequence[Place]) -> Iterator[tuple[Place, int, Place]]:
    """(first, count, distance) of places that follow one another at equal distances forwards."""
    steps = [(b[0] - a[0], b[1] - a[1]) for a, b in pairwise(places)]
    at = 0
    while at < len(places):
        end = at
        while end < len(steps) and steps[end] == steps[at]:
            end += 1
        # One before others that stand closer together is none of them.
        apart = end == at + 1 and end + 1 < len(steps) and steps[end] == steps[end + 1]
        if end == at or apart or min(steps[at]) <= 0:
            yield places[at], 1, (0, 0)
            at += 1
        else:
            yield places[at], end - at + 1, steps[at]
            at = end + 1


def _layers(
    reader: MoveLayer, writer: MoveLayer, boxes: Sequence[Box], unit: int, first: int
) -> list[Layer]:
    """A copy of each box, from what `writer` reads to what `reader` writes."""
    item = reader.output.item
    out: list[Layer] = []
    for i, ((source, target), dims) in enumerate(boxes, first):
        whole = (*dims, (unit // item, item, item))
        shape = tuple(n for n, _, _ in whole)
        out.append(
            replace(
                reader,
                name=f"{reader.name}.b{i}",
                tensor=writer.tensor,
                offset=source,
                source_shape=shape,
                source_strides=tuple(a for _, a, _ in whole),
                before=(0,) * len(shape),
                shape=shape,
                target_offset=target,
                target_strides=tuple(b for _, _, b in whole),
            )
        )
    return out


def _cycles(layer: Layer, config: NpuConfig) -> float:
    """Of the engine that copies."""
    assert isinstance(layer, MoveLayer)
    copy = _Copy.of(layer)
    return copy_cycles(copies(list(copy.dims), copy.run), config)

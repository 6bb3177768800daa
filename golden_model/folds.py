"""How a MATRIX's loop nest divides into folds, vectors, and products that compute many folds."""

from dataclasses import dataclass

import numpy as np

from golden_model.instruction_shapes import InstructionShape
from golden_model.loops import Bools, Chunks, Ints, Nest, Steps
from golden_model.program import Plan
from golden_model.widths import VECTOR_MASK
from spec.isa import LOOPS


class Source:
    """Where folds find their activations, relative to a vector of the stream.

    act: [folds] byte offsets. y, x: [spots] the distinct displacements in the input;
    spot_of: [folds] which one is a fold's.
    """

    def __init__(self, steps: Steps, folds: Ints) -> None:
        self.act = steps.offset("act")[folds]
        both = np.stack([steps.offset("dy")[folds], steps.offset("dx")[folds]])
        spots, spot_of = np.unique(both, axis=1, return_inverse=True)
        self.y, self.x = spots
        self.spot_of = spot_of.reshape(-1)


@dataclass(frozen=True, slots=True)
class Bundle:
    """Folds that one product computes: they multiply the same activations.

    folds: [blocks, k] fold numbers; acc: [blocks] offsets; fresh: the old value is dropped.
    """

    folds: Ints
    acc: Ints
    fresh: bool
    source: Source


@dataclass(frozen=True, slots=True)
class Bundles:
    """All folds of a chunk. complete: every fold is in one (others are overwritten at once)."""

    bundles: list[Bundle]
    complete: bool


class Folds:
    """The parts of a MATRIX's loop nest, by whether they take new weights.

    A weight chunk is an iteration of the loops above `level`; its folds are `nest`, the vectors
    of a fold are `stream`. A main chunk is a weight chunk, or a part of a fold where slots name
    stream loops.
    """

    def __init__(self, shape: InstructionShape) -> None:
        self.shape = shape
        loops, count = shape.loops, shape.v["fold_loops"]
        self.level = min(shape.level, count)
        self.chunks = Chunks(loops, self.level)
        self.nest = Nest(loops, self.level, count)
        self.stream = Nest(loops, max(shape.level, count), LOOPS)
        self._bundles: dict[tuple[bool, bool], Bundles | None] = {}

    def steps(self, weight_chunk: int) -> Steps:
        """The folds of a weight chunk."""
        return self.nest.steps(self.chunks.outer_last[weight_chunk])

    def vectors(self, chunk: int, steps: Steps, fold: int) -> Steps:
        """The vectors of one fold in a main chunk; `steps`: its weight chunk's folds."""
        if steps.index.shape[0]:
            return self.stream.steps(bool(steps.last[-1, fold]))
        return self.stream.steps(self.shape.chunks.outer_last[chunk])

    def extent(self, weight_chunk: int, loop: int, plain: int, final: int) -> Ints:
        """[folds]: rows or columns in use; `final` in the last iteration of `loop`."""
        steps = self.steps(weight_chunk)
        out = np.full(steps.size, plain)
        if loop < self.level:
            if self.chunks.steps.last[loop, weight_chunk]:
                out[:] = final
        elif loop < LOOPS:
            out[steps.last[loop - self.level]] = final
        return out

    def outer_first(self, chunk: int) -> bool:
        """The reduction loops around a main chunk are all in their first iteration."""
        index = self.shape.chunks.steps.index[:, chunk]
        k_loops = self.shape.v["k_loops"]
        return not any(k_loops >> i & 1 and index[i] for i in range(self.shape.level))

    def fold_first(self, steps: Steps) -> Bools:
        """[folds]: the reduction loops among the folds' own are all in their first iteration."""
        return self._first(steps, self.level)

    def vector_first(self, vectors: Steps) -> Bools:
        """[vectors]: the same for the loops of the stream."""
        return self._first(vectors, self.stream.low)

    def _first(self, steps: Steps, low: int) -> Bools:
        first = np.ones(steps.size, np.bool_)
        for i, row in enumerate(steps.index):
            if self.shape.v["k_loops"] >> (low + i) & 1:
                first &= row == 0
        return first

    def bundles(self, chunk: int, steps: Steps, init: bool) -> Bundles | None:
        """How to compute a chunk's folds in few products; None where their order matters."""
        key = (self.shape.chunks.outer_last[chunk], init)
        if key not in self._bundles:
            vectors = self.vectors(chunk, steps, 0)
            self._bundles[key] = self._bundle(steps, vectors, init)
        return self._bundles[key]

    def _bundle(self, steps: Steps, vectors: Steps, init: bool) -> Bundles | None:
        ragged = self.stream.ragged and steps.size > 1
        if ragged or not self.vector_first(vectors).all():
            return None
        acc, within = steps.offset("acc"), vectors.offset("acc")
        blocks = np.unique(acc)
        every = (blocks[:, None] + within) & VECTOR_MASK
        if np.unique(every).size != every.size:
            return None
        first = self.fold_first(steps) if init else np.zeros(steps.size, np.bool_)
        places = np.stack([steps.offset(s) for s in ("act", "dy", "dx")])
        same: dict[tuple[bytes, bool], list[Ints]] = {}
        for block in blocks:
            folds = np.flatnonzero(acc == block)
            fresh = np.flatnonzero(first[folds])
            if fresh.size:
                # What earlier folds add here, this one drops.
                folds = folds[fresh[-1] :]
            same.setdefault((places[:, folds].tobytes(), bool(fresh.size)), []).append(folds)
        bundles = [
            Bundle(np.stack(f), acc[[fold[0] for fold in f]], fresh, Source(steps, f[0]))
            for (_, fresh), f in same.items()
        ]
        return Bundles(bundles, sum(b.folds.size for b in bundles) == steps.size)


def folds_of(plan: Plan) -> Folds:
    """The folds of the plan's shape, made once."""
    found = plan.cache.get("folds")
    if not isinstance(found, Folds):
        found = plan.cache["folds"] = Folds(plan.shape)
    return found

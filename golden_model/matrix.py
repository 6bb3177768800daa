"""MATRIX: the weight sequencer, the main sequencer, and exact products by BLAS."""

from collections import deque
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from golden_model.access import Context
from golden_model.clocks import Clock, Timeline
from golden_model.engine import NOWHERE, Blocked, Coroutine, Queue, acquire, release
from golden_model.loops import Bools, Chunks, Ints, Nest, Steps, signed16
from golden_model.program import Plan
from spec.isa import LOOPS, Point

Floats = NDArray[np.float32]

_CHIP = (1 << 24) - 1
_ACC = (1 << 16) - 1
_EXACT = 1 << 24
"""float32 holds every integer up to here."""


@dataclass(slots=True)
class Weights:
    """One weight chunk: values [folds, rows, cols] float32, zero outside R and C."""

    values: Floats
    rows: Ints
    read: Clock | None


@dataclass(slots=True)
class Handshake:
    """Between the two sequencers. Chunks of weights are counted over the whole run."""

    plans: deque[Plan] = field(default_factory=deque)
    active: Plan | None = None
    ready: deque[Weights] = field(default_factory=deque)
    begun: int = 0
    finished: dict[int, Clock] = field(default_factory=dict)

    def position(self) -> int:
        """Index of the instruction that the weight sequencer is at."""
        if self.active is not None:
            return self.active.index
        return self.plans[0].index if self.plans else NOWHERE


class Folds:
    """The parts of a MATRIX's loop nest, by whether they take new weights.

    A weight chunk is an iteration of the loops above `level`; its folds are `nest`. A main chunk
    is a weight chunk, or a part of a fold where slots name stream loops.
    """

    def __init__(self, plan: Plan) -> None:
        loops, count = plan.loops, plan.v["fold_loops"]
        self.level = min(plan.level, count)
        self.chunks = Chunks(loops, self.level)
        self.nest = Nest(loops, self.level, count)
        self.stream = Nest(loops, max(plan.level, count), LOOPS)
        self.bundles: dict[tuple[bool, bool], list[Bundle] | None] = {}

    def steps(self, chunk: int) -> Steps:
        return self.nest.steps(self.chunks.outer_last[chunk])


def _folds(plan: Plan) -> Folds:
    found = plan.cache.get("folds")
    if not isinstance(found, Folds):
        found = plan.cache["folds"] = Folds(plan)
    return found


# Weight sequencer -----------------------------------------------------------------------------


def weight_sequencer(context: Context, shared: Handshake) -> Coroutine:
    """Reads weights up to one fold ahead of the main sequencer."""
    clocks = context.clocks
    number = 0
    while True:
        while not shared.plans:
            yield Blocked("matrix (weights)", None, "has no instruction")
        plan = shared.active = shared.plans.popleft()
        folds = _folds(plan)
        for chunk in range(folds.chunks.size):
            ahead = Blocked("matrix (weights)", plan.index, "waits for the fold before to begin")
            while shared.begun < number:
                yield ahead
            slots = [s for s in plan.waits if s.point is Point.WEIGHTS]
            start, end = folds.chunks.starts[chunk], folds.chunks.ends[chunk]
            yield from acquire(context, plan, [s for s in slots if s.level >= start], " (weights)")
            if clocks is not None and (before := shared.finished.pop(number - 2, None)) is not None:
                clocks.learn(Timeline.WEIGHTS, before)
            shared.ready.append(_read_weights(context, plan, chunk))
            if folds.steps(chunk).size > 1:
                # Folds after the first wait for the main sequencer to begin this chunk.
                while shared.begun <= number:
                    yield ahead
            posts = [s for s in plan.posts if s.point is Point.WEIGHTS and s.level >= end]
            release(context, plan, posts)
            number += 1
            yield None
        shared.active = None


def _read_weights(context: Context, plan: Plan, chunk: int) -> Weights:
    v, config = plan.v, context.config
    folds = _folds(plan)
    steps = folds.steps(chunk)
    rows = _extent(folds, chunk, v["row_loop"], v["rows"], v["rows_last"])
    cols = _extent(folds, chunk, v["col_loop"], v["cols"], v["cols_last"])
    base = v["wgt_base"] + folds.chunks.offset("wgt", chunk)
    row = np.arange(config.rows)
    address = (base + steps.offset("wgt")[:, None] + row * v["wgt_row"]) & _CHIP
    used = row < rows[:, None]
    for n in np.unique(cols):
        wanted = address[used & (cols == n)[:, None]]
        context.read("spad", wanted, int(n), Timeline.WEIGHTS, plan.index)
    raw = context.state.spad_windows(config.cols)[np.where(used, address, 0)]
    values = (raw if v["wgt_unsigned"] else raw.view(np.int8)).astype(np.float32)
    values -= v["wgt_zp"]
    keep = used[:, :, None] & (np.arange(config.cols) < cols[:, None, None])
    if not keep.all():
        values *= keep
    read = context.clocks.publish(Timeline.WEIGHTS) if context.clocks is not None else None
    return Weights(values, rows, read)


def _extent(folds: Folds, chunk: int, loop: int, plain: int, final: int) -> Ints:
    """[folds]: rows or columns in use."""
    steps = folds.steps(chunk)
    out = np.full(steps.size, plain)
    if loop < folds.level:
        if folds.chunks.steps.last[loop, chunk]:
            out[:] = final
    elif loop < LOOPS:
        out[steps.last[loop - folds.level]] = final
    return out


# Main sequencer -------------------------------------------------------------------------------


def main_sequencer(context: Context, queue: Queue, shared: Handshake) -> Coroutine:
    """Streams activations through the weights that the other sequencer has read."""
    clocks = context.clocks
    while True:
        while not queue.waiting:
            yield Blocked(queue.name, None, "has no instruction")
        plan = queue.waiting.popleft()
        queue.active = plan
        folds = _folds(plan)
        weight_chunk = -1
        for chunk in range(plan.chunks.size):
            yield from acquire(context, plan, plan.main_waits(chunk))
            # Level 0 begins with the first chunk, so `weights` is always set there.
            if plan.chunks.starts[chunk] <= folds.level:
                while not shared.ready:
                    yield Blocked(queue.name, plan.index, "waits for its weights")
                weights = shared.ready.popleft()
                weight_chunk += 1
                shared.begun += 1
                if clocks is not None and weights.read is not None:
                    clocks.learn(Timeline.MATRIX_ISSUE, weights.read)
                yield None
            _Stream(context, plan, chunk, weight_chunk, weights).execute()
            if clocks is not None and plan.chunks.ends[chunk] <= folds.level:
                finished = clocks.publish(Timeline.MATRIX_ISSUE)
                shared.finished[shared.begun - 1] = finished
            release(context, plan, plan.main_posts(chunk))
            yield None
        queue.active = None


@dataclass(frozen=True, slots=True)
class Bundle:
    """Folds that one product computes: `groups` accumulator blocks from the same activations.

    folds: [groups, k] fold numbers; acc: [groups] offsets; fresh: the old value is dropped.
    """

    folds: Ints
    acc: Ints
    fresh: bool


class _Stream:
    """One main chunk: the folds of a weight chunk, or part of one fold."""

    def __init__(
        self, context: Context, plan: Plan, chunk: int, weight_chunk: int, weights: Weights
    ) -> None:
        self.context, self.plan, self.chunk, self.weights = context, plan, chunk, weights
        self.folds = _folds(plan)
        self.fold_steps = self.folds.steps(weight_chunk)
        k_loops = plan.v["k_loops"]
        index = plan.chunks.steps.index[:, chunk]
        self.outer_first = not any(k_loops >> i & 1 and index[i] for i in range(plan.level))

    def base(self, operand: str, stride: str) -> int:
        start: int = self.plan.v[operand]
        return start + self.plan.chunks.offset(stride, self.chunk)

    def stream(self, fold: int) -> Steps:
        """Vectors of a fold."""
        if self.fold_steps.index.shape[0]:
            return self.folds.stream.steps(bool(self.fold_steps.last[-1, fold]))
        return self.folds.stream.steps(self.plan.chunks.outer_last[self.chunk])

    def execute(self) -> None:
        init = self.outer_first and not self.plan.v["accumulate"]
        last = self.plan.chunks.outer_last[self.chunk]
        self._check_reads()
        self.context.reads_done(Timeline.MATRIX_ISSUE, Timeline.MATRIX_DONE)
        key = (last, init)
        if key not in self.folds.bundles:
            self.folds.bundles[key] = self._bundles(init)
        bundles = self.folds.bundles[key]
        if bundles is None:
            for fold in range(self.fold_steps.size):
                self._fold_by_fold(fold, init)
        else:
            for bundle in bundles:
                self._bundle(bundle)

    # Checks ---------------------------------------------------------------------------------

    def _check_reads(self) -> None:
        index = self.plan.index
        for n in np.unique(self.weights.rows):
            chosen = np.flatnonzero(self.weights.rows == n)
            parts = []
            for group, stream in self._by_stream(chosen):
                address, inside = self.activations(group, stream)
                parts.append(address[inside])
            wanted = np.concatenate(parts)
            self.context.read("spad", wanted, int(n), Timeline.MATRIX_ISSUE, index)

    def _by_stream(self, folds: Ints) -> list[tuple[Ints, Steps]]:
        if not self.folds.stream.ragged or not self.fold_steps.index.shape[0]:
            return [(folds, self.stream(int(folds[0])))]
        final = self.fold_steps.last[-1, folds]
        parts = [folds[~final], folds[final]]
        return [(part, self.stream(int(part[0]))) for part in parts if part.size]

    def activations(self, folds: Ints, stream: Steps) -> tuple[Ints, Bools]:
        """[steps, folds]: addresses of the activation vectors, and which lie inside."""
        v, steps = self.plan.v, self.fold_steps
        address = stream.offset("act")[:, None] + (
            steps.offset("act")[folds] + self.base("act_base", "act")
        )
        y = stream.offset("dy")[:, None] + (steps.offset("dy")[folds] + self.base("y0", "dy"))
        x = stream.offset("dx")[:, None] + (steps.offset("dx")[folds] + self.base("x0", "dx"))
        y, x = signed16(y), signed16(x)
        inside = (y >= 0) & (y < v["height"]) & (x >= 0) & (x < v["width"])
        return address & _CHIP, inside

    def _gather(self, folds: Ints, stream: Steps) -> Floats:
        """[steps, folds, rows]: activations minus zero point."""
        v, config = self.plan.v, self.context.config
        address, inside = self.activations(folds, stream)
        everywhere = bool(inside.all())
        if not everywhere:
            address = np.where(inside, address, 0)
        raw = self.context.state.spad_windows(config.rows)[address]
        values = (raw if v["act_unsigned"] else raw.view(np.int8)).astype(np.float32)
        if v["act_zp"]:
            values -= v["act_zp"]
        if not everywhere:
            values[~inside] = 0
        return values

    def _product(self, values: Floats, folds: Ints) -> NDArray[np.int32]:
        """[steps, groups x cols] of activations [steps, k, rows] and folds [groups, k]."""
        v, config = self.plan.v, self.context.config
        groups, k = folds.shape
        weights = self.weights.values[folds].transpose(1, 2, 0, 3)
        limit = _EXACT // (_largest(v, "act") * _largest(v, "wgt"))
        span = max(1, limit // config.rows)
        out = np.zeros((values.shape[0], groups * config.cols), np.int32)
        for at in range(0, k, span):
            left = values[:, at : at + span].reshape(values.shape[0], -1)
            right = weights[at : at + span].reshape(-1, groups * config.cols)
            out += (left @ right).astype(np.int32)
        return out

    # Many folds in one product ----------------------------------------------------------------

    def _bundles(self, init: bool) -> list[Bundle] | None:
        """How to compute all folds in few products; None where their order matters."""
        steps, stream = self.fold_steps, self.stream(0)
        if (self.folds.stream.ragged and steps.size > 1) or self._stream_reduces(stream):
            return None
        acc, within = steps.offset("acc"), stream.offset("acc")
        blocks = np.unique(acc)
        every = (blocks[:, None] + within) & _ACC
        if np.unique(every).size != every.size:
            return None
        first = self._fold_first(steps) if init else np.zeros(steps.size, np.bool_)
        sources = np.stack([steps.offset(s) for s in ("act", "dy", "dx")])
        bundles: dict[tuple[bytes, bool], list[Ints]] = {}
        for block in blocks:
            folds = np.flatnonzero(acc == block)
            fresh = np.flatnonzero(first[folds])
            if fresh.size:
                folds = folds[fresh[-1] :]
            key = (sources[:, folds].tobytes(), bool(fresh.size))
            bundles.setdefault(key, []).append(folds)
        return [
            Bundle(np.stack(folds), acc[[f[0] for f in folds]], fresh)
            for (_, fresh), folds in bundles.items()
        ]

    def _stream_reduces(self, stream: Steps) -> bool:
        low = self.folds.stream.low
        k_loops = self.plan.v["k_loops"]
        return any(k_loops >> (low + i) & 1 and row.any() for i, row in enumerate(stream.index))

    def _fold_first(self, steps: Steps) -> Bools:
        """[folds]: every reduction loop among the folds' own is in its first iteration."""
        first = np.ones(steps.size, np.bool_)
        for i, row in enumerate(steps.index):
            if self.plan.v["k_loops"] >> (self.folds.level + i) & 1:
                first &= row == 0
        return first

    def _bundle(self, bundle: Bundle) -> None:
        stream = self.stream(0)
        vectors = self._vectors(bundle.acc, stream)
        self._write_check(vectors, bundle.fresh)
        values = self._gather(bundle.folds[0], stream)
        result = self._product(values, bundle.folds)
        result = result.reshape(*vectors.shape, self.context.config.cols)
        acc = self.context.state.acc
        acc[vectors] = result if bundle.fresh else acc[vectors] + result

    def _vectors(self, block: Ints, stream: Steps) -> Ints:
        """[steps, blocks]: accumulator vectors."""
        base = self.base("acc_base", "acc")
        return (stream.offset("acc")[:, None] + (block + base)) & _ACC

    def _write_check(self, vectors: Ints, fresh: bool) -> None:
        context, index = self.context, self.plan.index
        flat = vectors.reshape(-1)
        if context.hazards is not None and not fresh:
            context.bounds("acc", flat, 1, Timeline.MATRIX_DONE, index)
            context.hazards.accumulate(context.acc, flat, Timeline.MATRIX_DONE, index)
        context.write("acc", flat, 1, Timeline.MATRIX_DONE, index)

    # One fold after the other -----------------------------------------------------------------

    def _fold_by_fold(self, fold: int, init: bool) -> None:
        """A fold whose vectors may meet in the accumulator: in program order."""
        stream = self.stream(fold)
        chosen = np.array([fold])
        vectors = self._vectors(self.fold_steps.offset("acc")[chosen], stream)[:, 0]
        first = np.full(stream.size, init and bool(self._fold_first(self.fold_steps)[fold]))
        for i, row in enumerate(stream.index):
            if self.plan.v["k_loops"] >> (self.folds.stream.low + i) & 1:
                first &= row == 0
        values = self._product(self._gather(chosen, stream), chosen[None])
        acc = self.context.state.acc
        for step, vector in enumerate(vectors):
            at = vectors[step : step + 1]
            self._write_check(at, bool(first[step]))
            acc[vector] = values[step] + (0 if first[step] else acc[vector])


def _largest(v: dict[str, int], operand: str) -> int:
    """Largest magnitude of an operand minus its zero point (at least 1)."""
    low, high = (0, 255) if v[f"{operand}_unsigned"] else (-128, 127)
    zero = v[f"{operand}_zp"]
    return max(abs(low - zero), abs(high - zero), 1)

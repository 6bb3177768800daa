"""One chunk of a MATRIX: activations from the scratchpad times weights, by exact BLAS."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from golden_model.access import Context
from golden_model.clocks import Clock, Timeline
from golden_model.folds import Bundle, Source, folds_of
from golden_model.loops import Bools, Ints, Steps, signed_chip_address, wrapped_position
from golden_model.matrix_boxes import Place, Product, product_of
from golden_model.program import Plan
from golden_model.values import BLOCK, Floats, activations, largest, operands
from golden_model.widths import CHIP_MASK, VECTOR_MASK

_EXACT = 1 << 24
"""float32 holds every integer up to here."""


@dataclass(frozen=True, slots=True)
class Weights:
    """One weight chunk: values [folds, rows, cols] minus zero point, zero outside R and C.

    read: the clock of the weight sequencer after it had read them. product: the values are in the
    order of this product; None: as the weight sequencer reads them.
    """

    values: Floats
    read: Clock | None = None
    product: Product | None = None


def read_weights(context: Context, plan: Plan, chunk: int) -> Weights:
    """Gather the weights of weight chunk `chunk`."""
    v, config = plan.v, context.config
    folds = folds_of(plan)
    base = v["wgt_base"] + folds.chunks.offset("wgt", chunk)
    if product := product_of(folds, chunk, config.cols):
        right = product.read_weights(context.state, base)
        if right is not None:
            context.reads(
                "spad", product.wgt_region, signed_chip_address(base), Timeline.WEIGHTS, plan.index
            )
            return Weights(right, _published(context), product)
    steps = folds.steps(chunk)
    # Vectors of weights are rows of the array, or its columns.
    many = folds.extent(chunk, v["row_loop"], v["rows"], v["rows_last"])
    long = folds.extent(chunk, v["col_loop"], v["cols"], v["cols_last"])
    most, longest = config.rows, config.cols
    if v["transposed"]:
        many, long, most, longest = long, many, longest, most
    vector = np.arange(most)
    address = (base + steps.offset("wgt")[:, None] + vector * v["wgt_row"]) & CHIP_MASK
    used = vector < many[:, None]
    address[~used] = 0
    if context.hazards is not None or int(address.max()) + longest > config.spad_bytes:
        for n in np.unique(long):
            wanted = address[used & (long == n)[:, None]]
            context.read("spad", wanted, int(n), Timeline.WEIGHTS, plan.index)
    values = np.empty((*address.shape, longest), np.float32)
    operands(context, address, longest, v, "wgt", values)
    if int(many.min()) < most or int(long.min()) < longest:
        values *= used[:, :, None] & (np.arange(longest) < long[:, None, None])
    if v["transposed"]:
        values = np.ascontiguousarray(values.transpose(0, 2, 1))
    return Weights(values, _published(context))


def _published(context: Context) -> Clock | None:
    return context.clocks.publish(Timeline.WEIGHTS) if context.clocks is not None else None


class Stream:
    """One main chunk: the vectors of the folds of a weight chunk, or a part of one fold's."""

    def __init__(
        self, context: Context, plan: Plan, chunk: int, weight_chunk: int, weights: Weights
    ) -> None:
        self.context, self.plan, self.chunk, self.weights = context, plan, chunk, weights
        self.weight_chunk = weight_chunk
        self.folds = folds_of(plan)
        self.steps = self.folds.steps(weight_chunk)

    def execute(self) -> None:
        """Read activations, multiply, accumulate."""
        init = self.folds.outer_first(self.chunk) and not self.plan.v["accumulate"]
        if (product := self.weights.product) is not None:
            if product.fits(self.context.state, self._place()):
                self._regular(product, init)
                return
            values = product.unpacked(self.weights.values, self.context.config.rows)
            self.weights = Weights(values)
        bundles = self.folds.bundles(self.chunk, self.steps, init)
        if self.context.hazards is not None or bundles is None or not bundles.complete:
            self._check_reads()
        self.context.reads_done(Timeline.MATRIX_ISSUE, Timeline.MATRIX_DONE)
        if bundles is None:
            for fold in range(self.steps.size):
                self._one_fold(fold, init)
        else:
            for bundle in bundles.bundles:
                self._bundle(bundle)

    def _regular(self, product: Product, init: bool) -> None:
        """The same by strided views."""
        context, index, place = self.context, self.plan.index, self._place()
        touched = product.windows.region(place.y, place.x)
        context.reads("spad", touched, place.act, Timeline.MATRIX_ISSUE, index)
        context.reads_done(Timeline.MATRIX_ISSUE, Timeline.MATRIX_DONE)
        context.sums(product.acc_region, place.acc, init, Timeline.MATRIX_DONE, index)
        product.execute(context.state, place, self.weights.values, init)

    def _place(self) -> Place:
        return Place(
            signed_chip_address(self.base("act_base", "act")),
            self.base("acc_base", "acc") & VECTOR_MASK,
            self.base("y0", "dy"),
            self.base("x0", "dx"),
        )

    def base(self, operand: str, stride: str) -> int:
        start: int = self.plan.v[operand]
        return start + self.plan.chunks.offset(stride, self.chunk)

    def vectors(self, fold: int) -> Steps:
        return self.folds.vectors(self.chunk, self.steps, fold)

    # Activations --------------------------------------------------------------------------------

    def _check_reads(self) -> None:
        """Every activation byte of the chunk: within the scratchpad, written, and ordered."""
        v = self.plan.v
        rows = self.folds.extent(self.weight_chunk, v["row_loop"], v["rows"], v["rows_last"])
        for n in np.unique(rows):
            chosen = np.flatnonzero(rows == n)
            parts = []
            for group in self._by_vectors(chosen):
                vectors = self.vectors(int(group[0]))
                address, inside = self._addresses(Source(self.steps, group), vectors, slice(None))
                parts.append(address.reshape(-1) if inside is None else address[inside])
            wanted = np.concatenate(parts)
            self.context.read("spad", wanted, int(n), Timeline.MATRIX_ISSUE, self.plan.index)

    def _by_vectors(self, folds: Ints) -> list[Ints]:
        """Folds grouped by the shape of their stream."""
        if not self.folds.stream.ragged or not self.steps.index.shape[0]:
            return [folds]
        final = self.steps.last[-1, folds]
        return [part for part in (folds[~final], folds[final]) if part.size]

    def _addresses(self, source: Source, vectors: Steps, part: slice) -> tuple[Ints, Bools | None]:
        """[vectors, folds]: addresses, and which lie inside the input (None: all)."""
        v = self.plan.v
        y = wrapped_position(vectors.offset("dy")[part, None] + (source.y + self.base("y0", "dy")))
        x = wrapped_position(vectors.offset("dx")[part, None] + (source.x + self.base("x0", "dx")))
        inside = (y >= 0) & (y < v["height"]) & (x >= 0) & (x < v["width"])
        address = vectors.offset("act")[part, None] + (source.act + self.base("act_base", "act"))
        address &= CHIP_MASK
        return address, None if inside.all() else inside[:, source.spot_of]

    def _activations(self, source: Source, vectors: Steps, part: slice) -> Floats:
        """[vectors, folds, rows]: activations minus zero point, valid until the next call."""
        context, config, v = self.context, self.context.config, self.plan.v
        address, inside = self._addresses(source, vectors, part)
        if context.hazards is None:
            used = address if inside is None else address[inside]
            if used.size and int(used.max()) + config.rows > config.spad_bytes:
                self._check_reads()
        return activations(context, address, inside, config.rows, v)

    # Products -----------------------------------------------------------------------------------

    def _product(self, values: Floats, weights: Floats) -> NDArray[np.int32]:
        """[vectors, n] of activations [vectors, k, rows] and weights [k, rows, n], exactly."""
        v = self.plan.v
        k, rows, n = weights.shape
        left, right = values.reshape(-1, k * rows), weights.reshape(k * rows, n)
        span = _EXACT // (largest(v, "act") * largest(v, "wgt"))
        out: NDArray[np.int32] | None = None
        for at in range(0, k * rows, span):
            part = (left[:, at : at + span] @ right[at : at + span]).astype(np.int32)
            out = part if out is None else out + part
        assert out is not None
        return out

    def _bundle(self, bundle: Bundle) -> None:
        """Accumulate several folds with one product per block of vectors."""
        vectors = self.vectors(0)
        blocks, k = bundle.folds.shape
        cols, acc = self.context.config.cols, self.context.state.acc
        target = self._targets(bundle.acc, vectors)
        self._check_targets(target.reshape(-1), bundle.fresh)
        weights = self.weights.values[bundle.folds].transpose(1, 2, 0, 3)
        weights = weights.reshape(k, -1, blocks * cols)
        rows = max(1, BLOCK // (k * weights.shape[1]))
        for at in range(0, vectors.size, rows):
            part = slice(at, at + rows)
            values = self._activations(bundle.source, vectors, part)
            result = self._product(values, weights).reshape(-1, blocks, cols)
            acc[target[part]] = result if bundle.fresh else acc[target[part]] + result

    def _targets(self, blocks: Ints, vectors: Steps) -> Ints:
        """[vectors, blocks]: accumulator vectors."""
        base = self.base("acc_base", "acc")
        return (vectors.offset("acc")[:, None] + (blocks + base)) & VECTOR_MASK

    def _check_targets(self, target: Ints, fresh: bool) -> None:
        self.context.accumulator(target, fresh, Timeline.MATRIX_DONE, self.plan.index)

    def _one_fold(self, fold: int, init: bool) -> None:
        """A fold whose vectors may meet in the accumulator: in program order."""
        vectors = self.vectors(fold)
        chosen = np.array([fold])
        target = self._targets(self.steps.offset("acc")[chosen], vectors)[:, 0]
        first = self.folds.vector_first(vectors)
        first &= init and bool(self.folds.fold_first(self.steps)[fold])
        values = self._activations(Source(self.steps, chosen), vectors, slice(None))
        result = self._product(values, self.weights.values[chosen])
        acc = self.context.state.acc
        for step, vector in enumerate(target.tolist()):
            self._check_targets(target[step : step + 1], bool(first[step]))
            acc[vector] = result[step] + (0 if first[step] else acc[vector])

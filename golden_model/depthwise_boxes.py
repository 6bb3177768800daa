"""DEPTHWISE by strided views: each fold a product with the kernel on the diagonals."""

import itertools
from functools import reduce
from typing import Any

import numpy as np

from golden_model.access import Context
from golden_model.boxes import Box, apart, boxes, strided, view
from golden_model.clocks import Timeline
from golden_model.lhs_cache import LARGEST
from golden_model.loops import signed_chip_address
from golden_model.program import Plan
from golden_model.regions import Region, region
from golden_model.state import State
from golden_model.values import Floats
from golden_model.widths import VECTOR_MASK
from golden_model.windows import Windows


def execute(context: Context, plan: Plan, chunk: int) -> bool:
    """Execute a chunk; False, and nothing done, where it is not regular or may fault."""
    state, v, chunks = context.state, plan.v, plan.chunks
    if plan.level > v["fold_loops"]:
        return False  # the weights may have been read by an earlier chunk
    where = (
        signed_chip_address(v["act_base"] + chunks.offset("act", chunk)),
        v["y0"] + chunks.offset("dy", chunk),
        v["x0"] + chunks.offset("dx", chunk),
    )
    wgt = signed_chip_address(v["wgt_base"] + chunks.offset("wgt", chunk))
    acc = v["acc_base"] + chunks.offset("acc", chunk) & VECTOR_MASK
    parts = _parts(state, plan, chunk)
    if not all(part.fits(state, where, wgt, acc) for part in parts):
        return False
    if context.hazards is not None and parts:
        _check(context, plan, parts, where, wgt, acc)
    for part in parts:
        part.execute(state, where, wgt, acc)
    return bool(parts)


def _check(
    context: Context,
    plan: Plan,
    parts: "list[Fold]",
    where: tuple[int, int, int],
    wgt: int,
    acc: int,
) -> None:
    act, y, x = where
    index, issue, done = plan.index, Timeline.DEPTHWISE_ISSUE, Timeline.DEPTHWISE_DONE
    weights = (region(part.wgt.first(), part.lanes) for part in parts)
    context.reads("spad", reduce(Region.__or__, weights), wgt, issue, index)
    activations = (part.windows.region(y, x) for part in parts)
    context.reads("spad", reduce(Region.__or__, activations), act, issue, index)
    context.reads_done(issue, done)
    vectors = reduce(Region.__or__, (region(part.acc, 1) for part in parts))
    context.sums(vectors, acc, not plan.v["accumulate"], done, index)


def _parts(state: State, plan: Plan, chunk: int) -> "list[Fold]":
    """The folds of a chunk; none if it is not regular."""
    v, chunks, loop = plan.v, plan.chunks, plan.v["lane_loop"]
    outer = bool(chunks.steps.last[loop, chunk]) if loop < plan.level else False
    key = ("parts", chunks.outer_last[chunk], outer)
    if key not in plan.cache:
        inner = loop - plan.level if plan.level <= loop < len(plan.loops) else None
        watched = {inner} if inner is not None and v["lanes"] != v["lanes_last"] else set()
        folds = []
        for box in boxes(plan.loops[plan.level :], key[1], watched):
            final = outer if inner is None else box.last[inner]
            folds += _folds(state, plan, box, v["lanes_last"] if final else v["lanes"])
        target = np.concatenate([fold.acc.grid().reshape(-1) for fold in folds])
        small = all(fold.size <= LARGEST for fold in folds)
        regular = small and apart(target, np.ones(target.size, np.int64))
        plan.cache[key] = folds if regular else []
    return plan.cache[key]


def _folds(state: State, plan: Plan, box: Box, lanes: int) -> "list[Fold]":
    """One for each iteration of a box's fold loops."""
    count = plan.v["fold_loops"] - plan.level
    ranges = (range(n) for n in box.count[:count])
    return [Fold(state, plan, box, lanes, index) for index in itertools.product(*ranges)]


class Fold:
    """The steps of one fold: left [outputs, k] times right [k, lanes].

    k goes over the kernel and the lanes; of the lanes, `right` has only each one's own.
    """

    def __init__(
        self, state: State, plan: Plan, box: Box, lanes: int, index: tuple[int, ...]
    ) -> None:
        v = plan.v
        self.v, self.lanes, self.cols = v, lanes, state.config.cols
        rows, columns, outputs, step = (
            v[name] for name in ("kernel_rows", "kernel_cols", "outputs", "stride")
        )
        inner = [i for i in box.dimensions if i >= len(index)]
        shape = tuple(box.count[i] for i in inner)

        def offset(name: str) -> int:
            starts = zip(box.start, box.loops, strict=True)
            first = sum(i * loop[name] for i, loop in starts)
            return first + sum(i * box.loops[d][name] for d, i in enumerate(index))

        def strides(name: str) -> tuple[int, ...]:
            return tuple(box.loops[i][name] for i in inner)

        left = (*shape, outputs, rows, columns)
        act = (*strides("act"), step * v["act_col"], v["act_row"], v["act_col"], 1)
        down = (*strides("dy"), 0, v["row_step"], 0)
        across = (*strides("dx"), step * v["col_step"], 0, v["col_step"])
        self.windows = Windows(
            v,
            strided((*left, lanes), act, offset("act")),
            strided(left, down, offset("dy")),
            strided(left, across, offset("dx")),
            lanes,
        )
        start = sum((box.start[d] + i) * box.loops[d]["wgt"] for d, i in enumerate(index))
        self.wgt = strided((rows, columns, lanes), (v["wgt_row"], v["wgt_col"], 1), start)
        self.acc = strided((*shape, outputs), (*strides("acc"), v["acc_col"]), offset("acc"))
        self.k = rows * columns * lanes
        self.size = int(np.prod(left, dtype=np.int64)) * lanes

    def fits(self, state: State, where: tuple[int, int, int], wgt: int, acc: int) -> bool:
        """No access faults."""
        if wgt + self.wgt.low < 0 or wgt + self.wgt.high >= state.spad.size:
            return False
        if acc + self.acc.low < 0 or acc + self.acc.high >= state.acc.shape[0]:
            return False
        return self.windows.fits(state, *where)

    def execute(self, state: State, where: tuple[int, int, int], wgt: int, acc: int) -> None:
        """Multiply and accumulate."""
        right = self._right(state, wgt)
        left = state.scratch((self.size // self.k, self.k))
        self.windows.gather(state, *where, left.reshape(self.windows.walk.shape))
        # At most 64 products of at most 2^16 each: exact in float32.
        product = left @ right
        if self.v["act_zp"]:
            product -= right.sum(axis=0) * np.float32(self.v["act_zp"])
        row = 4 * self.cols
        shape = (*self.acc.shape, self.cols)
        strides = (*(stride * row for stride in self.acc.strides), 4)
        start = (acc + self.acc.offset) * row
        vectors = view(state.acc_bytes, start, shape, strides, np.int32)
        total = vectors[..., : self.lanes]
        if self.v["accumulate"]:
            total += product.reshape(total.shape).astype(np.int32)
        else:
            np.copyto(total, product.reshape(total.shape), "unsafe")
            vectors[..., self.lanes :] = 0

    def _right(self, state: State, wgt: int) -> Floats:
        walk = self.wgt
        dtype: Any = np.uint8 if self.v["wgt_unsigned"] else np.int8
        raw = view(state.spad, wgt + walk.offset, walk.shape, walk.strides, dtype)
        right = np.zeros((*walk.shape, self.lanes), np.float32)
        lane = np.arange(self.lanes)
        right[..., lane, lane] = raw.astype(np.float32) - np.float32(self.v["wgt_zp"])
        return right.reshape(self.k, self.lanes)

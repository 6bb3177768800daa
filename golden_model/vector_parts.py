"""The boxes of a VECTOR chunk: where they read and write, and what they compute."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from golden_model.boxes import Box, Walk, apart, boxes, strided, view
from golden_model.lanes import (
    COMBINE,
    IDENTITY,
    Lanes,
    alu,
    clamp_and_shift,
    finish,
    rescale,
    times,
)
from golden_model.loops import Bools, Ints, wrapped_position
from golden_model.program import Plan
from golden_model.regions import Region
from golden_model.state import GUARD, State
from spec.config import PARAM_PARTS
from spec.exhaustive import handles
from spec.isa import LOOPS, Alu, DType, Reduce, Scale, Space, reads_b, uses_b
from spec.numerics import NUMPY, SHIFT_MAX, SHIFT_MIN

handles("golden_model.vector_parts", Scale, Scale.OFF, Scale.TENSOR, Scale.CHANNEL, Scale.OPERAND)
handles("golden_model.vector_parts", Space, Space.SPAD, Space.ACC, Space.PARAM, Space.TABLE)


@dataclass(frozen=True, slots=True)
class Place:
    """Where a chunk begins: addresses, parameter entry, position in the input."""

    a: int
    b: int
    o: int
    entry: int
    y: int
    x: int


def parts_of(state: State, plan: Plan, chunk: int) -> "list[Part]":
    """The boxes of a chunk; none if it is not regular."""
    v, chunks, loop = plan.v, plan.chunks, plan.v["lane_loop"]
    outer = bool(chunks.steps.last[loop, chunk]) if loop < plan.level else False
    key = ("parts", chunks.outer_last[chunk], outer)
    if key in plan.cache:
        return plan.cache[key]
    inner = loop - plan.level if plan.level <= loop < LOOPS else None
    watched = {inner} if inner is not None and v["lanes"] != v["lanes_last"] else set()
    parts = []
    for box in boxes(plan.loops[plan.level :], key[1], watched):
        final = outer if inner is None else box.last[inner]
        parts.append(Part(state, plan, box, v["lanes_last"] if final else v["lanes"]))
    complete = all(_reduces_whole(plan, part.box) for part in parts)
    plan.cache[key] = parts if complete and _apart(parts) else []
    return plan.cache[key]


def _reduces_whole(plan: Plan, box: Box) -> bool:
    """A reduction does not go on in another chunk or another box."""
    if plan.v["reduce"] == Reduce.NONE:
        return True
    for i, loop in enumerate(plan.loops):
        if plan.v["reduce_loops"] >> i & 1:
            inside = i >= plan.level
            if not (box.whole[i - plan.level] if inside else loop["count"] == loop["last"] == 1):
                return False
    return True


def _apart(parts: "list[Part]") -> bool:
    """No two steps write the same byte, so that their order does not matter."""
    address = [part.o.grid().reshape(-1) for part in parts]
    runs = [np.full(a.size, part.o_bytes) for a, part in zip(address, parts, strict=True)]
    return apart(np.concatenate(address), np.concatenate(runs))


@dataclass(frozen=True, slots=True)
class Inside:
    """The steps in the input, None for all of them; the extreme offsets of A and B there.

    regions: what they read of A and of B, for the hazard checks.
    """

    steps: Bools | None
    a: tuple[int, int]
    b: tuple[int, int]
    regions: dict[str, Region] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Channels:
    """Parameters of some steps, of size 1 in dimensions that do not step the entry."""

    bias: Lanes
    multiplier: Ints
    shift: Ints
    legal: bool


class Part:
    """One box of a chunk's steps, of `lanes` lanes each. kept: dimensions not reduced."""

    def __init__(self, state: State, plan: Plan, box: Box, lanes: int) -> None:
        v, cols = plan.v, state.config.cols
        self.v, self.box, self.lanes, self.cols = v, box, lanes, cols
        self.param_offset = state.config.param_offset
        self.in_acc = {name: v[f"{name}_space"] == Space.ACC for name in "ao"}
        units = {name: 4 * cols if acc else 1 for name, acc in self.in_acc.items()}
        self.result_lanes = 1 if v["reduce_lanes"] else lanes
        read = {name: 1 if v[f"{name}_one"] else lanes for name in "ab"}
        read["o"] = self.result_lanes
        self.bytes = {name: n * DType(v[f"{name}_type"]).bytes for name, n in read.items()}
        mask = v["reduce_loops"] >> plan.level if v["reduce"] != Reduce.NONE else 0
        self.kept = sum(not mask >> i & 1 for i in box.dimensions)
        self.a_bytes = units["a"] if self.in_acc["a"] else self.bytes["a"]
        self.a, self.b = box.walk("a", units["a"]), box.walk("b")
        self.o = self._of_results(box.walk("o", units["o"]))
        self.o_bytes = units["o"] if self.in_acc["o"] else self.bytes["o"]
        entries = box.walk("param", state.config.param_entry_bytes)
        self.entries = {"a": entries, "o": self._of_results(entries)}
        self.y, self.x = (box.walk(stride).compact() for stride in ("dy", "dx"))
        self.regions: dict[str, Region] = {}
        self._inside: dict[tuple[int, int], Inside] = {}

    def _of_results(self, walk: Walk) -> Walk:
        """The walk of the steps that write: the last one of each reduction."""
        spans = [(n - 1) * s for n, s in zip(self.box.shape, walk.strides, strict=True)]
        offset = walk.offset + sum(spans[self.kept :])
        return strided(walk.shape[: self.kept], walk.strides[: self.kept], offset)

    # Whether it can be done ---------------------------------------------------------------------

    def inside(self, place: Place) -> Inside:
        found = self._inside.get((place.y, place.x))
        if found is None:
            found = self._inside[place.y, place.x] = self._find_inside(place.y, place.x)
        return found

    def _find_inside(self, y: int, x: int) -> Inside:
        v = self.v
        rows, columns = wrapped_position(self.y + y), wrapped_position(self.x + x)
        steps = (rows >= 0) & (rows < v["height"]) & (columns >= 0) & (columns < v["width"])
        if steps.all():
            return Inside(None, (self.a.low, self.a.high), (self.b.low, self.b.high))
        steps = np.broadcast_to(steps, self.box.shape)
        address = [walk.grid()[steps] for walk in (self.a, self.b)]
        first, second = [(int(a.min()), int(a.max())) if a.size else (0, 0) for a in address]
        return Inside(steps, first, second)

    def fits(self, state: State, place: Place) -> bool:
        """Every access is within its memory, and so near that a view can have the rest."""
        v, found = self.v, self.inside(place)
        if not self._source_fits(state, "a", place.a, self.a, found.steps, found.a):
            return False
        binary = reads_b(v)
        if binary and not self._source_fits(state, "b", place.b, self.b, found.steps, found.b):
            return False
        if self.in_acc["o"]:
            low, high = place.o * 4 * self.cols, state.acc_bytes.size
        else:
            low, high = place.o, state.spad.size
        if low + self.o.low < 0 or low + self.o.high + self.o_bytes > high:
            return False
        return all(self._channels_fit(state, name, place) for name in "ao")

    def _source_fits(
        self,
        state: State,
        name: str,
        base: int,
        walk: Walk,
        steps: Bools | None,
        extremes: tuple[int, int],
    ) -> bool:
        size, guard, reach = state.spad.size, GUARD, self.bytes[name]
        if name == "a" and self.in_acc["a"]:
            base, size, guard, reach = base * 4 * self.cols, state.acc_bytes.size, 0, 4 * self.cols
        if steps is not None:
            if base + walk.low < -guard or base + walk.high + reach > size + guard:
                return False
            if not steps.any():
                return True
        return base + extremes[0] >= 0 and base + extremes[1] + reach <= size

    def _channels_fit(self, state: State, name: str, place: Place) -> bool:
        v = self.v
        scaled = v[f"{name}_scale"] == Scale.CHANNEL
        if not scaled and not (name == "a" and v["bias"]):
            return True
        base, walk = place.entry * state.config.param_entry_bytes, self.entries[name]
        end = base + walk.high + state.config.param_entry_bytes
        if base + walk.low < 0 or end > state.param.size:
            return False
        return not scaled or self.channels(state, name, place).legal

    def channels(self, state: State, name: str, place: Place) -> Channels:
        """The parameters of the steps (a) or of the results (o)."""
        key = (self, name, place.entry)
        found: Channels | None = state.parameters.get(key)
        if found is None:
            found = state.parameters[key] = self._read_channels(state, name, place)
        return found

    def _read_channels(self, state: State, name: str, place: Place) -> Channels:
        walk = self.entries[name]
        base = place.entry * state.config.param_entry_bytes + walk.offset
        steps = zip(walk.shape, walk.strides, strict=True)
        lanes = self.result_lanes if name == "o" else self.lanes
        shape = (*(n if stride else 1 for n, stride in steps), lanes)

        def part(name: str) -> NDArray[Any]:
            at, size = base + state.config.param_offset(name), PARAM_PARTS[name]
            return view(state.param, at, shape, (*walk.strides, size), f"<i{size}")

        shift = part("shift").astype(np.int64)
        legal = bool(((shift >= SHIFT_MIN) & (shift <= SHIFT_MAX)).all())
        multiplier = part("multiplier").astype(np.int64)
        return Channels(part("bias").astype(np.int32), multiplier, shift, legal)

    # Doing it -----------------------------------------------------------------------------------

    def compute(self, state: State, place: Place) -> Lanes:
        """[results, lanes]: what the results' steps write."""
        v, steps = self.v, self.inside(place).steps
        value = self._source(state, "a", place.a, self.a, steps)
        if v["bias"]:
            value += self.channels(state, "a", place).bias
        second = self._source(state, "b", place.b, self.b, steps) if uses_b(v) else None
        if v["a_scale"] == Scale.OPERAND and second is not None:
            value = times(value, second, v["a_shift"])
        else:
            value = self._scale(state, "a", value, place)
        if second is not None and not Alu(v["alu"]).unary:
            second = self._scale(state, "b", second, place)
        value = alu(Alu(v["alu"]), clamp_and_shift(v, value), second)
        if v["reduce"] != Reduce.NONE:
            value = self._reduce(value, steps)
        return finish(v, self._scale(state, "o", value, place), state.table)

    def _source(self, state: State, name: str, base: int, walk: Walk, steps: Bools | None) -> Lanes:
        shape = (*self.box.shape, self.lanes)
        if steps is not None and not steps.any():
            return np.zeros(shape, np.int32)
        one = self.v[f"{name}_one"]
        lanes, shape = shape, (*self.box.shape, 1 if one else self.lanes)
        if name == "b" and self.v["b_none"]:
            value = np.zeros(shape, np.int32)
        elif name == "a" and self.in_acc["a"]:
            start = base * 4 * self.cols + walk.offset
            value = view(state.acc_bytes, start, shape, (*walk.strides, 4), np.int32).copy()
        else:
            dtype = NUMPY[DType(self.v[f"{name}_type"])]
            strides = (*walk.strides, np.dtype(dtype).itemsize)
            start = GUARD + base + walk.offset
            value = view(state.guarded, start, shape, strides, dtype).astype(np.int32, order="C")
        if self.v[f"{name}_zp"]:
            value -= np.int32(self.v[f"{name}_zp"])
        if steps is not None:
            value[~steps] = 0
        return np.broadcast_to(value, lanes).copy() if one else value

    def _scale(self, state: State, name: str, value: Lanes, place: Place) -> Lanes:
        kind = self.v[f"{name}_scale"]
        if kind == Scale.OFF:
            return value
        if kind == Scale.TENSOR:
            return rescale(value, self.v[f"{name}_mult"], self.v[f"{name}_shift"])
        assert kind == Scale.CHANNEL
        channels = self.channels(state, name, place)
        return rescale(value, channels.multiplier, channels.shift)

    def _reduce(self, value: Lanes, steps: Bools | None) -> Lanes:
        kind = Reduce(self.v["reduce"])
        if steps is not None:
            value[~steps] = IDENTITY[kind]
        value = value.reshape(*self.box.shape[: self.kept], -1, self.lanes)
        out: Lanes = COMBINE[kind].reduce(value, axis=-2, dtype=np.int32)
        if self.v["reduce_lanes"]:
            out = COMBINE[kind].reduce(out, axis=-1, dtype=np.int32, keepdims=True)
        return out

    def write(self, state: State, place: Place, value: Lanes) -> None:
        """Write the results; in the accumulator, 0 in lanes that are not in use."""
        if self.in_acc["o"]:
            start = place.o * 4 * self.cols + self.o.offset
            shape, strides = (*value.shape[:-1], self.cols), (*self.o.strides, 4)
            out = view(state.acc_bytes, start, shape, strides, np.int32)
            out[..., : self.result_lanes] = value
            out[..., self.result_lanes :] = 0
        else:
            dtype = NUMPY[DType(self.v["o_type"])]
            strides = (*self.o.strides, np.dtype(dtype).itemsize)
            start = place.o + self.o.offset
            state.lhs_cache.written(place.o + self.o.low, place.o + self.o.high + self.o_bytes)
            np.copyto(view(state.spad, start, value.shape, strides, dtype), value, "unsafe")

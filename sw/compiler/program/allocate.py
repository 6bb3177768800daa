"""Stage `allocate`: addresses in scratchpad, parameter memory and DRAM.

On chip, below the tensors that stay there, the buffers of a layer lie one after another in a ring
that the next layer continues, so that its first loads seldom wait for this layer's last work. In
DRAM, temporaries share bytes when their lifetimes (first writing layer to last reading layer) do
not overlap.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from spec.config import NpuConfig
from spec.program import ALIGN, REGION_INPUT, REGION_OUTPUT, REGION_TEMP
from sw.compiler.errors import LegalityError
from sw.compiler.kernels.base import LayerProgram, common_weights
from sw.compiler.kernels.budget import MemoryBudget, Overlap
from sw.compiler.placement.residency import Residency
from sw.compiler.program.virtual import Buffer, Place, VirtualProgram

FOLLOWERS = 2
"""Layers that begin before one that flows has ended: they must not overwrite what it reads."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Peaks:
    """Most bytes (or entries) in use at once."""

    spad_bytes: int
    param_entries: int
    temp_bytes: int


def align(value: int, to: int) -> int:
    """`value` rounded up to a multiple of `to`."""
    return -(-value // to) * to


def allocate_on_chip(
    virtual: VirtualProgram, residency: Residency, config: NpuConfig
) -> tuple[int, int]:
    """Place the rotating SPAD and PARAM buffers; returns the most bytes and entries in use."""
    peaks = []
    for place, whole, step in (
        (Place.SPAD, config.spad_bytes, config.word_bytes),
        (Place.PARAM, config.param_entries, 1),
    ):
        cursor = peak = 0
        layers: dict[int, list[Buffer]] = {}
        for buffer in virtual.buffers:
            if buffer.place is place:
                layers.setdefault(buffer.layer, []).append(buffer)
        for layer, buffers in layers.items():
            spad = place is Place.SPAD
            # Tensors on chip lie above the budgets of the layers of their life. Nothing stays in
            # the parameter memory from layer to layer.
            capacity = residency.budgets[layer].spad_bytes if spad else whole
            cursor = _place_ring(buffers, min(cursor, capacity), capacity, step)
            peak = max(peak, sum(b.size for b in buffers) + whole - capacity)
        peaks.append(peak)
    return peaks[0], peaks[1]


def _place_ring(buffers: list[Buffer], cursor: int, capacity: int, step: int) -> int:
    """Place `buffers` from `cursor` on, wrapping; from 0 if the wrapped part would not fit."""
    # From where the layer before ended: its last buffers are still read. From 0 if the wrapped
    # part would run into the first.
    for start in (cursor, 0):
        at, wrapped = start, False
        for buffer in buffers:
            size = align(buffer.size, step)
            if at + size > capacity and not wrapped:
                at, wrapped = 0, True
            if at + size > (start if wrapped else capacity):
                break
            buffer.address = at
            at += size
        else:
            return at
    total = sum(align(b.size, step) for b in buffers)
    raise LegalityError(
        f"layer {buffers[0].layer}: buffers of {total} do not fit in {capacity} "
        f"({buffers[0].place.value})"
    )


def tensor_buffers(program: LayerProgram, residency: Residency) -> dict[str, Buffer]:
    """A buffer for every storage root: in its region, or on chip at its address. Weights that stay
    there have one too.
    """
    storage = program.storage
    sizes = storage.nbytes | common_weights(program)
    return {
        root: Buffer(name=root, place=Place.SPAD, size=size, address=residency.address[root])
        if root in residency.address
        else Buffer(name=root, place=Place.DRAM, size=size, region=storage.region[root])
        for root, size in sizes.items()
        if root in residency.address or root in storage.region
    }


def allocate_dram(
    program: LayerProgram,
    buffers: dict[str, Buffer],
    graph_inputs: list[str],
    *,
    budgets: Sequence[MemoryBudget],
    share: bool = True,
) -> int:
    """Offsets of inputs, outputs and temporaries; returns the bytes of the temporary region.

    `budgets`: of the layers. `share`: temporaries may lie where others lay that are read no more.
    """
    storage = program.storage
    for region, names in (
        (REGION_INPUT, graph_inputs),
        (REGION_OUTPUT, list(dict.fromkeys(storage.outputs.values()))),
    ):
        at = 0
        for name in names:
            if storage.region[name] == region:
                buffers[name].address = at
                at += align(buffers[name].size, ALIGN)
    # A layer that streams rows runs into the ones behind it, whose bytes must be others.
    follow = [0 if b.overlap is Overlap.NONE else FOLLOWERS for b in budgets]
    born: dict[str, int] = {}
    dies: dict[str, int] = {}
    for i, layer in enumerate(program.layers):
        for view in layer.outputs:
            born.setdefault(view.tensor, i)
        for view in (*layer.inputs, *layer.outputs):
            # Without sharing every tensor lives to the end, where somebody wants to look at it.
            dies[view.tensor] = i + follow[i] if share else len(program.layers)
    temps = [
        r
        for r, b in buffers.items()
        if b.place is Place.DRAM and b.region == REGION_TEMP and r in born
    ]
    # Large ones first, each at the lowest gap among those that live at the same time.
    placed: list[str] = []
    total = 0
    for root in sorted(temps, key=lambda r: -buffers[r].size):
        alive = sorted(
            (buffers[p].address, buffers[p].address + buffers[p].size)
            for p in placed
            if born[p] <= dies[root] and born[root] <= dies[p]
        )
        at = 0
        for start, stop in alive:
            if start - at >= buffers[root].size:
                break
            at = max(at, align(stop, ALIGN))
        buffers[root].address = at
        placed.append(root)
        total = max(total, align(at + buffers[root].size, ALIGN))
    return total


def check_on_chip(virtual: VirtualProgram, config: NpuConfig) -> None:
    """Buffers of one layer are inside their memory and disjoint."""
    limits = {Place.SPAD: config.spad_bytes, Place.PARAM: config.param_entries}
    by_layer: dict[tuple[int, Place], list[Buffer]] = {}
    for buffer in virtual.buffers:
        if buffer.place in limits:
            by_layer.setdefault((buffer.layer, buffer.place), []).append(buffer)
    for (layer, place), buffers in by_layer.items():
        end = 0
        for buffer in sorted(buffers, key=lambda b: b.address):
            if buffer.address < end or buffer.address + buffer.size > limits[place]:
                raise LegalityError(f"layer {layer}: {buffer} overlaps or leaves its memory")
            end = buffer.address + buffer.size

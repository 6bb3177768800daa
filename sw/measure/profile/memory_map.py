"""What lies where in the memories while a program runs: a rectangle for each tensor and tile.

A tensor lives from the first access to it to the last one. A tile's buffer is filled again and
again: a life of it begins with a write behind the last read. Addresses are those that the compiler
allocated, cycles those of the instructions that access them.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from spec.isa import Engine
from spec.program import REGION_CONST, REGION_INPUT, REGION_OUTPUT, REGION_TEMP
from sw.compiler.compilation import Compilation
from sw.compiler.program.virtual import Access, Buffer, Place, VirtualInstruction
from sw.measure.profile.layers import Profile

MAX_LIVES = 4000
"""Rectangles of a memory; beyond, those of the same buffer and layer are one."""

_ON_CHIP = {
    Place.SPAD: ("scratchpad", "bytes"),
    Place.ACC: ("accumulator", "vectors"),
    Place.PARAM: ("parameters", "entries"),
}
_REGIONS = {
    REGION_CONST: "DRAM constants",
    REGION_INPUT: "DRAM inputs",
    REGION_OUTPUT: "DRAM outputs",
    REGION_TEMP: "DRAM temporaries",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Life:
    """Addresses low…high (bytes, vectors, entries) in cycles start…stop.

    layer: the one that wrote it, or first read it. count: how many lives this one stands for.
    """

    name: str
    layer: int
    start: int
    stop: int
    low: int
    high: int
    count: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryMap:
    """One memory of `size` units, and the lives in it by their first cycles."""

    name: str
    unit: str
    size: int
    lives: Sequence[Life]


@dataclass(slots=True, kw_only=True, eq=False)
class _Open:
    """A life that goes on."""

    name: str
    layer: int
    start: int
    stop: int
    low: int
    high: int
    was_read: bool = False

    def life(self, base: int) -> Life:
        return Life(
            name=self.name,
            layer=self.layer,
            start=self.start,
            stop=max(self.stop, self.start + 1),
            low=base + self.low,
            high=base + self.high,
        )


def memory_maps(compilation: Compilation, profile: Profile) -> list[MemoryMap]:
    """The memories that the program uses: on chip, then the regions of DRAM."""
    starts, stops = _times(profile)
    tensors = {id(buffer) for buffer in compilation.tensors.values()}
    whole: dict[int, Life] = {}
    tiles: dict[int, list[_Open]] = {}
    closed: list[tuple[Buffer, Life]] = []
    for number, instruction in enumerate(compilation.program.instructions):
        times = int(starts[number + 1]), int(stops[number + 1])
        for buffer, low, high, write in _touched(instruction):
            if id(buffer) in tensors and not _is_constant(buffer):
                _lengthen(whole, buffer, instruction.layer, times)
                continue
            current = tiles.setdefault(id(buffer), [])
            ended = _touch(current, buffer, instruction.layer, times, (low, high), write)
            closed += [(buffer, each.life(buffer.address)) for each in ended]
    buffers = {id(b): b for i in compilation.program.instructions for b in _buffers(i)}
    for key, rest in tiles.items():
        closed += [(buffers[key], each.life(buffers[key].address)) for each in rest]
    closed += [(buffers[key], life) for key, life in whole.items()]
    return _sorted(compilation, closed, profile)


def _is_constant(buffer: Buffer) -> bool:
    return buffer.place is Place.DRAM and buffer.region == REGION_CONST


def _times(profile: Profile) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """First cycle and end of each instruction."""
    starts, stops = np.zeros((2, len(profile.owners)), np.int64)
    for engine, spans in profile.spans.items():
        if engine is Engine.FETCH:
            continue
        for span in spans:
            starts[span.index], stops[span.index] = span.start, span.stop
    return starts, stops


def _buffers(instruction: VirtualInstruction) -> Iterable[Buffer]:
    return {access.buffer for access in instruction.accesses}


def _touched(instruction: VirtualInstruction) -> list[tuple[Buffer, int, int, bool]]:
    """(buffer, low, high, written) of what an instruction accesses, slices together."""
    out: dict[tuple[int, bool], Access] = {}
    read = {id(access.buffer) for access in instruction.accesses if not access.write}
    for access in instruction.accesses:
        # What is read and written is changed in place: no new life.
        write = access.write and id(access.buffer) not in read
        key = (id(access.buffer), write)
        known = out.get(key, access)
        out[key] = replace(
            access, start=min(known.start, access.start), stop=max(known.stop, access.stop)
        )
    return [(a.buffer, a.start, a.stop, write) for (_, write), a in out.items()]


def _lengthen(whole: dict[int, Life], buffer: Buffer, layer: int, times: tuple[int, int]) -> None:
    """The life of a tensor, from end to end of its bytes."""
    known = whole.get(id(buffer))
    if known is not None:
        start, stop = min(known.start, times[0]), max(known.stop, times[1])
        whole[id(buffer)] = replace(known, start=start, stop=stop)
        return
    low, high = buffer.address, buffer.address + buffer.size
    whole[id(buffer)] = Life(
        name=buffer.name,
        layer=layer,
        start=times[0],
        stop=max(times[1], times[0] + 1),
        low=low,
        high=high,
    )


def _touch(
    current: list[_Open],
    buffer: Buffer,
    layer: int,
    times: tuple[int, int],
    place: tuple[int, int],
    write: bool,
) -> list[_Open]:
    """Take an access of a tile's buffer into its open lives; returns the lives that it ends."""
    low, high = place
    ended, kept = _met(current, buffer, layer, place, write)
    for each in ended:
        current.remove(each)
    if not kept:
        name = buffer.name
        kept = [_Open(name=name, layer=layer, start=times[0], stop=times[1], low=low, high=high)]
        current += kept
    if write or _is_constant(buffer):
        kept[0].low, kept[0].high = min(kept[0].low, low), max(kept[0].high, high)
    for each in kept:
        each.stop = max(each.stop, times[1])
        each.was_read |= not write
    return ended


def _met(
    current: Sequence[_Open], buffer: Buffer, layer: int, place: tuple[int, int], write: bool
) -> tuple[list[_Open], list[_Open]]:
    """The open lives that an access ends, and those that it lengthens."""
    low, high = place
    if _is_constant(buffer):
        # Constants are there all the time: what counts is when each piece is read.
        ended = [each for each in current if each.layer != layer]
        kept = [x for x in current if x.layer == layer and x.low <= high and low <= x.high]
    else:
        near = [each for each in current if each.low < high and low < each.high]
        ended = [each for each in near if write and each.was_read]
        kept = [each for each in near if each not in ended]
    return ended, kept


def _sorted(
    compilation: Compilation, lives: Sequence[tuple[Buffer, Life]], profile: Profile
) -> list[MemoryMap]:
    """The lives by memory."""
    config, image = compilation.config, compilation.image
    sizes = {
        Place.SPAD: config.spad_bytes,
        Place.ACC: config.acc_vectors,
        Place.PARAM: config.param_entries,
    }
    out = []
    for place, (name, unit) in _ON_CHIP.items():
        mine = [life for buffer, life in lives if buffer.place is place]
        if mine:
            out.append(MemoryMap(name=name, unit=unit, size=sizes[place], lives=_fewer(mine)))
    for region, name in _REGIONS.items():
        mine = [
            _external(life, region, profile.cycles)
            for buffer, life in lives
            if buffer.place is Place.DRAM and buffer.region == region
        ]
        if mine:
            size = image.region_bytes(region)
            out.append(MemoryMap(name=name, unit="bytes", size=size, lives=_fewer(mine)))
    return out


def _external(life: Life, region: int, cycles: int) -> Life:
    """Inputs are there from the start, outputs until the end."""
    if region == REGION_INPUT:
        return replace(life, start=0)
    return replace(life, stop=cycles) if region == REGION_OUTPUT else life


def _fewer(lives: Sequence[Life]) -> list[Life]:
    """At most `MAX_LIVES` where buffers have names of their own, by their first cycles."""
    found = list(lives)
    if len(found) > MAX_LIVES:
        merged: dict[tuple[str, int, int], Life] = {}
        for life in found:
            # Places of the accumulator are told apart by their addresses.
            key = (life.name, life.layer, life.low if life.name == "acc" else -1)
            old = merged.get(key)
            merged[key] = life if old is None else _both(old, life)
        found = list(merged.values())
    return sorted(found, key=lambda life: (life.start, life.low))


def _both(a: Life, b: Life) -> Life:
    return Life(
        name=a.name,
        layer=a.layer,
        start=min(a.start, b.start),
        stop=max(a.stop, b.stop),
        low=min(a.low, b.low),
        high=max(a.high, b.high),
        count=a.count + b.count,
    )

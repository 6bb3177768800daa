"""The hazard checks of VECTOR chunks that are executed by strided views."""

from collections.abc import Iterable
from functools import reduce

from golden_model.access import Context
from golden_model.boxes import Walk
from golden_model.clocks import Timeline
from golden_model.lanes import table_bytes
from golden_model.program import Plan
from golden_model.regions import Piece, Region, region, region_at
from golden_model.vector_parts import Part, Place
from spec.config import PARAM_PARTS
from spec.isa import Scale, reads_b

_ISSUE, _DONE = Timeline.VECTOR_ISSUE, Timeline.VECTOR_DONE


def may_meet(parts: list[Part], place: Place) -> bool:
    """A step may write what another one reads; only going through the steps can tell."""
    return any(_near(one, other, place) for one in parts for other in parts)


def _near(reader: Part, writer: Part, place: Place) -> bool:
    names = ["a", "b"] if reads_b(reader.v) else ["a"]
    out, run = writer.o, writer.o_bytes
    start = place.o * (4 * writer.cols if writer.in_acc["o"] else 1)
    for name in names:
        acc = name == "a" and reader.in_acc["a"]
        walk, size = (reader.a, reader.a_bytes) if name == "a" else (reader.b, reader.bytes["b"])
        base = (place.a if name == "a" else place.b) * (4 * reader.cols if acc else 1)
        if acc is not writer.in_acc["o"]:
            continue
        if base + walk.high + size <= start + out.low or start + out.high + run <= base + walk.low:
            continue
        # In place: every step writes what it has read itself, and no other step reads it.
        own = reader is writer and base + walk.offset == start + out.offset and size == run
        if not (own and walk.strides == out.strides):
            return True
    return False


def check(context: Context, plan: Plan, parts: list[Part], place: Place) -> None:
    """Every access of a chunk, in the order of the engine's timelines."""
    v, index = plan.v, plan.index
    _source(context, index, parts, "a", place)
    if reads_b(v):
        _source(context, index, parts, "b", place)
    for name in ["bias"] * v["bias"] + ["multiplier", "shift"] * (v["a_scale"] == Scale.CHANNEL):
        _late(context, index, parts, "a", name, place)
    for name in ["multiplier", "shift"] * (v["o_scale"] == Scale.CHANNEL):
        _late(context, index, parts, "o", name, place)
    if v["table"]:
        context.reads_done(_ISSUE, _DONE)
        whole = Region([Piece(0, [], table_bytes(v, context.state.table.size))])
        context.reads("table", whole, 0, _DONE, index)
    context.reads_done(_ISSUE, _DONE)
    acc = parts[0].in_acc["o"]
    written = _together(_results(part) for part in parts)
    context.writes("acc" if acc else "spad", written, place.o, _DONE, index)


def _source(context: Context, index: int, parts: list[Part], name: str, place: Place) -> None:
    acc = name == "a" and parts[0].in_acc["a"]
    touched = _together(_operand(part, name, place) for part in parts)
    base = place.a if name == "a" else place.b
    context.reads("acc" if acc else "spad", touched, base, _ISSUE, index)


def _late(
    context: Context, index: int, parts: list[Part], operand: str, name: str, place: Place
) -> None:
    """Parameters are read after A and B: READ does not tell when."""
    context.reads_done(_ISSUE, _DONE)
    touched = _together(_parameters(part, operand, name) for part in parts)
    entry = place.entry * context.config.param_entry_bytes
    context.reads("param", touched, entry, _DONE, index)


def _together(regions: Iterable[Region]) -> Region:
    return reduce(Region.__or__, regions)


# Regions, kept with the part ----------------------------------------------------------------------


def _operand(part: Part, name: str, place: Place) -> Region:
    """The bytes, or accumulator vectors, that the steps read of A or B."""
    inside = part.inside(place)
    if name not in inside.regions:
        walk, run = _units(part, name)
        found = region(walk, run)
        if inside.steps is not None:
            found = region_at(walk.grid()[inside.steps], run)
        inside.regions[name] = found
    return inside.regions[name]


def _results(part: Part) -> Region:
    if "o" not in part.regions:
        part.regions["o"] = region(*_units(part, "o"))
    return part.regions["o"]


def _units(part: Part, name: str) -> tuple[Walk, int]:
    """The walk and the run of an operand in the units of its space."""
    walk = {"a": part.a, "b": part.b, "o": part.o}[name]
    if part.in_acc.get(name, False):
        return walk.divided(4 * part.cols), 1
    return walk, part.o_bytes if name == "o" else part.bytes[name]


def _parameters(part: Part, operand: str, name: str) -> Region:
    key = f"{operand} {name}"
    if key not in part.regions:
        lanes = part.result_lanes if operand == "o" else part.lanes
        found = region(part.entries[operand], PARAM_PARTS[name] * lanes)
        part.regions[key] = found.moved(part.param_offset(name))
    return part.regions[key]

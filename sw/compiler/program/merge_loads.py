"""LOADs that lie one after another, in memory, on chip and in the queue, as one instruction.

Emitters bring weights in short pieces, between which the schedule can put what is wanted sooner.
Pieces that stayed together need no instructions of their own, which are read over the same bus.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from spec.isa import Engine
from sw.compiler.kernels.conv.plan import MAX_SLICES
from sw.compiler.program.records import Load
from sw.compiler.program.virtual import Access, VirtualInstruction

_MORE = " and on"


def merge_loads(
    order: Sequence[int],
    instructions: Sequence[VirtualInstruction],
    before: Sequence[Mapping[int, object]],
) -> list[VirtualInstruction]:
    """The instructions in `order`, of which LOADs begin earlier where they are merged. `before`:
    what each must stay behind.
    """
    out: list[VirtualInstruction] = []
    last: int | None = None
    wanted: set[int] = set()
    for number in order:
        instruction = instructions[number]
        if instruction.engine is Engine.LOAD:
            # Its own queue keeps it behind other LOADs.
            others = {j for j in before[number] if instructions[j].engine is not Engine.LOAD}
            if last is not None and others <= wanted:
                merged = _merged(out[last], instruction)
                if merged is not None:
                    out[last] = merged
                    continue
            last, wanted = len(out), others
        out.append(instruction)
    return out


def _merged(first: VirtualInstruction, second: VirtualInstruction) -> VirtualInstruction | None:
    """Both as one whose outermost loop goes on; None if they do not fit together."""
    a, b = first.record, second.record
    assert isinstance(a, Load) and isinstance(b, Load)
    if first.layer != second.layer or not a.loop or not b.loop or a.fill or a.indexed:
        return None
    outer, more = a.loop[0], b.loop[0]
    goes_on = a._replace(
        mem_base=a.mem_base + outer.count * outer.mem,
        chip_base=a.chip_base + outer.count * outer.chip,
        loop=[outer._replace(count=more.count), *a.loop[1:]],
    )
    count = outer.count + more.count
    same = all(first.bases[name] is second.bases.get(name) for name in first.bases)
    if goes_on != b._replace(loop=list(b.loop)) or not same or count > MAX_SLICES:
        return None
    reads, writes = _slices(first)
    reads_b, writes_b = _slices(second)
    if len(writes) != outer.count or len(writes_b) != more.count:
        return None
    accesses = [*reads, *reads_b]
    for i, access in enumerate((*writes, *writes_b)):
        accesses.append(replace(access, level=1, iteration=i))
    return replace(
        first,
        record=a._replace(loop=[outer._replace(count=count), *a.loop[1:]]),
        accesses=accesses,
        note=first.note if first.note.endswith(_MORE) else first.note + _MORE,
    )


def _slices(instruction: VirtualInstruction) -> tuple[list[Access], list[Access]]:
    """What a LOAD reads, and what it writes."""
    reads = [access for access in instruction.accesses if not access.write]
    return reads, [access for access in instruction.accesses if access.write]

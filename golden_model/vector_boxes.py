"""VECTOR by strided views: what `golden_model.vector` does, for chunks of regular steps."""

from golden_model import vector_checks
from golden_model.access import Context
from golden_model.loops import signed_chip_address
from golden_model.program import Plan
from golden_model.vector_parts import Place, parts_of


def execute(context: Context, plan: Plan, chunk: int) -> bool:
    """Execute a chunk; False, and nothing done, where it is not regular or would fault."""
    state, v, chunks = context.state, plan.v, plan.chunks
    parts = parts_of(state, plan, chunk)
    place = Place(
        signed_chip_address(v["a_base"] + chunks.offset("a", chunk)),
        signed_chip_address(v["b_base"] + chunks.offset("b", chunk)),
        signed_chip_address(v["o_base"] + chunks.offset("o", chunk)),
        (v["param_base"] + chunks.offset("param", chunk)) & 0xFFFF,
        v["y0"] + chunks.offset("dy", chunk),
        v["x0"] + chunks.offset("dx", chunk),
    )
    if not all(part.fits(state, place) for part in parts):
        return False
    if context.hazards is not None and parts:
        if vector_checks.may_meet(parts, place):
            return False
        vector_checks.check(context, plan, parts, place)
    # Every step reads before any step writes what it reads: anything else is a hazard.
    results = [part.compute(state, place) for part in parts]
    for part, result in zip(parts, results, strict=True):
        part.write(state, place, result)
    return bool(parts)

"""Several chunks at once, where all that they wait for is there already."""

from golden_model.access import Context
from golden_model.program import Plan


def merged(context: Context, plan: Plan, chunk: int) -> tuple[Plan, int, int]:
    """As many chunks as can go on from `chunk`, whose own waits have been taken, without a pause.

    Returns a plan and the chunk of it that these chunks are, then the next one of `plan`. An
    engine that is never held back between them does just this.
    """
    for coarse in plan.coarser:
        group = plan.form.groups(coarse.level).get(chunk)
        if group is None or group[1] == chunk + 1:
            continue
        waits = coarse.main_waits(group[0])
        if context.semaphores.take_all([(slot, times - 1) for slot, times in waits]):
            return coarse, *group
    return plan, chunk, chunk + 1

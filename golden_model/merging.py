"""Execution of several chunks at once, where everything that they wait for has been posted."""

from golden_model.access import Context
from golden_model.program import Plan


def merged(context: Context, plan: Plan, chunk: int) -> tuple[Plan, int, int]:
    """The largest group of chunks from `chunk` on whose semaphores can all be taken now.

    The waits of `chunk` itself have been taken. Returns a plan with larger chunks, the number of
    the chunk in it that stands for the group, and the next chunk of `plan`. The result is that of
    an engine that is never held back between these chunks.
    """
    for coarse in plan.coarser:
        group = plan.shape.groups(coarse.level).get(chunk)
        if group is None or group[1] == chunk + 1:
            continue
        waits = coarse.main_waits(group[0])
        if context.semaphores.take_all([(slot, times - 1) for slot, times in waits]):
            return coarse, *group
    return plan, chunk, chunk + 1

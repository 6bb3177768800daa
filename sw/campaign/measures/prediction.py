"""What the compiler's timing model says of a workload, without running it."""

from spec.dram import IDEAL
from sw.campaign.measures.bench import Bench, config_of
from sw.campaign.workloads import prepare
from sw.compiler.machine.costs import MEMORY_LATENCY
from sw.measure.calibration.error import model_error
from sw.results.task import CampaignError, Outcome, Status, Task
from sw.runtime.timing import predicted_cycles


def predict(task: Task, bench: Bench) -> Outcome:
    """Cycles and bytes by the model, with the error that it was measured to have.

    figures: predicted_cycles; error_pct, worst_pct: mean and worst size of the measured error;
    read_bytes, write_bytes: of the NPU's memory.
    """
    check_memory(task.memory, task.latency, task.stall)
    work = prepare(task.workload, config_of(task), task.seed)
    cycles, info = predicted_cycles(work.image, task.memory), work.image.info
    if cycles is None:
        raise CampaignError(f"{task.workload}: its program says no predicted cycles")
    error = model_error(task.workload.partition(":")[0], task.memory)
    read, written = info["predicted_read_bytes"], info["predicted_write_bytes"]
    return Outcome(
        status=Status.PASSED,
        macs=work.macs,
        image_digest=work.digest,
        predicted_cycles=cycles,
        figures={
            "predicted_cycles": cycles,
            "error_pct": error.mean_pct,
            "worst_pct": error.worst_pct,
            "read_bytes": read,
            "write_bytes": written,
        },
    )


def is_modelled(memory: str, latency: int, stall: float) -> bool:
    """Whether the timing model knows such a memory. A DRAM has its own latency."""
    return not stall and (memory != IDEAL or latency == MEMORY_LATENCY)


def check_memory(memory: str, latency: int, stall: float) -> None:
    """`CampaignError` for a memory that the timing model does not know."""
    if not is_modelled(memory, latency, stall):
        raise CampaignError(
            f"memory with latency {latency}, stall {stall:g}: the timing model knows latency "
            f"{MEMORY_LATENCY:g} without stalls only; leave memory out, or take cycles: rtl"
        )

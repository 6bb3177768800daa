"""A workload on a device, compared bit for bit."""

from dataclasses import replace

from spec.errors import SystolaError
from sw.campaign.measures.bench import Bench, config_of
from sw.campaign.measures.prediction import is_modelled
from sw.campaign.workloads import Prepared, prepare
from sw.measure.divergence import find_divergence, layer_of
from sw.results.task import Outcome, Status, Task
from sw.runtime.device import RunResult
from sw.runtime.golden import GoldenDevice
from sw.runtime.report import Comparison, compare
from sw.runtime.rtl import DeviceFault, RtlDevice
from sw.runtime.session import reference_comparison, run_image
from sw.runtime.timing import predicted_cycles


def run(task: Task, bench: Bench) -> Outcome:
    """A workload: RTL against the golden model, or golden against the TOSA reference model."""
    work = prepare(task.workload, config_of(task), task.seed)
    # Hazards do not depend on the device: the task on golden looks for them.
    alone = task.device == "golden"
    golden = GoldenDevice(config_of(task), check=alone)
    want, result = run_image(work.image, work.inputs, golden)
    if alone:
        compared = reference_comparison(work.graph, work.inputs, want)
        return _outcome(work, result, compared, "the TOSA reference model")
    device = bench.rtl(task)
    try:
        got, result = run_image(work.image, work.inputs, device)
    except DeviceFault as fault:
        return _faulted(work, fault)
    outcome = _outcome(work, result, compare(want, got), "the golden model")
    if is_modelled(task.memory, task.latency, task.stall):
        cycles = predicted_cycles(work.image, task.memory)
        outcome = replace(outcome, figures={"predicted_cycles": cycles}, predicted_cycles=cycles)
    if outcome.mismatch:
        bench.tell.partial(outcome)
        outcome = _located(outcome, work, device)
    return outcome


def _outcome(work: Prepared, result: RunResult, compared: Comparison, other: str) -> Outcome:
    message = ""
    if not compared.elements:
        message = "nothing was compared"
    elif not compared.exact:
        message = (
            f"{compared.mismatches:,} of {compared.elements:,} elements differ from {other}; "
            f"first: {compared.first}"
        )
    for engine, row in result.counters.items():
        if not message and sum(row.values()) != result.cycles:
            message = f"counters of {engine} sum to {sum(row.values())}, not {result.cycles} cycles"
    on_hardware = result.cycles is not None
    return Outcome(
        status=Status.FAILED if message else Status.PASSED,
        message=message,
        cycles=result.cycles,
        macs=work.macs,
        compared=compared.elements,
        counters={engine: dict(row) for engine, row in result.counters.items()},
        wall_s=result.wall_s,
        read_bytes=result.read_bytes if on_hardware else None,
        write_bytes=result.write_bytes if on_hardware else None,
        mismatch={"element": compared.first} if compared.first else None,
        image_digest=work.digest,
    )


def _located(outcome: Outcome, work: Prepared, device: RtlDevice) -> Outcome:
    """The outcome with the layer and instruction at which the difference arises."""
    try:
        found = find_divergence(work.image, work.inputs, device)
    except SystolaError as error:
        return replace(outcome, message=f"{outcome.message}\nlooking for its cause: {error}")
    if found is None:
        return replace(outcome, message=f"{outcome.message}\na second run shows no difference")
    mismatch = {
        "layer": found.layer,
        "instruction": found.instruction,
        "text": found.text,
        "element": found.element,
        "expected": found.expected,
        "got": found.got,
    }
    message = f"{outcome.message}\nit arises in {found}"
    return replace(outcome, message=message, mismatch=mismatch)


def _faulted(work: Prepared, fault: DeviceFault) -> Outcome:
    layer = layer_of(work.image, fault.instruction)
    return Outcome(
        status=Status.FAILED,
        message=f"layer {layer or '?'}: {fault}",
        macs=work.macs,
        mismatch={"layer": layer, "instruction": fault.instruction, "element": str(fault)},
        image_digest=work.digest,
    )

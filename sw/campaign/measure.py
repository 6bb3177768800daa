"""How a task of each kind is carried out, in a worker process.

A function per kind, in `MEASURES`: another kind adds its own there, from a file of `measures/`.
"""

import traceback
from collections.abc import Callable, Mapping
from dataclasses import replace

from golden_model import GoldenError
from spec.errors import SystolaError
from sw.campaign.measures.bench import Bench, Tell
from sw.campaign.measures.conformance import conformance
from sw.campaign.measures.prediction import predict
from sw.campaign.measures.preparation import build, lint
from sw.campaign.measures.programs import mutant, programs
from sw.campaign.measures.runs import run
from sw.campaign.measures.synthesis import energy, netlist, synth
from sw.results.task import Kind, Outcome, Status, Task
from sw.runtime.rtl import DeviceFault
from sw.runtime.simulator.errors import SimulationError

__all__ = ["MEASURES", "Bench", "carry_out", "open_bench"]

_WRONG = (DeviceFault, SimulationError, GoldenError)
"""What a wrong machine or program leads to; any other error means that it could not be tried."""


def open_bench(tell: Tell) -> Callable[[Task], Outcome]:
    """What a worker's process carries its tasks out with, one after the other."""
    bench = Bench(tell)
    return lambda task: carry_out(task, bench)


def carry_out(task: Task, bench: Bench) -> Outcome:
    """The task's outcome, whatever happens; after one that is not good the simulator is new."""
    try:
        outcome = MEASURES[task.kind](task, bench)
    except SystolaError as error:
        status = Status.FAILED if isinstance(error, _WRONG) else Status.ERROR
        outcome = Outcome(status=status, message=str(error))
    except Exception:
        outcome = Outcome(status=Status.ERROR, message=traceback.format_exc(limit=-6))
    if outcome.status is not Status.PASSED:
        bench.drop()
    if task.quarantine:
        figures = {**outcome.figures, "quarantine": task.quarantine}
        outcome = replace(outcome, figures=figures)
    return outcome


MEASURES: Mapping[Kind, Callable[[Task, Bench], Outcome]] = {
    Kind.RUN: run,
    Kind.BUILD: build,
    Kind.LINT: lint,
    Kind.PREDICT: predict,
    Kind.SYNTH: synth,
    Kind.NETLIST: netlist,
    Kind.ENERGY: energy,
    Kind.PROGRAMS: programs,
    Kind.CONFORMANCE: conformance,
    Kind.MUTANT: mutant,
}

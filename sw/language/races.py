"""Kernels that order their own accesses, run once on the golden model, whose hazards are named."""

from collections.abc import Sequence

import numpy as np

from golden_model.errors import DeadlockError, HazardError
from spec.program import Image
from sw.compiler.program.virtual import Place, VirtualInstruction
from sw.language.emit.kernel import Origins
from sw.language.errors import KernelError, RaceError
from sw.language.steps import Step
from sw.language.trace import Trace
from sw.runtime.golden import GoldenDevice
from sw.runtime.session import run_image

_SPACES = {"spad": (Place.SPAD, "byte", "scratchpad"), "acc": (Place.ACC, "vector", "accumulator")}


def check_order(
    image: Image, trace: Trace, instructions: Sequence[VirtualInstruction], origins: Origins
) -> None:
    """`RaceError` if an access of the program is not ordered, `KernelError` if it cannot end.

    Which accesses are ordered does not depend on values, so that zeros find every race.
    """
    device = GoldenDevice(trace.config, check=True)
    zeros = {port.name: np.zeros(port.shape, port.dtype) for port in image.inputs}
    try:
        run_image(image, zeros, device)
    except HazardError as error:
        raise _race(error, trace, instructions, origins) from error
    except DeadlockError as error:
        raise trace.error(
            f"the kernel does not end: {error}",
            trace.line,
            hint="every wait needs a post that comes before it",
        ) from error


def _race(
    error: HazardError, trace: Trace, instructions: Sequence[VirtualInstruction], origins: Origins
) -> KernelError:
    """The error with the statements of both accesses."""
    second = instructions[error.index - 1]
    step = origins[second]
    if error.other < 1:
        return trace.error(
            f"{_described(second, step, error)}, which nothing has written",
            step.line,
            hint="wait for the statement that writes it",
        )
    first = instructions[error.other - 1]
    return RaceError(
        "race: no semaphore orders two accesses",
        first=_described(first, origins[first], error),
        second=_described(second, step, error),
        node=trace.name,
        source=str(step.line),
        hint=f"let the later one wait for what the earlier one posts: {origins[first].line.short} "
        f"and {step.line.short}",
    )


def _described(instruction: VirtualInstruction, step: Step, error: HazardError) -> str:
    """A statement, and what it touches where the two meet."""
    place, unit, name = _SPACES.get(error.space, (Place.PARAM, "byte", error.space))
    for access in instruction.accesses:
        buffer = access.buffer
        start, stop = buffer.address + access.start, buffer.address + access.stop
        if buffer.place is place and start <= error.address < stop:
            verb = "writes" if access.write else "reads"
            what = buffer.name.partition(".")[2]
            where = f"{unit}s {start}…{stop - 1} of the {name}"
            return f"{step} {verb} {where}" + (f" ({what})" if what else "")
    return f"{step} touches {unit} {error.address} of the {name}"

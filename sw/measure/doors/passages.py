"""One network on one way through a door: predictions, agreement, the RTL."""

import tempfile
from pathlib import Path

import numpy as np

from spec.config import NpuConfig
from sw.measure.bench_store import Row
from sw.measure.doors.network import calibration, each, resnet18, tests
from sw.measure.doors.programs import Array, DoorsError, Passage
from sw.measure.doors.ways import Task, Way
from sw.models.catalog import pcc
from sw.runtime.golden import GoldenDevice
from sw.runtime.report import compare
from sw.runtime.rtl import RtlDevice
from sw.runtime.session import golden_outputs, reference_comparison, run_image
from sw.runtime.timing import predicted_cycles


def passed(way: Way, config: NpuConfig, size: int, rtl: bool) -> Row:
    """The figures of a way: of all test images on the golden model, or of one on the RTL."""
    with tempfile.TemporaryDirectory() as folder:
        batch = calibration(size)
        task = Task(module=resnet18(), batch=batch, config=config, folder=Path(folder))
        passage = way.go(task)
        images = tests(size)
        facts: Row = {
            "predicted_cycles": predicted_cycles(passage.program.image),
            **_judged(passage, images[:1]),
        }
        return facts | (_on_rtl(passage, images[:1]) if rtl else _on_golden(passage, images))


def _on_golden(passage: Passage, images: Array) -> Row:
    """How the results agree with the framework's: the least PCC, and steps of the result's grid.

    pcc_between: the largest PCC of an image's result with the framework's of the next one.
    """
    program = passage.program
    device = GoldenDevice(program.image.config, check=False)

    def run(x: Array) -> Array:
        arrays, _ = run_image(program.image, program.inputs(passage.prepare(x)), device)
        return program.output(arrays)

    ours, theirs = each(run, images), each(passage.own, images)
    steps = np.abs(np.rint((ours - theirs) / program.result.scale))
    others = np.roll(theirs, 1, axis=0)
    return {
        "images": len(images),
        "pcc": min(pcc(a, b) for a, b in zip(ours, theirs, strict=True)),
        "pcc_between": max(pcc(a, b) for a, b in zip(ours, others, strict=True)),
        "apart": float((steps > 0).mean()),
        "most_steps": int(steps.max()),
    }


def _on_rtl(passage: Passage, image: Array) -> Row:
    program = passage.program
    inputs = program.inputs(passage.prepare(image))
    expected = golden_outputs(program.image, inputs)
    with RtlDevice(program.image.config) as device:
        outputs, result = run_image(program.image, inputs, device)
    same = compare(expected, outputs)
    return {
        "cycles": result.cycles,
        "bit_exact": same.exact,
        "elements": same.elements,
        "wall_s": result.wall_s,
    }


def _judged(passage: Passage, image: Array) -> Row:
    """The golden model against the TOSA reference model, and against the door's own call."""
    program = passage.program
    inputs = program.inputs(passage.prepare(image))
    arrays = golden_outputs(program.image, inputs)
    if not np.array_equal(program.output(arrays), passage.call(image)):
        raise DoorsError("the door's own call gives another result than its program")
    found = reference_comparison(program.graph, inputs, arrays)
    return {"reference_exact": found.exact, "reference_elements": found.elements}

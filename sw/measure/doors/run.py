"""One network through every door: a row each, stored as it comes."""

import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from spec.config import NpuConfig
from sw.measure.bench_store import Row, Store
from sw.measure.doors.network import calibration, each, resnet18, tests
from sw.measure.doors.programs import Array, DoorsError, Passage, Program
from sw.measure.doors.ways import Task, Way
from sw.models.catalog import pcc
from sw.runtime.golden import GoldenDevice
from sw.runtime.report import compare
from sw.runtime.rtl import RtlDevice
from sw.runtime.session import golden_outputs, reference_comparison, run_image
from sw.runtime.timing import predicted_cycles

Say = Callable[[str], None]


def measure(
    ways: Sequence[Way], config: NpuConfig, size: int, rtl: bool, path: Path, say: Say
) -> list[Row]:
    """The rows of these ways, of which `path` is asked first; one that fails has `error`."""
    store = Store(path, config, {})
    rows = []
    for way in ways:
        name = f"ResNet-18 {size} {'rtl ' if rtl else ''}{way.name}"
        row = store.find(name)
        if row is None:
            say(f"{name}…")
            start = time.monotonic()
            row = store.add(name, {**_facts(way, config, size, rtl), "name": name})
            say(f"{name}: {row.get('error') or 'done'}, {time.monotonic() - start:.0f} s")
        rows.append(row)
    return rows


def _facts(way: Way, config: NpuConfig, size: int, rtl: bool) -> Row:
    facts: Row = {
        "table": "doors", "network": "ResNet-18", "way": way.name, "scales": way.scales,
        "own": way.own, "size": size, "device": "rtl" if rtl else "golden",
        "config": config.name, "config_digest": config.digest_hex,
    }  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        task = Task(module=resnet18(), batch=calibration(size), config=config, folder=Path(folder))
        try:
            passage = way.go(task)
            return facts | (_on_rtl(passage, size) if rtl else _on_golden(passage, size))
        except Exception as error:  # frameworks raise anything; the other ways go on
            first = (str(error).strip().splitlines() or [""])[0]
            return facts | {"error": f"{type(error).__name__}: {first}"}


def _on_golden(passage: Passage, size: int) -> Row:
    """Predictions, and how all test images agree with the framework's result."""
    program, images = passage.program, tests(size)
    device = GoldenDevice(program.image.config, check=False)

    def run(x: Array) -> Array:
        arrays, _ = run_image(program.image, program.inputs(passage.prepare(x)), device)
        return program.output(arrays)

    ours, theirs = each(run, images), each(passage.own, images)
    steps = np.abs(np.rint((ours - theirs) / program.result.scale))
    return {
        **_of_program(program),
        **_judged(passage, images[:1]),
        "images": len(images),
        "pcc": min(pcc(a, b) for a, b in zip(ours, theirs, strict=True)),
        "pcc_between": max(
            pcc(a, b) for a, b in zip(ours, np.roll(theirs, 1, axis=0), strict=True)
        ),
        "apart": float((steps > 0).mean()),
        "most_steps": int(steps.max()),
    }


def _on_rtl(passage: Passage, size: int) -> Row:
    """One test image on the RTL, compared with the golden model."""
    program, images = passage.program, tests(size)[:1]
    inputs = program.inputs(passage.prepare(images))
    expected = golden_outputs(program.image, inputs)
    with RtlDevice(program.image.config) as device:
        outputs, result = run_image(program.image, inputs, device)
    same = compare(expected, outputs)
    return {
        **_of_program(program),
        **_judged(passage, images),
        "cycles": result.cycles,
        "bit_exact": same.exact,
        "elements": same.elements,
        "wall_s": result.wall_s,
    }


def _of_program(program: Program) -> Row:
    return {
        "predicted_cycles": predicted_cycles(program.image),
        "tosa_operators": len(program.graph.ops),
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


def spread(rows: Sequence[Row], figure: str = "predicted_cycles") -> float:
    """By how much the most cycles are above the least, as a share."""
    cycles: list[Any] = [row[figure] for row in rows if row.get(figure)]
    return max(cycles) / min(cycles) - 1 if cycles else 0.0

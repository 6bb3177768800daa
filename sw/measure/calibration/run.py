"""Every workload on every configuration and memory, resumable: one row each."""

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from golden_model import Machine
from spec.config import NpuConfig
from spec.dram import MEMORIES
from spec.errors import SystolaError
from spec.program import Image
from sw.measure.bench_store import Row, Store
from sw.measure.calibration.samples import Workload
from sw.runtime.rtl import RtlDevice
from sw.runtime.session import run_image
from sw.runtime.timing import Timing

Say = Callable[[str], None]
Arrays = dict[str, NDArray[Any]]


def calibrate(
    configs: Sequence[NpuConfig], workloads: Sequence[Workload], path: Path, say: Say
) -> list[Row]:
    """Measure what `path` does not have yet of these sources; each row is stored as it comes.

    What a configuration cannot run gives a row with `refused`. A result that is not the golden
    model's gives a row with `error`.
    """
    rows: list[Row] = []
    for number, config in enumerate(configs, 1):
        store = Store(path, config, {"latency": 100, "stall": 0.0})
        found = {name: store.find(name) for work in workloads for name in _names(work).values()}
        todo = [w for w in workloads if not all(found[name] for name in _names(w).values())]
        if todo:
            title = f"[{number}/{len(configs)}] {config.name}"
            say(f"{title}: {len(todo)} workloads…")
            start = time.monotonic()
            with RtlDevice(config, say=say) as device:
                for work in todo:
                    for name, row in _rows(work, device).items():
                        found[name] = store.add(name, row)
            say(f"{title}: {time.monotonic() - start:.0f} s")
        rows += [row for row in found.values() if row is not None]
    return rows


def _names(work: Workload) -> dict[str, str]:
    """Names of the rows of a workload, by memory."""
    return {memory: f"{work.name} {memory}" for memory in MEMORIES}


def _rows(work: Workload, device: RtlDevice) -> dict[str, Row]:
    """The rows of a workload, by name."""
    from sw.measure.targets import compile_target

    config = device.config
    facts = {"config": config.name, "config_digest": config.digest_hex, "workload": work.name}
    rows: dict[str, Row] = {
        name: {**facts, "name": name, "memory": memory} for memory, name in _names(work).items()
    }
    try:
        image = compile_target(work.target, config, work.shape, 0, ())
    except SystolaError as error:
        return {name: {**row, "refused": str(error)} for name, row in rows.items()}
    inputs = _inputs(work)
    want = Machine(config).run(image, inputs)
    return {
        name: {**row, **_run(image, inputs, want, device, row["memory"])}
        for name, row in rows.items()
    }


def _inputs(work: Workload) -> Arrays:
    if work.shape is None:
        from sw.models.catalog import get_model

        return dict(get_model(work.target).inputs(0))
    from sw.measure.targets import build_kernel

    return dict(build_kernel(work.target, work.shape, 0).inputs)


def _run(
    image: Image, inputs: Arrays, want: Arrays, device: RtlDevice, memory: str
) -> dict[str, Any]:
    timing = Timing.of(image, memory=memory)
    device.set_memory(latency=100, stall=0.0, seed=0, memory=memory)
    try:
        outputs, result = run_image(image, inputs, device)
    except SystolaError as error:
        return {"error": str(error)}
    wrong = [name for name in want if not np.array_equal(outputs[name], want[name])]
    found = {"cycles": result.cycles, "predicted_cycles": timing.predicted_cycles}
    return {**found, "error": f"{wrong[0]} differs from the golden model"} if wrong else found

"""How fast the golden model is: processor seconds, which other work on the machine changes least.

Figures for one core want a BLAS of one thread (`OMP_NUM_THREADS=1`, as `make goldenspeed` has it).
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from rich.table import Table

from golden_model import GoldenError, Machine
from spec.config import NpuConfig
from spec.program import Image
from sw.runtime.report import write_json

T = TypeVar("T")
Arrays = Mapping[str, NDArray[Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class GoldenSpeed:
    """Processor seconds. load_s: decoding the program; first_s: the first run; again_s: the same
    program once more; checked_s: a first run with hazard checks.
    """

    name: str
    config: str
    config_digest: str
    instructions: int
    macs: int
    load_s: float
    first_s: float
    again_s: float
    checked_s: float


def measure(image: Image, inputs: Arrays, name: str) -> GoldenSpeed:
    """Run a program in each way; `GoldenError` unless all give the same outputs."""
    machine = Machine(image.config)
    load_s, _ = _timed(lambda: machine.load(image))

    def run(check: bool) -> dict[str, NDArray[Any]]:
        for port, array in inputs.items():
            machine.write(port, array)
        machine.execute(check)
        return {port.name: machine.read(port.name) for port in image.outputs}

    first_s, want = _timed(lambda: run(False))
    again_s, again = _timed(lambda: run(False))
    checked_s, checked = _timed(lambda: run(True))
    for other in (again, checked):
        for port, array in want.items():
            if not np.array_equal(other[port], array):
                raise GoldenError(f"{name}: output {port} depends on how the golden model runs")
    return GoldenSpeed(
        name=name,
        config=image.config.name,
        config_digest=image.config.digest_hex,
        instructions=len(image.instructions()),
        macs=int(image.info.get("macs", 0)),
        load_s=load_s,
        first_s=first_s,
        again_s=again_s,
        checked_s=checked_s,
    )


def _timed(work: Callable[[], T]) -> tuple[float, T]:
    begin = time.process_time()
    result = work()
    return time.process_time() - begin, result


def programs(target: str, shape: str | None, config: NpuConfig) -> tuple[Image, Arrays]:
    """A kernel or a model by its name, compiled, and one set of inputs."""
    from sw.measure.targets import build_kernel, compile_target, is_model

    image = compile_target(target, config, shape, 0, ())
    if is_model(target, shape):
        from sw.models.catalog import get_model

        return image, get_model(target).inputs(0)
    return image, build_kernel(target, shape, 0).inputs


def main(
    targets: list[str], shape: str | None, config: NpuConfig, json_file: Path | None = None
) -> Table:
    """Measure every target; a table of the figures."""
    table = Table("program", "instructions", "MACs", "load", "first run", "again", "with checks")
    table.title = f"golden model on {config.name}, processor seconds"
    found = []
    for target in targets:
        speed = measure(*programs(target, shape, config), target)
        found.append(speed)
        seconds = (speed.load_s, speed.first_s, speed.again_s, speed.checked_s)
        numbers = (f"{speed.instructions:,}", f"{speed.macs:,}")
        table.add_row(target, *numbers, *(f"{s:.2f}" for s in seconds))
    if json_file is not None:
        write_json([asdict(speed) for speed in found], json_file)
    return table

"""A program with its memory, inputs and expected outputs as files, for simulations without Python.

`python -m sw.cli.export_check --config tiny --kernel matmul --shape 8x8x8 --out FOLDER`
writes `FILES`, which `rtl/check_main.cpp` runs and compares.
"""

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from golden_model import Machine
from spec.config import NpuConfig, parse_settings, preset
from spec.errors import SystolaError
from spec.memmap import OFFSETS, Control, Status
from spec.program import REGION_OUTPUT, Image
from sw.models.kernels import kernel, parse_shape
from sw.runtime.simulator.control import SharedMemory
from sw.runtime.simulator.layout import MemoryLayout, memory_base

FILES = ("memory.bin", "control.bin", "expected.bin", "check.txt")
LIMIT = 10_000_000
"""Cycles after which a run counts as one that hangs."""
_WATCHDOG = 100_000


def export(image: Image, inputs: Mapping[str, NDArray[Any]], folder: Path) -> None:
    """Write `FILES` of `image` to `folder`; the expected outputs are the golden model's."""
    expected = Machine(image.config).run(image, inputs)
    layout = MemoryLayout(image, memory_base(image.config))
    memory = SharedMemory(folder, memory_base(image.config))
    layout.place(memory)
    for name, array in inputs.items():
        layout.write(memory, name, array)
    memory.configure(windows=layout.windows())
    lines = [
        f"limit {LIMIT}",
        f"start {OFFSETS['CONTROL']} {int(Control.START)}",
        f"status {OFFSETS['STATUS']} {int(Status.DONE)}",
        "expected expected.bin",
    ]
    setup = (("IRQ_ENABLE", 1), ("IRQ_STATUS", 1), ("WATCHDOG", _WATCHDOG))
    registers = [*layout.registers(), *((OFFSETS[name], value) for name, value in setup)]
    lines += [f"write {offset} {value}" for offset, value in registers]
    data = b""
    base = layout.regions[REGION_OUTPUT].offset
    for port in image.outputs:
        name = "_".join(port.name.split())  # one word
        lines.append(f"output {name} {base + port.offset} {port.nbytes}")
        data += np.ascontiguousarray(expected[port.name]).tobytes()
    (folder / "expected.bin").write_bytes(data)
    (folder / "check.txt").write_text("\n".join(lines) + "\n")


def export_kernel(config: NpuConfig, name: str, shape: str, folder: Path) -> None:
    """`export` of a kernel on random data."""
    from sw.compiler import compile_graph

    work = kernel(name, parse_shape(shape, name))
    folder.mkdir(parents=True, exist_ok=True)
    export(compile_graph(work.graph, config, name=name), work.inputs, folder)


def main(argv: Sequence[str] | None = None) -> int:
    """Exit code: 0, or 2 after a message."""
    parser = argparse.ArgumentParser(prog="python -m sw.cli.export_check")
    parser.add_argument("--config", default="default", help="preset (default: %(default)s)")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("--kernel", default="matmul")
    parser.add_argument("--shape", default="", help="as `systola sim --shape` takes it")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args(argv)
    try:
        config = preset(options.config).with_settings(parse_settings(options.set))
        export_kernel(config, options.kernel, options.shape, options.out)
    except SystolaError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())

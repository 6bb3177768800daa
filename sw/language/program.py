"""A compiled kernel: its image, runs on devices, listing, figures."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from spec.config import NpuConfig
from spec.isa import disassemble
from spec.program import Image
from sw.compiler.compilation import Compilation
from sw.language.errors import KernelError
from sw.language.layer import TracedLayer
from sw.runtime.golden import GoldenDevice
from sw.runtime.report import Report
from sw.runtime.session import DeviceOptions, run_image, run_program

Arrays = dict[str, NDArray[Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelRun:
    """What a run gave: `outputs` by parameter name, and a report with cycles and counters.

    With device `rtl` the report's `comparison` says whether the golden model gave the same bits.
    """

    outputs: Arrays
    report: Report

    def __getitem__(self, name: str) -> NDArray[Any]:
        return self.outputs[name]

    @property
    def cycles(self) -> int | None:
        """Of the RTL; None on the golden model."""
        return self.report.cycles


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CompiledKernel:
    """A kernel for one set of shapes and one configuration."""

    compilation: Compilation
    layer: TracedLayer

    @property
    def image(self) -> Image:
        return self.compilation.image

    @property
    def config(self) -> NpuConfig:
        return self.compilation.config

    @property
    def predicted_cycles(self) -> int:
        """What the compiler's cost model says, with its memory of 100 cycles of latency."""
        return sum(self.compilation.predicted)

    def run(self, *arrays: NDArray[Any], device: str = "golden", **named: Any) -> KernelRun:
        """Run once. Arrays in the order of the inputs, or by name; their types are the inputs'.

        device: golden, or rtl, which is compared with golden. Other keywords are inputs, or options
        of `DeviceOptions` (latency, stall, seed, memory, waves).
        """
        names = [port.name for port in self.image.inputs]
        if len(arrays) > len(names):
            raise KernelError(
                f"{len(arrays)} arrays for the inputs {', '.join(names)}", node=self.layer.name
            )
        inputs = dict(zip(names, arrays, strict=False))
        inputs |= {name: named.pop(name) for name in names if name in named}
        try:
            options = DeviceOptions(device=device, **named)
        except TypeError:
            raise KernelError(
                f"run: {', '.join(named)}: no input and no option of a device; inputs are "
                f"{', '.join(names)}",
                node=self.layer.name,
            ) from None
        report, outputs = run_program(self.image, inputs, self.config, options)
        return KernelRun(outputs=outputs, report=report)

    def reference(self, inputs: Mapping[str, NDArray[Any]]) -> Arrays:
        """What the golden model computes, without its checks of order: the fast way."""
        return run_image(self.image, inputs, GoldenDevice(self.config, check=False))[0]

    def disassembly(self) -> str:
        """The instructions in the order of execution, each behind the statement it is part of."""
        virtual, origins = self.compilation.program.instructions, self.layer.origins
        lines = []
        for index, instruction in enumerate(self.compilation.instructions):
            note = "kernel"
            if 0 < index <= len(virtual):
                step = origins.get(virtual[index - 1])
                note = str(step) if step is not None else virtual[index - 1].note
            lines.append(f"{index:5}  {disassemble(instruction)}  ; {note}")
        return "\n".join(lines) + "\n"

    def save(self, path: str | Path) -> None:
        """Write the image, for `systola exec`."""
        self.image.save(path)

    def __str__(self) -> str:
        ports = ", ".join(f"{p.name} {p.dtype}{list(p.shape)}" for p in self.image.inputs)
        kinds = self.image.info["instructions"]
        counts = ", ".join(
            f"{n} {k.upper()}" for k, n in kinds.items() if k not in ("begin", "end")
        )
        return (
            f"{self.layer.name}({ports}) on {self.config.name}: {self.predicted_cycles:,} cycles "
            f"predicted, {counts}"
        )

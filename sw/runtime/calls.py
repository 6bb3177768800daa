"""A compiled model that is called like the model itself, and measured on the way."""

from typing import Any

from numpy.typing import NDArray

from sw.compiler.frontend.compile_module import CompiledModule
from sw.runtime.device import Device
from sw.runtime.golden import GoldenDevice
from sw.runtime.report import Report, compare
from sw.runtime.session import run_image
from sw.runtime.timing import Timing


class MeasuredModel:
    """A compiled model on an open device. `report` sums up all calls.

    Calls take the model's arguments and return its outputs as float arrays. On a device other than
    golden every output is compared with golden's. clock_mhz: for reports in milliseconds.
    """

    def __init__(
        self, program: CompiledModule, device: Device, clock_mhz: float | None = None
    ) -> None:
        self.program, self.device, self.clock_mhz = program, device, clock_mhz
        self.alone = isinstance(device, GoldenDevice)
        # Hazards do not depend on data: golden looks for them in the first call only.
        self.checked = GoldenDevice(device.config)
        self.golden = GoldenDevice(device.config, check=False)
        self.calls = 0
        image = program.image
        ports = (image.inputs, image.outputs)
        shapes = [", ".join("×".join(map(str, port.shape)) for port in row) for row in ports]
        self._report = Report(
            name=program.imported.graph.name, config=device.config, shape=" → ".join(shapes),
            device="golden" if self.alone else "rtl", macs=0, policy=program.imported.policy,
        )  # fmt: skip

    def __call__(self, *args: Any, **keywords: Any) -> list[NDArray[Any]]:
        image, inputs = self.program.image, self.program.inputs(*args, **keywords)
        golden = self.golden if self.calls else self.checked
        outputs, result = run_image(image, inputs, golden if self.alone else self.device)
        self.calls += 1
        self._report.add(result)
        self._report.macs += int(image.info.get("macs", 0))
        if not self.alone:
            expected, _ = run_image(image, inputs, golden)
            same, before = compare(expected, outputs), self._report.comparison
            self._report.comparison = same if before is None else before + same
        return self.program.outputs(outputs)

    @property
    def report(self) -> Report:
        """Figures of all calls so far."""
        self._report.timing = Timing.of(
            self.program.image, clock_mhz=self.clock_mhz, runs=self.calls
        )
        return self._report

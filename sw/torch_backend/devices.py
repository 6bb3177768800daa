"""Devices that stay open while programs come and go, with each program's parameters in place."""

import atexit
import functools
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol

from numpy.typing import NDArray

from spec import Image, NpuConfig
from spec.dram import IDEAL
from spec.isa import Engine
from sw.runtime.device import RunResult
from sw.runtime.golden import GoldenDevice
from sw.runtime.rtl import RtlDevice
from sw.runtime.session import DeviceOptions

Arrays = dict[str, NDArray[Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """Outputs by port, and the figures of the run."""

    outputs: Arrays
    result: RunResult


class Resident(Protocol):
    """A program whose constants are in the device's memory."""

    def run(self, inputs: Mapping[str, NDArray[Any]]) -> Done: ...


class _Golden:
    """A golden device of its own: its memory keeps the constants."""

    def __init__(self, image: Image, check: bool) -> None:
        self._image = image
        self._device = GoldenDevice(image.config, check)
        self._device.load(image)

    def run(self, inputs: Mapping[str, NDArray[Any]]) -> Done:
        for name, array in inputs.items():
            self._device.write(name, array)
        result = self._device.run()
        outputs = {p.name: self._device.read(p.name) for p in self._image.outputs}
        return Done(outputs=outputs, result=result)


class _Rtl:
    """A place in the memory of the one simulated NPU."""

    def __init__(self, image: Image, device: RtlDevice) -> None:
        self._image, self._device = image, device
        device.load(image)

    def run(self, inputs: Mapping[str, NDArray[Any]]) -> Done:
        self._device.load(self._image)
        for name, array in inputs.items():
            self._device.write(name, array)
        result = self._device.run()
        outputs = {p.name: self._device.read(p.name) for p in self._image.outputs}
        return Done(outputs=outputs, result=result)


@functools.cache
def _simulated(config: NpuConfig, options: DeviceOptions) -> RtlDevice:
    """The simulated NPU of a configuration, one for all programs, ended with the process."""
    device = RtlDevice(
        config,
        latency=options.latency,
        stall=options.stall,
        seed=options.seed,
        memory=options.memory,
        clock_mhz=options.clock_mhz,
        resident=True,
    )
    atexit.register(device.kill)
    return device


def place(image: Image, options: DeviceOptions, check: bool) -> Resident:
    """Put a program and its constants on the device that `options` name."""
    if options.device == "golden":
        return _Golden(image, check)
    # Without a DRAM the clock changes nothing in the simulation: one device serves every clock.
    clock = None if options.memory == IDEAL else options.clock_mhz
    return _Rtl(image, _simulated(image.config, replace(options, clock_mhz=clock)))


def instructions(image: Image) -> dict[str, int]:
    """Instructions by engine. Programs have no branches: each runs once in every run."""
    counts: dict[str, int] = {}
    for instruction in image.instructions():
        engine = instruction.format.engine
        if engine is not Engine.FETCH:
            name = engine.name.lower()
            counts[name] = counts.get(name, 0) + 1
    return counts

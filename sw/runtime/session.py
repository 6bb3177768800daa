"""Run programs on devices and say what came out: what the command line and `import systola` do.

Heavy packages (torch, amaranth, the simulator) are imported where they are needed: listing the
configurations takes no five seconds.
"""

import math
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from spec.available import require_memory
from spec.config import NpuConfig
from spec.dram import IDEAL, dram_named
from spec.errors import SystolaError
from spec.names import did_you_mean
from spec.program import Image
from sw.runtime.arrays import load_array, load_as
from sw.runtime.report import Comparison, Report, compare
from sw.runtime.timing import Timing

if TYPE_CHECKING:
    from sw.compiler.tosa.graph import Graph
    from sw.runtime.device import Device, RunResult

Arrays = dict[str, NDArray[Any]]
DEVICES = ("rtl", "golden")
_REFERENCE_S = 3600.0
"""Seconds that the reference model may take: a BERT takes it minutes."""


class OptionError(SystolaError, ValueError):
    """An option of a run that makes no sense; the message has its value and the legal ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceOptions:
    """Which device, and how the simulated memory behaves.

    latency: cycles from a read request to its first data. stall: probability that a channel holds
    back in a cycle. seed: of those stalls and of random inputs. waves: file to record waves to.
    clock_mhz: the clock that reports turn cycles into time with, and that the time of a DRAM is
    counted in. memory: ideal, or a DRAM of `spec.dram`, whose latency is in place of `latency`;
    without a clock the NPU has the DRAM's.
    """

    device: str = "rtl"
    latency: int = 100
    stall: float = 0.0
    seed: int = 0
    waves: Path | None = None
    clock_mhz: float | None = None
    memory: str = IDEAL

    def __post_init__(self) -> None:
        if self.device not in DEVICES:
            near = did_you_mean(self.device, DEVICES)
            raise OptionError(f"--device {self.device}: must be one of {', '.join(DEVICES)}{near}")
        if self.latency < 1:
            raise OptionError(f"--latency {self.latency}: must be 1 or more cycles")
        if not 0 <= self.stall < 1:
            raise OptionError(f"--stall {self.stall:g}: a probability, from 0 up to but not 1")
        check_clock(self.clock_mhz)
        dram_named(self.memory)
        if self.waves is not None and self.device != "rtl":
            raise OptionError(f"--waves: device {self.device} has no waves; use --device rtl")


def check_clock(mhz: float | None) -> None:
    """`OptionError` for a clock that does not tick."""
    if mhz is not None and not 0 < mhz < math.inf:
        raise OptionError(f"--clock {mhz:g}: must be more than 0 MHz")


@contextmanager
def open_device(config: NpuConfig, options: DeviceOptions) -> "Iterator[Device]":
    """A device that runs programs of `config`, closed at the end; killed where an error ends it."""
    device: Device
    if options.device == "golden":
        from sw.runtime.golden import GoldenDevice

        device = GoldenDevice(config)
    else:
        from sw.runtime.rtl import RtlDevice

        device = RtlDevice(
            config,
            latency=options.latency,
            stall=options.stall,
            seed=options.seed,
            waves=options.waves,
            memory=options.memory,
            clock_mhz=options.clock_mhz,
        )
    try:
        yield device
    except BaseException:
        # A simulator that is in the middle of something cannot be asked to finish.
        getattr(device, "kill", device.close)()
        raise
    device.close()


def run_image(
    image: Image, inputs: Mapping[str, NDArray[Any]], device: "Device"
) -> "tuple[Arrays, RunResult]":
    """Load, write every input, run, read every output."""
    device.load(image)
    for name, array in inputs.items():
        device.write(name, array)
    result = device.run()
    return {port.name: device.read(port.name) for port in image.outputs}, result


def check_inputs(image: Image, inputs: Mapping[str, NDArray[Any]]) -> None:
    """`OptionError` unless there is one array of the right shape and type per input port."""
    known = {port.name: port for port in image.inputs}
    for name in sorted(set(known) ^ set(inputs)):
        what = "is missing" if name in known else "is no input of this program"
        raise OptionError(f"input {name}: {what}; its inputs are {', '.join(known) or 'none'}")
    for name, array in inputs.items():
        port = known[name]
        if not isinstance(array, np.ndarray):
            raise OptionError(
                f"input {name}: {type(array).__name__} given, the program takes a NumPy array of "
                f"{port.dtype}{list(port.shape)}"
            )
        if array.shape != port.shape or array.dtype != np.dtype(port.dtype):
            raise OptionError(
                f"input {name}: {array.dtype}{list(array.shape)} given, the program takes "
                f"{port.dtype}{list(port.shape)}"
            )


def random_inputs(image: Image, seed: int) -> Arrays:
    """Uniform over each input's whole type, the same for the same seed."""
    _check_memory(image)
    return random_arrays(image.inputs, seed)


class Described(Protocol):
    """What has a name, a type and a shape: a port of an image, a tensor of a graph."""

    @property
    def name(self) -> str: ...
    @property
    def dtype(self) -> str: ...
    @property
    def shape(self) -> tuple[int, ...]: ...


def random_arrays(ports: Iterable[Described], seed: int) -> Arrays:
    """`random_inputs` for what need not be an image."""
    rng = np.random.default_rng(seed)
    arrays = {}
    for port in ports:
        if port.dtype == "bool":
            arrays[port.name] = rng.integers(0, 2, size=port.shape).astype(np.bool_)
            continue
        limits = np.iinfo(port.dtype)
        arrays[port.name] = rng.integers(
            limits.min, limits.max, size=port.shape, dtype=np.dtype(port.dtype), endpoint=True
        )
    return arrays


def _check_memory(image: Image) -> None:
    """Ports may overlap: a small file can ask for many large arrays."""
    total = sum(port.nbytes for port in (*image.inputs, *image.outputs))
    require_memory(total + image.memory_bytes, f"program {image.info.get('name', '')}: its tensors")


def golden_outputs(image: Image, inputs: Mapping[str, NDArray[Any]]) -> Arrays:
    """What the golden model computes, with its checks for uninitialised and unordered accesses."""
    with open_device(image.config, DeviceOptions(device="golden")) as device:
        return run_image(image, inputs, device)[0]


def run_program(
    image: Image,
    inputs: Mapping[str, NDArray[Any]],
    config: NpuConfig,
    options: DeviceOptions,
    graph: "Graph | None" = None,
) -> tuple[Report, Arrays]:
    """Run `image` on one device and compare: RTL with golden, golden with `graph`'s reference.

    config: the device's; an image of another one is refused. graph: None skips the reference.
    Returns the report and the device's outputs. The device runs first: what it says about a bad
    program is what its user sees.
    """
    image.check_device(config)
    check_inputs(image, inputs)
    with open_device(config, options) as device:
        got, result = run_image(image, inputs, device)
    report = Report(
        name=str(image.info.get("name", "program")),
        config=config,
        shape=_shape_text(image),
        device=options.device,
        macs=int(image.info.get("macs", 0)),
        waves=options.waves,
        timing=Timing.of(image, clock_mhz=options.clock_mhz, memory=options.memory),
    )
    report.add(result)
    golden = got
    if options.device == "rtl":
        golden = golden_outputs(image, inputs)
        report.comparison = compare(golden, got)
    if graph is not None:
        report.reference = reference_comparison(graph, inputs, golden)
    return report, got


def reference_comparison(
    graph: "Graph", inputs: Mapping[str, NDArray[Any]], outputs: Mapping[str, NDArray[Any]]
) -> Comparison:
    """Golden's outputs against the TOSA reference model on the compiler's own graph."""
    from sw.runtime.verify import verify

    found = verify(graph, inputs, outputs, timeout_s=_REFERENCE_S)
    return Comparison(elements=found.compared, mismatches=found.mismatches, first=found.first)


def _shape_text(image: Image) -> str:
    shape = image.info.get("shape", "")
    if isinstance(shape, str) and shape:
        return shape
    return " ".join(f"{p.name}[{'×'.join(map(str, p.shape))}]" for p in image.inputs)


def load_inputs(image: Image, files: Mapping[str, Path], seed: int) -> Arrays:
    """Inputs from `.npy` files by port name; ports without a file get random values."""
    arrays = random_inputs(image, seed)
    ports = {port.name: port for port in image.inputs}
    for name, path in files.items():
        where = f"input {name}: {path}"
        if name in ports:
            port = ports[name]
            takes = f"the program's input {name}"
            arrays[name] = load_as(path, port.dtype, port.shape, where=where, takes=takes)
        else:
            arrays[name] = load_array(path, where)  # check_inputs says which names there are
    return arrays


def save_outputs(outputs: Mapping[str, NDArray[Any]], folder: Path) -> None:
    """Each output as `folder`/name.npy."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, array in outputs.items():
            np.save(folder / f"{name}.npy", array)
    except OSError as error:
        raise OptionError(f"--out {folder}: cannot write: {error.strerror}") from None

"""The generated RTL as a device: one simulation that stays alive over many programs."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spec.config import NpuConfig
from spec.dram import IDEAL, dram_named
from spec.errors import SystolaError
from spec.isa import ISA_DIGEST
from spec.memmap import ID_VALUE, OFFSETS, Control, Fault, Status
from spec.program import REGION_OUTPUT, Image
from sw.runtime.device import RunResult
from sw.runtime.simulator.build import Kind, build_simulator
from sw.runtime.simulator.control import READ, WRITE, MemoryReport, SharedMemory
from sw.runtime.simulator.errors import SimulationError
from sw.runtime.simulator.layout import MemoryLayout, memory_base
from sw.runtime.simulator.process import SimulatorProcess
from sw.runtime.simulator.recipe import Say
from sw.runtime.simulator.registers import (
    FaultState,
    describe_instruction,
    read_fault,
    read_positions,
    read_result,
    read_words,
)
from sw.runtime.simulator.simulated import Simulated
from sw.runtime.timing import predicted_cycles, predicted_memory

MAX_CYCLES = 1_000_000_000
_RESET_READS = 100_000


class DeviceFault(SystolaError):
    """The NPU stopped with a fault. It is reset: the device can run again."""

    def __init__(self, message: str, state: FaultState) -> None:
        super().__init__(message)
        self.cause = state.cause
        self.engine = state.engine
        self.instruction = state.instruction
        self.region = state.region
        self.offset = state.offset


class RtlDevice(Simulated):
    """Runs program images on the RTL of `config`, built on first use and cached.

    latency: memory latency in cycles. stall: probability that a memory channel holds back in a
    cycle. seed: of those stalls; the same for every run. waves: VCD file to write (slower, takes
    the debug build); debug: the debug build without waves, assertions on. max_cycles: limit of
    one run; watchdog: cycles without progress that are a fault (None: from the latency, 0: off);
    time_limit: cycles of a run after which the NPU itself ends it with a fault (0: off).
    verilog: files with module `systola_npu` instead of the generated ones. events: file for the
    record of the last run (`sw.measure.profile.trace_records`; slower). say: hears
    what the build is doing (default: standard error). resident: images stay in memory, with their
    constants, when others are loaded; loading one again only points the NPU at it. sampled:
    (period, size, seed): `waves` has only `size` cycles of each `period`, drawn by the seed, of the
    RTL as it is synthesized.
    memory: ideal, or a DRAM of `spec.dram` beside an NPU at `clock_mhz` (None: at the DRAM's).
    lenient: the memory takes every address; what lies outside is counted in `memory_report`.
    Errors: `BuildError`, `SimulationError`, `DeviceFault`, `ImageError`, `TensorError`.
    """

    def __init__(
        self,
        config: NpuConfig,
        latency: int = 100,
        stall: float = 0.0,
        seed: int = 0,
        waves: Path | str | None = None,
        *,
        debug: bool = False,
        max_cycles: int = MAX_CYCLES,
        watchdog: int | None = None,
        time_limit: int = 0,
        verilog: Sequence[Path] | None = None,
        events: Path | None = None,
        say: Say | None = None,
        resident: bool = False,
        sampled: tuple[int, int, int] | None = None,
        lenient: bool = False,
        memory: str = IDEAL,
        clock_mhz: float | None = None,
    ) -> None:
        self.config = config
        self.max_cycles = max_cycles
        self.watchdog = watchdog
        self.time_limit = time_limit
        self._latency = latency
        self._lenient = lenient
        self._layout: MemoryLayout | None = None
        self._resident: dict[int, MemoryLayout] | None = {} if resident else None
        kind = Kind.DEBUG if debug or waves is not None else Kind.PERF
        kind = kind if sampled is None else Kind.ACTIVITY
        path = None
        if waves is not None:
            path = Path(waves).absolute()
            path.parent.mkdir(parents=True, exist_ok=True)
        self._build = build_simulator(config, kind, verilog=verilog, say=say)
        try:
            self._process = SimulatorProcess(
                self._build.program,
                memory_base(config),
                path,
                events and Path(events).absolute(),
                sampled,
            )
            self._memory = self._process.memory
            self.set_memory(
                latency=latency, stall=stall, seed=seed, memory=memory, clock_mhz=clock_mhz
            )
            self._check_identity()
        except BaseException:
            self.kill()
            raise

    @property
    def pid(self) -> int:
        """Process number of the simulator."""
        return self._process.pid

    def set_memory(
        self,
        *,
        latency: int | None = None,
        stall: float | None = None,
        seed: int | None = None,
        memory: str | None = None,
        clock_mhz: float | None = None,
    ) -> None:
        """Change the memory's behaviour from the next run on; `clock_mhz` goes with `memory`."""
        self._memory.configure(latency=latency, stall=stall, seed=seed)
        if memory is not None:
            dram = dram_named(memory)
            self._memory.set_dram(dram.picoseconds(clock_mhz) if dram else {})
            self._timed = (memory, clock_mhz)
        self._latency = self._latency if latency is None else latency
        # Otherwise the first run would begin with ready signals of the old behaviour.
        self._process.reset()

    def inject_errors(
        self, region: int, offset: int, size: int, access: int = READ | WRITE
    ) -> None:
        """Answer accesses to these bytes of the loaded image with SLVERR; size 0: none."""
        low = memory_base(self.config) + self._loaded().regions[region].offset + offset
        self._memory.configure(errors=(low, low + size, access if size else 0))

    def load(self, image: Image) -> None:
        """Make `image` the current program; `ImageError` if it is of another configuration."""
        image.check_device(self.config)
        self._layout = self._placed(image)
        windows = self._layout.windows(any_access=self._lenient)
        self._memory.configure(windows=windows, errors=(0, 0, 0), lenient=self._lenient)

    def _placed(self, image: Image) -> MemoryLayout:
        """Where `image` is, put there unless it still is."""
        known = self._resident
        if known is not None and id(image) in known:
            return known[id(image)]
        start = max((layout.size for layout in known.values()), default=0) if known else 0
        layout = MemoryLayout(image, memory_base(self.config), start)
        layout.place(self._memory)
        if known is not None:
            known[id(image)] = layout
        return layout

    def forget(self, image: Image) -> None:
        """Give up the place of a resident image."""
        if self._resident is not None:
            self._resident.pop(id(image), None)

    def write(self, name: str, array: NDArray[Any]) -> None:
        """Set input `name`; `TensorError` unless shape and dtype are the port's."""
        self._loaded().write(self._memory, name, array)

    def read(self, name: str) -> NDArray[Any]:
        """A copy of output `name`."""
        return self._loaded().read(self._memory, name)

    def memory(self, region: int) -> NDArray[np.uint8]:
        """A copy of all bytes of a region of the loaded image."""
        return self._loaded().region(self._memory, region).copy()

    def run(self) -> RunResult:
        """Execute the loaded program once.

        `DeviceFault` if the NPU stops with a fault, `SimulationError` if it does not end within
        `max_cycles` or breaks an AXI rule. The device can be used again after either.
        """
        layout = self._loaded()
        self.prepare_memory()
        self._process.write(self.setup_registers())
        done, wall = self._process.run(OFFSETS["CONTROL"], Control.START, self.max_cycles)
        if not done:
            self._out_of_time(layout)
        self._process.write([(OFFSETS["IRQ_STATUS"], 1)])
        report = self._memory.report()
        self._check_fault(layout, report)
        if report.violations or report.rejected:
            self._process.reset()
            raise SimulationError(f"the NPU broke a rule of its memory port: {report.message}")
        result = read_result(self._process.read, wall, self.config)
        with_memory = predicted_memory(layout.image, *self._timed)
        return replace(result, predicted_cycles=predicted_cycles(layout.image, with_memory))

    def prepare_memory(self) -> SharedMemory:
        """Make the memory ready for a run: outputs poisoned, stalls from the start of the seed."""
        self._loaded().poison(self._memory, REGION_OUTPUT)
        self._memory.configure()
        return self._memory

    def setup_registers(self) -> list[tuple[int, int]]:
        """(offset, value) of every register that a run needs before START.

        All of them each time: a soft reset keeps only the base registers.
        """
        setup = {
            "IRQ_ENABLE": 1,
            "IRQ_STATUS": 1,
            "WATCHDOG": self._watchdog_cycles(),
            "TIME_LIMIT": self.time_limit,
        }
        named = ((OFFSETS[name], value) for name, value in setup.items())
        return [*self._loaded().registers(), *named]

    def _loaded(self) -> MemoryLayout:
        if self._layout is None:
            raise SimulationError("no program is loaded: call load(image) first")
        return self._layout

    def _check_identity(self) -> None:
        values = read_words(self._process.read, ["ID", "ISA_DIGEST", "CONFIG_DIGEST"])
        wanted = {"ID": ID_VALUE, "ISA_DIGEST": ISA_DIGEST, "CONFIG_DIGEST": self.config.digest()}
        for name, value in wanted.items():
            if values[name] != value:
                raise SimulationError(
                    f"register {name} of the simulated NPU reads {values[name]:#x}, not "
                    f"{value:#x}: its RTL was generated for something else"
                )

    def _check_fault(self, layout: MemoryLayout, report: MemoryReport) -> None:
        fault = read_fault(self._process.read)
        if fault is None:
            return
        where = describe_instruction(layout.image, fault.instruction)
        text = f"{fault.cause} in {fault.engine}, instruction {fault.instruction}: {where}"
        if fault.cause == Fault.WATCHDOG.name:
            text += f"\nno engine made progress for {self._watchdog_cycles()} cycles; they are at\n"
            text += self._positions(layout)
        if fault.cause == Fault.OUTSIDE_REGION.name:
            size = layout.region_bytes(fault.region)
            text += f"\na run from byte {fault.offset} of region {fault.region} on does not lie "
            text += f"inside its {size} bytes"
        self._soft_reset()
        if report.message:
            text += f"\nmemory: {report.message}"
        raise DeviceFault(text, fault)

    def _soft_reset(self) -> None:
        """Reset the NPU and wait until it has taken back what memory still owed it."""
        self._process.write([(OFFSETS["CONTROL"], Control.RESET)])
        for _ in range(_RESET_READS):
            if not read_words(self._process.read, ["STATUS"])["STATUS"] & Status.BUSY:
                return
        self._process.reset()
        raise SimulationError(f"the NPU is still busy {_RESET_READS} register reads after RESET")

    def _out_of_time(self, layout: MemoryLayout) -> None:
        where = self._positions(layout)
        self._process.reset()
        raise SimulationError(
            f"the program does not end within {self.max_cycles} cycles; its engines are at\n{where}"
        )

    def _positions(self, layout: MemoryLayout) -> str:
        """A line per engine: the instruction that it is at, or had last."""
        lines = []
        for engine, index in read_positions(self._process.read).items():
            begun = engine == "fetch" or index
            at = (
                f"{index}: {describe_instruction(layout.image, index)}"
                if begun
                else "no instruction"
            )
            lines.append(f"  {engine}: {at}")
        return "\n".join(lines)

    def _watchdog_cycles(self) -> int:
        """Cycles without progress that are a fault; 0: never. By default memory takes far less."""
        if self.watchdog is not None:
            return self.watchdog
        return min(100_000 + 1000 * self._latency, 2**32 - 1)

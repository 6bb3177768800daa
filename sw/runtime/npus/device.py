"""Several NPUs with one memory as a device: one simulation that stays alive over many runs."""

from collections.abc import Callable, Sequence
from typing import Any

from numpy.typing import NDArray

from spec.dram import IDEAL, dram_named
from spec.isa import ISA_DIGEST
from spec.memmap import ID_VALUE, OFFSETS
from spec.program import Image
from sw.runtime.npus import registers as at
from sw.runtime.npus.build import TOP, build_npus
from sw.runtime.npus.jobs import Arrays, Plan
from sw.runtime.npus.report import NpuShare, SystemResult
from sw.runtime.npus.system import NpuSystem, NpuSystemError
from sw.runtime.rtl import MAX_CYCLES, DeviceFault
from sw.runtime.simulator.build import Kind
from sw.runtime.simulator.control import MemoryReport
from sw.runtime.simulator.errors import SimulationError
from sw.runtime.simulator.layout import memory_base
from sw.runtime.simulator.process import SimulatorProcess
from sw.runtime.simulator.recipe import Say
from sw.runtime.simulator.registers import describe_instruction, read_fault, read_words
from sw.runtime.simulator.simulated import Simulated

Outputs = list[dict[str, NDArray[Any]]]


class NpusDevice(Simulated):
    """The generated RTL of `system`, built on first use and cached.

    latency, stall, seed, memory, clock_mhz: of the memory, as `RtlDevice`. debug: the build with
    assertions. max_cycles: limit of one run. watchdog: cycles without progress of an NPU that are a
    fault.
    Errors: `BuildError`, `SimulationError`, `DeviceFault`, `ImageError`, `TensorError`.
    """

    def __init__(
        self,
        system: NpuSystem,
        *,
        latency: int = 100,
        stall: float = 0.0,
        seed: int = 0,
        memory: str = IDEAL,
        clock_mhz: float | None = None,
        debug: bool = False,
        max_cycles: int = MAX_CYCLES,
        watchdog: int | None = None,
        say: Say | None = None,
    ) -> None:
        self.system = system
        self.max_cycles = max_cycles
        self._watchdog = 100_000 + 1000 * latency * system.npus if watchdog is None else watchdog
        self._base = memory_base(system.config)
        kind = Kind.DEBUG if debug else Kind.PERF
        self._build = build_npus(system, kind, say=say)
        try:
            self._process = SimulatorProcess(self._build.program, self._base, top=TOP)
            self._memory = self._process.memory
            self._memory.configure(latency=latency, stall=stall, seed=seed)
            dram = dram_named(memory)
            self._memory.set_dram(dram.picoseconds(clock_mhz) if dram else {})
            self._process.reset()
            self._check_identity()
        except BaseException:
            self.kill()
            raise

    def run(self, plan: Plan, samples: Sequence[Arrays]) -> tuple[Outputs, SystemResult]:
        """Place everything, run every job to its end, read every output.

        samples: the inputs of each sample, by port name. `DeviceFault` names the NPU and the sample
        at which it stopped; `SimulationError` if the run does not end within `max_cycles`. The
        device can be used again after either.
        """
        if len(plan.jobs) > self.system.npus:
            raise NpuSystemError(
                f"{len(plan.jobs)} jobs for {self.system.npus} NPUs: one each, or fewer"
            )
        if len(samples) != plan.samples:
            raise NpuSystemError(f"{len(samples)} samples given, the plan is for {plan.samples}")
        for job in plan.jobs:
            job.image.check_device(self.system.config)
        self._check_space(plan)
        plan.place(self._memory)
        plan.write(self._memory, samples)
        self._memory.configure(windows=plan.windows(self._base))
        # Semaphores and stalls begin anew.
        self._process.reset()
        self._process.write(self._setup(plan))
        mask = (1 << len(plan.jobs)) - 1
        done, wall = self._process.run(at.GO, mask, self.max_cycles)
        report = self._memory.report()
        self._check_end(plan, done, report)
        return plan.read(self._memory), self._result(plan, wall)

    def ring(self, npu: int, semaphore: int, times: int = 1) -> None:
        """Ring a doorbell from the host; `NpuSystemError` where there is none."""
        if not (0 <= npu < self.system.npus and 0 <= semaphore < at.SEMAPHORES):
            raise NpuSystemError(
                f"doorbell of NPU {npu}, semaphore {semaphore}: there are NPUs 0…"
                f"{self.system.npus - 1} with semaphores 0…{at.SEMAPHORES - 1}"
            )
        self.write_register(at.doorbell(npu, semaphore), times)

    def write_register(self, address: int, value: int) -> None:
        """Write a register of the system; `SimulationError` if it answers with an error."""
        self._process.write([(address, value)])

    def read_register(self, address: int) -> int:
        """Read one."""
        return self._process.read([address])[0]

    def _check_space(self, plan: Plan) -> None:
        space = (1 << self.system.config.axi_addr_bits) - self._base
        if plan.size > space:
            raise SimulationError(
                f"the samples need {plan.size:,} bytes of memory, of which the addresses of the "
                f"configuration reach {space:,} (field axi_addr_bits): run fewer samples at a time"
            )

    def _setup(self, plan: Plan) -> list[tuple[int, int]]:
        """(address, value) of every register before GO."""
        out = []
        for npu, job in enumerate(plan.jobs):
            own = {"IRQ_ENABLE": 1, "IRQ_STATUS": 1, "WATCHDOG": self._watchdog, "TIME_LIMIT": 0}
            fixed = [(OFFSETS[name], value) for name, value in own.items()]
            out += [(at.npu_page(npu, o), v) for o, v in [*job.registers(self._base), *fixed]]
            out += job.runner_registers(npu, self._base)
        return out + [(at.doorbell(npu, sem), times) for npu, sem, times in plan.rings]

    def _check_identity(self) -> None:
        found = self._process.read([at.ID, at.NPUS])
        wanted = [at.ID_VALUE, self.system.npus | self.system.words << 8]
        if found != wanted:
            raise SimulationError(f"registers ID and NPUS read {found}, not {wanted}")
        names = {"ID": ID_VALUE, "ISA_DIGEST": ISA_DIGEST}
        names["CONFIG_DIGEST"] = self.system.config.digest()
        for npu in range(self.system.npus):
            values = read_words(self._page(npu), list(names))
            if values != names:
                raise SimulationError(f"NPU {npu} is another one: {values}, not {names}")

    def _page(self, npu: int) -> Callable[[Sequence[int]], list[int]]:
        """Reads registers of one NPU."""
        return lambda offsets: self._process.read([at.npu_page(npu, o) for o in offsets])

    def _check_end(self, plan: Plan, done: bool, report: MemoryReport) -> None:
        failed = self._process.read([at.STOP])[0]
        if done and not failed and not report.violations and not report.rejected:
            return
        try:
            for npu, job in enumerate(plan.jobs):
                if failed >> npu & 1:
                    self._failed(npu, job.image, job.samples, report)
            if report.violations or report.rejected:
                raise SimulationError(f"an NPU broke a rule of its memory port: {report.message}")
            raise SimulationError(
                f"the system does not end within {self.max_cycles} cycles\n{self._positions(plan)}"
            )
        finally:
            self._process.reset()

    def _failed(self, npu: int, image: Image, samples: range, report: MemoryReport) -> None:
        error, run = self._process.read([at.runner(npu, n) for n in ("ERROR", "COMPLETED")])
        text = f"NPU {npu}, sample {samples[run]}: {at.RUNNER_ERRORS.get(error, error)}"
        fault = read_fault(self._page(npu))
        if fault is not None:
            where = describe_instruction(image, fault.instruction)
            text += f": {fault.cause} in {fault.engine}, instruction {fault.instruction}: {where}"
            if report.message:
                text += f"\nmemory: {report.message}"
            raise DeviceFault(text, fault)
        bell = self._process.read([at.BAD_BELL])[0]
        raise SimulationError(f"{text} (address {bell & ~at.BAD:#05x})")

    def _positions(self, plan: Plan) -> str:
        """A line per NPU: what it has done, and what it waits for."""
        names = ("COMPLETED", "WAITED", "BUSY")
        lines = []
        for npu, job in enumerate(plan.jobs):
            runs, waited, busy = self._process.read([at.runner(npu, n) for n in names])
            text = f"  NPU {npu}: {runs} of {job.runs} runs, {busy} cycles busy, {waited} waiting"
            levels = [self.read_register(at.doorbell(npu, s)) for s in range(at.SEMAPHORES)]
            lines.append(f"{text}; semaphores {levels}, waits for {list(job.waits)}")
        return "\n".join(lines)

    def _result(self, plan: Plan, wall_s: float) -> SystemResult:
        low, high = self._process.read([at.CYCLES, at.CYCLES + 4])
        reads, writes = self._process.read([at.MEMORY_READS, at.MEMORY_WRITES])
        return SystemResult(
            cycles=low | high << 32,
            samples=plan.samples,
            shares=tuple(self._share(npu) for npu in range(len(plan.jobs))),
            memory_reads=reads,
            memory_writes=writes,
            word_bytes=self.system.word_bytes,
            wall_s=wall_s,
        )

    def _share(self, npu: int) -> NpuShare:
        names = ("COMPLETED", "BUSY", "WAITED")
        runs, busy, waited = self._process.read([at.runner(npu, n) for n in names])
        words = self._process.read([at.counter(npu, n) for n in at.COUNTERS])
        return NpuShare(
            runs=runs,
            busy=busy,
            waited=waited,
            read_words=words[0],
            write_words=words[1],
            read_waits=words[2],
            write_waits=words[3],
        )

"""What each NPU of a system runs, and where it lies in the one memory."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from golden_model.memory import read_port, write_port
from spec.isa import REGIONS
from spec.memmap import OFFSETS
from spec.places import PAGE
from spec.program import REGION_CONST, REGION_INPUT, REGION_OUTPUT, REGION_TEMP, Image
from sw.runtime.npus.registers import BAD, doorbell, runner
from sw.runtime.npus.system import NpuSystemError
from sw.runtime.simulator.control import READ, WRITE, SharedMemory, Window
from sw.runtime.simulator.layout import POISON, Span, register_pair

Arrays = Mapping[str, NDArray[Any]]

FULL, FREE = 0, 1
"""Semaphores of a stage: its input is there; its output has room."""
LINK_BUFFERS = 2
"""Places for samples between two stages."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Walk:
    """Where a region lies in each run: `stride` bytes on each time, again at `first` after
    `buffers` runs (0: never).
    """

    first: int
    stride: int
    buffers: int = 0

    def at(self, run: int) -> int:
        """Byte of the memory file in run `run`."""
        return self.first + (run % self.buffers if self.buffers else run) * self.stride


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What one NPU does: `image`, `runs` times.

    program, constants, temporary: spans of the memory file. inputs, outputs: of regions 1 and 2.
    waits: semaphores of which it takes one before a run. bells: (NPU, semaphore) that it rings
    after a run. samples: numbers of the samples of its runs.
    """

    image: Image
    program: Span
    constants: Span
    temporary: Span
    inputs: Walk
    outputs: Walk
    samples: range
    waits: tuple[int, ...] = ()
    bells: tuple[tuple[int, int], ...] = ()

    @property
    def runs(self) -> int:
        return len(self.samples)

    def registers(self, base: int) -> list[tuple[int, int]]:
        """(offset, value) of the NPU's registers that stay from run to run; memory is at `base`."""
        spans = {REGION_CONST: self.constants, REGION_TEMP: self.temporary}
        out = register_pair("PROGRAM", base + self.program.offset)
        out.append((OFFSETS["PROGRAM_BYTES"], self.program.size))
        for region, span in spans.items():
            out += register_pair(f"BASE{region}", base + span.offset)
        return out + [
            (OFFSETS[f"LIMIT{region}"], self.image.region_bytes(region) if region < 4 else 0)
            for region in range(REGIONS)
        ]

    def runner_registers(self, npu: int, base: int) -> list[tuple[int, int]]:
        """(address, value) of the settings of runner `npu`."""
        bells = [BAD | doorbell(*bell) for bell in self.bells] + [0, 0]
        values = {"RUNS": self.runs, "WAIT": sum(1 << s for s in self.waits)}
        values |= {"BELL0": bells[0], "BELL1": bells[1]}
        for prefix, walk in (("IN", self.inputs), ("OUT", self.outputs)):
            values[f"{prefix}_LO"] = (base + walk.first) & 0xFFFF_FFFF
            values[f"{prefix}_HI"] = (base + walk.first) >> 32
            values[f"{prefix}_STRIDE"] = walk.stride
            values[f"{prefix}_BUFFERS"] = walk.buffers
        return [(runner(npu, name), value) for name, value in values.items()]


@dataclass(slots=True, kw_only=True)
class _Arena:
    """Hands out pages of the memory file, an unused one behind each."""

    at: int = PAGE

    def take(self, size: int) -> Span:
        span = Span(offset=self.at, size=size)
        self.at += -(-size // PAGE) * PAGE + PAGE
        return span


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The jobs of all NPUs, and the memory that they share.

    code: programs and constants, which nothing writes to. rings: doorbells that the host rings
    before they begin, with how often.
    """

    jobs: tuple[Job, ...]
    samples: int
    code: Span
    inputs: Span
    outputs: Span
    work: Span
    size: int
    rings: tuple[tuple[int, int, int], ...] = ()

    def windows(self, base: int) -> list[Window]:
        """What NPUs may access, and how; the limits of their regions say it more closely."""
        spans = [(self.code, READ), (self.inputs, READ)]
        spans += [(self.outputs, READ | WRITE), (self.work, READ | WRITE)]
        return [
            Window(low=base + span.offset, high=base + span.offset + span.size, access=access)
            for span, access in spans
            if span.size
        ]

    def place(self, memory: SharedMemory) -> None:
        """Write programs and constants; poison the rest."""
        memory.resize(self.size)
        for span in (self.inputs, self.outputs, self.work):
            memory.data[span.offset : span.offset + span.size] = POISON
        for job in self.jobs:
            for span, data in (
                (job.program, job.image.program),
                (job.constants, job.image.constants),
            ):
                memory.data[span.offset : span.offset + span.size] = data

    def write(self, memory: SharedMemory, samples: Sequence[Arrays]) -> None:
        """Put every sample in place; `TensorError` for an array that does not fit its port."""
        first = [job for job in self.jobs if FULL not in job.waits]
        for job in first:
            for run, sample in enumerate(job.samples):
                at = job.inputs.at(run)
                region = memory.data[at : at + job.image.region_bytes(REGION_INPUT)]
                for name, array in samples[sample].items():
                    write_port(region, job.image.inputs, name, array)

    def read(self, memory: SharedMemory) -> list[dict[str, NDArray[Any]]]:
        """A copy of the outputs of every sample."""
        out: list[dict[str, NDArray[Any]]] = [{} for _ in range(self.samples)]
        for job in self.jobs:
            if FREE in job.waits:
                continue
            for run, sample in enumerate(job.samples):
                at = job.outputs.at(run)
                region = memory.data[at : at + job.image.region_bytes(REGION_OUTPUT)]
                ports = job.image.outputs
                out[sample] = {p.name: read_port(region, ports, p.name) for p in ports}
        return out


def batch(image: Image, npus: int, samples: int) -> Plan:
    """The samples of a batch in turn to the NPUs: sample s is computed by NPU s modulo `npus`.

    Program and constants are there once; each NPU has temporary memory of its own.
    `NpuSystemError` for fewer samples than NPUs.
    """
    check_samples(samples, npus)
    arena = _Arena()
    program, constants = arena.take(image.program.size), arena.take(image.constants.size)
    code = _until(arena, PAGE)
    inputs, step_in = _samples(arena, image.region_bytes(REGION_INPUT), samples)
    outputs, step_out = _samples(arena, image.region_bytes(REGION_OUTPUT), samples)
    start = arena.at
    temporary = [arena.take(image.region_bytes(REGION_TEMP)) for _ in range(npus)]
    jobs = tuple(
        Job(
            image=image,
            program=program,
            constants=constants,
            temporary=temporary[npu],
            inputs=Walk(first=inputs.offset + npu * step_in, stride=npus * step_in),
            outputs=Walk(first=outputs.offset + npu * step_out, stride=npus * step_out),
            samples=range(npu, samples, npus),
        )
        for npu in range(npus)
    )
    return _plan(arena, jobs, samples, code, inputs, outputs, start)


def separate(images: Sequence[Image]) -> Plan:
    """Programs that share nothing but the memory: NPU i runs image i once, on sample i."""
    arena = _Arena()
    codes = [(arena.take(i.program.size), arena.take(i.constants.size)) for i in images]
    code, start = _until(arena, PAGE), arena.at
    places = [arena.take(image.region_bytes(REGION_INPUT)) for image in images]
    inputs, start = _until(arena, start), arena.at
    results = [arena.take(image.region_bytes(REGION_OUTPUT)) for image in images]
    outputs, start = _until(arena, start), arena.at
    jobs = tuple(
        Job(
            image=image,
            program=codes[i][0],
            constants=codes[i][1],
            temporary=arena.take(image.region_bytes(REGION_TEMP)),
            inputs=Walk(first=places[i].offset, stride=0),
            outputs=Walk(first=results[i].offset, stride=0),
            samples=range(i, i + 1),
        )
        for i, image in enumerate(images)
    )
    return _plan(arena, jobs, len(images), code, inputs, outputs, start)


def pipeline(stages: Sequence[Image], samples: int) -> Plan:
    """Stage i of a network on NPU i: each sample passes all of them.

    Between two stages are places for two samples. A stage begins a sample once the stage before it
    has rung FULL, and has room for the result once the stage behind it has rung FREE.
    `NpuSystemError` unless the outputs of each stage lie as the inputs of the next do.
    """
    check_samples(samples)
    for number, (one, other) in enumerate(itertools.pairwise(stages)):
        given = [(p.offset, p.shape, p.dtype) for p in one.outputs]
        taken = [(p.offset, p.shape, p.dtype) for p in other.inputs]
        if given != taken:
            raise NpuSystemError(
                f"stage {number} gives {given} (offset, shape, type), stage {number + 1} takes "
                f"{taken}: they are not stages of one network"
            )
    arena = _Arena()
    codes = [(arena.take(i.program.size), arena.take(i.constants.size)) for i in stages]
    code = _until(arena, PAGE)
    inputs, step_in = _samples(arena, stages[0].region_bytes(REGION_INPUT), samples)
    outputs, step_out = _samples(arena, stages[-1].region_bytes(REGION_OUTPUT), samples)
    start = arena.at
    links = []
    for one, other in itertools.pairwise(stages):
        size = max(one.region_bytes(REGION_OUTPUT), other.region_bytes(REGION_INPUT))
        span, step = _samples(arena, size, LINK_BUFFERS)
        links.append(Walk(first=span.offset, stride=step, buffers=LINK_BUFFERS))
    last = len(stages) - 1
    jobs = tuple(
        Job(
            image=image,
            program=codes[i][0],
            constants=codes[i][1],
            temporary=arena.take(image.region_bytes(REGION_TEMP)),
            inputs=links[i - 1] if i else Walk(first=inputs.offset, stride=step_in),
            outputs=links[i] if i < last else Walk(first=outputs.offset, stride=step_out),
            samples=range(samples),
            waits=(*((FULL,) if i else ()), *((FREE,) if i < last else ())),
            bells=(*(((i + 1, FULL),) if i < last else ()), *(((i - 1, FREE),) if i else ())),
        )
        for i, image in enumerate(stages)
    )
    rings = tuple((i, FREE, LINK_BUFFERS) for i in range(last))
    return _plan(arena, jobs, samples, code, inputs, outputs, start, rings)


def check_samples(samples: int, npus: int = 1) -> None:
    """`NpuSystemError` for a number of samples that is none, or leaves some of `npus` idle."""
    if samples < 1:
        raise NpuSystemError(f"--samples {samples}: must be 1 or more")
    if samples < npus:
        raise NpuSystemError(
            f"--samples {samples}: fewer than the {npus} NPUs, of which some would do nothing; "
            f"use --samples {npus} or more, or --npus {samples}"
        )


def _samples(arena: _Arena, size: int, count: int) -> tuple[Span, int]:
    """Room for `count` regions, and the bytes from one to the next."""
    step = max(-(-size // PAGE), 1) * PAGE
    if step >= 1 << 32:
        raise NpuSystemError(f"a sample of {size:,} bytes: a runner's stride has 32 bits")
    return arena.take(step * count), step


def _until(arena: _Arena, start: int) -> Span:
    """What the arena gave from `start` on."""
    return Span(offset=start, size=arena.at - start - PAGE)


def _plan(
    arena: _Arena,
    jobs: tuple[Job, ...],
    samples: int,
    code: Span,
    inputs: Span,
    outputs: Span,
    start: int,
    rings: tuple[tuple[int, int, int], ...] = (),
) -> Plan:
    return Plan(
        jobs=jobs,
        samples=samples,
        code=code,
        inputs=inputs,
        outputs=outputs,
        work=_until(arena, start),
        size=arena.at,
        rings=rings,
    )

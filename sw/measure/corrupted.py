"""Corrupted programs on the RTL: none may reach memory outside its regions, none may hang.

Programs of real kernels, and one with indexed LOADs and STOREs, are run with random changes, their
regions limited to what the image says. The memory behind the port accepts every address and counts
what lies outside. The watchdog and the limit of time are on, so every run has to end by itself;
between them the unchanged programs must still give golden's results.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from golden_model import Machine
from spec import codec
from spec.config import NpuConfig
from spec.isa import (
    FORMATS,
    GRANULE_BYTES,
    ISA_DIGEST,
    Instruction,
    Opcode,
    Sync,
    decode_program,
    encode_program,
)
from spec.program import Image, Port
from sw.compiler import compile_graph
from sw.models.kernels import kernel, parse_shape
from sw.runtime.rtl import DeviceFault, RtlDevice
from sw.runtime.simulator.errors import SimulationError

KERNELS = (
    ("matmul", "9x20x11"),
    ("conv2d", "h=5,w=5,c=3,oc=5,k=3,p=1"),
    ("depthwise_conv2d", "h=5,w=6,c=5,k=3,p=1"),
    ("max_pool2d", "h=6,w=5,c=5,k=2,s=2"),
    ("add", "h=3,w=4,c=7"),
    ("rescale", "h=3,w=4,c=7,in_bits=32,out_bits=8"),
)
WATCHDOG, TIME_LIMIT = 1_000, 20_000
"""Cycles; memory answers within 20, and no unchanged program takes half as long."""
CONTROL_EVERY = 20
"""An unchanged program follows so many corrupted ones."""
ROWS, ROW = 8, 24

Arrays = Mapping[str, NDArray[Any]]
Change = Callable[[np.random.Generator, "Victim", NDArray[np.uint8]], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Victim:
    """A program that works, with inputs and golden's outputs. transfers: where in the program the
    fields of its LOADs and STOREs begin, with their formats."""

    name: str
    image: Image
    inputs: Arrays
    outputs: Arrays
    transfers: tuple[tuple[int, Opcode], ...]


@dataclass(slots=True, kw_only=True)
class Findings:
    """What became of the programs. ends: how many ended how; problems: the first few in words."""

    config: str
    programs: int = 0
    controls: int = 0
    outside: int = 0
    hangs: int = 0
    wrong: int = 0
    seconds: float = 0.0
    ends: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)

    @property
    def good(self) -> bool:
        return not (self.outside or self.hangs or self.wrong) and self.programs > 0

    def __str__(self) -> str:
        return (
            f"{self.programs} programs on {self.config}: {self.outside} accesses outside, "
            f"{self.hangs} hangs; {self.wrong} of {self.controls} unchanged ones wrong"
        )

    def note(self, text: str) -> None:
        if len(self.problems) < 10:
            self.problems.append(text)

    def to_json(self) -> dict[str, Any]:
        names = ("config", "programs", "controls", "outside", "hangs", "wrong", "seconds")
        shown = {name: getattr(self, name) for name in names}
        return {**shown, "ends": dict(self.ends.most_common()), "problems": self.problems}


def victims(config: NpuConfig) -> Iterator[Victim]:
    """Every program of the campaign that `config` can run."""
    for name, shape in KERNELS:
        if name.startswith("depthwise") and not config.depthwise:
            continue
        work = kernel(name, parse_shape(shape, name), seed=1)
        yield _victim(name, compile_graph(work.graph, config, name=name), work.inputs)
    if config.indexed_dma:
        yield _victim("gather", *_gather(config))


def _victim(name: str, image: Image, inputs: Arrays) -> Victim:
    at, transfers = 0, []
    for instruction in decode_program(image.program.tobytes()):
        if instruction.opcode in (Opcode.LOAD, Opcode.STORE):
            transfers.append((at, instruction.opcode))
        at += instruction.format.granules * GRANULE_BYTES
    return Victim(
        name=name,
        image=image,
        inputs=inputs,
        outputs=Machine(image.config).run(image, inputs),
        transfers=tuple(transfers),
    )


def _gather(config: NpuConfig) -> tuple[Image, Arrays]:
    """Rows of the constants by indices of the input, to rows of the output by the same indices."""
    digests = {"isa_digest": ISA_DIGEST & 0xFFFF_FFFF, "config_digest": config.digest()}
    rows = {
        "indexed": 1,
        "run": ROW,
        "chip_base": 64,
        "loop": [{"count": ROWS, "chip": ROW}],
    }
    body = [
        Instruction(Opcode.LOAD, {"region": 1, "run": 4 * ROWS, "post": [Sync(sem=0)]}),
        Instruction(Opcode.LOAD, {**rows, "wait": [Sync(sem=0)], "post": [Sync(sem=1)]}),
        Instruction(Opcode.STORE, {**rows, "region": 2, "wait": [Sync(sem=1)]}),
    ]
    program = [Instruction(Opcode.BEGIN, digests), *body, Instruction(Opcode.END)]
    rng = np.random.default_rng(5)
    image = Image(
        config=config,
        program=np.frombuffer(encode_program(program), np.uint8),
        constants=rng.integers(0, 256, ROWS * ROW, dtype=np.uint8),
        inputs=(Port(name="index", offset=0, shape=(ROWS,), dtype="int32"),),
        outputs=(Port(name="y", offset=0, shape=(ROWS, ROW)),),
    )
    return image, {"index": (ROW * rng.permutation(ROWS)).astype(np.int32)}


# Changes ------------------------------------------------------------------------------------------


def _flip(rng: np.random.Generator, victim: Victim, code: NDArray[np.uint8]) -> None:
    code[rng.integers(code.size)] ^= 1 << int(rng.integers(8))


def _word(rng: np.random.Generator, victim: Victim, code: NDArray[np.uint8]) -> None:
    at = 4 * int(rng.integers(code.size // 4))
    code[at : at + 4] = rng.integers(0, 256, 4, dtype=np.uint8)


def _field(rng: np.random.Generator, victim: Victim, code: NDArray[np.uint8]) -> None:
    """A random value, or one near the right one, in a field of a LOAD or STORE that says where."""
    at, opcode = victim.transfers[rng.integers(len(victim.transfers))]
    where = _PLACES[opcode][rng.integers(len(_PLACES[opcode]))]
    size = FORMATS[opcode].granules * GRANULE_BYTES
    word = int.from_bytes(code[at : at + size].tobytes(), "little")
    low, bits = where
    mask = (1 << bits) - 1
    old = word >> low & mask
    new = int(rng.integers(1 << bits)) if rng.random() < 0.5 else old + int(rng.integers(-65, 66))
    word = word & ~(mask << low) | (new & mask) << low
    code[at : at + size] = np.frombuffer(word.to_bytes(size, "little"), np.uint8)


CHANGES: tuple[Change, ...] = (_flip, _word, _field, _field)


_NAMES = {"region", "mem_base", "run", "indexed", "index_base", "mem", "count"}


def _places(opcode: Opcode) -> list[tuple[int, int]]:
    """Lowest bit and width of every field that decides which bytes of memory are touched."""
    found = []
    for item in codec.ROWS[opcode].items:
        if isinstance(item, codec.Bits):
            found.append((item.shift, item))
        else:
            found += [
                (item.place(bits, i), bits) for i in range(item.count) for bits in item.fields
            ]
    return [(at, bits.field.bits) for at, bits in found if bits.name in _NAMES]


_PLACES = {opcode: _places(opcode) for opcode in (Opcode.LOAD, Opcode.STORE)}


def corrupted(victim: Victim, rng: np.random.Generator) -> tuple[Image, Arrays]:
    """The program with one to four changes; inputs too are random half of the time."""
    code = victim.image.program.copy()
    for _ in range(int(rng.integers(1, 5))):
        CHANGES[rng.integers(len(CHANGES))](rng, victim, code)
    inputs = victim.inputs
    if rng.random() < 0.5:
        raw = {name: rng.integers(0, 256, a.nbytes, dtype=np.uint8) for name, a in inputs.items()}
        inputs = {name: raw[name].view(a.dtype).reshape(a.shape) for name, a in inputs.items()}
    return replace(victim.image, program=code), inputs


# The campaign ------------------------------------------------------------------------------------


def campaign(
    config: NpuConfig,
    count: int,
    seed: int,
    *,
    stall: float = 0.2,
    say: Callable[[Findings], None] = lambda found: None,
) -> Findings:
    """Run `count` corrupted programs; `say` hears of the findings after every hundred."""
    found, start = Findings(config=config.name), time.monotonic()
    subjects = list(victims(config))
    with RtlDevice(
        config,
        latency=20,
        stall=stall,
        seed=seed,
        watchdog=WATCHDOG,
        time_limit=TIME_LIMIT,
        max_cycles=4 * TIME_LIMIT,
        lenient=True,
    ) as device:
        for number in range(count):
            rng = np.random.default_rng([seed, number])
            victim = subjects[rng.integers(len(subjects))]
            where = f"seed {seed}, program {number}, {victim.name}"
            found.ends[_run(device, *corrupted(victim, rng), found, where)] += 1
            found.programs += 1
            if number % CONTROL_EVERY == CONTROL_EVERY - 1:
                _control(device, subjects[number // CONTROL_EVERY % len(subjects)], found, where)
            found.seconds = time.monotonic() - start
            if found.programs % 100 == 0:
                say(found)
    return found


def _run(device: RtlDevice, image: Image, inputs: Arrays, found: Findings, where: str) -> str:
    """Returns how it ended."""
    device.load(image)
    for name, array in inputs.items():
        device.write(name, array)
    try:
        device.run()
        end = "DONE"
    except DeviceFault as fault:
        end = fault.cause
    except SimulationError as error:
        end = "?"
        if device.memory_report().rejected == 0:
            found.hangs += 1
            found.note(f"{where}: {error}")
    report = device.memory_report()
    if report.rejected:
        found.outside += report.rejected
        found.note(f"{where}: {report.message}")
    return end


def _control(device: RtlDevice, victim: Victim, found: Findings, where: str) -> None:
    """The unchanged program gives golden's results after whatever ran before it."""
    before = found.outside, found.hangs
    _run(device, victim.image, victim.inputs, found, f"{victim.name} unchanged after {where}")
    found.controls += 1
    right = all(np.array_equal(device.read(n), want) for n, want in victim.outputs.items())
    if not right or (found.outside, found.hangs) != before:
        found.wrong += 1
        found.note(f"{victim.name} unchanged after {where}: not golden's results")

"""Reading the NPU's registers back into Python values."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from spec.config import NpuConfig
from spec.isa import Engine, IsaError
from spec.memmap import OFFSETS, Fault, Stall, Status
from spec.program import Image
from spec.repeat import run_order
from sw.runtime.device import RunResult

Read = Callable[[Sequence[int]], list[int]]


def read_words(read: Read, names: Sequence[str]) -> dict[str, int]:
    """Registers by name; `X` stands for the pair X_LO, X_HI where the map has one."""
    offsets: list[int] = []
    spans = []
    for name in names:
        halves = [name] if name in OFFSETS else [f"{name}_LO", f"{name}_HI"]
        spans.append((name, len(offsets), len(halves)))
        offsets += [OFFSETS[h] for h in halves]
    words = read(offsets)
    return {name: sum(words[at + i] << (32 * i) for i in range(count)) for name, at, count in spans}


def read_result(read: Read, wall_s: float, config: NpuConfig) -> RunResult:
    """The counters of a run that is done, those of engines where `config` has them."""
    engines = list(Engine) if config.engine_counters else []
    names = [f"COUNT_{e.name}_{s.name}" for e in engines for s in Stall]
    values = read_words(read, ["CYCLES", "VECTORS", "READ_BYTES", "WRITE_BYTES", *names])
    return RunResult(
        cycles=values["CYCLES"],
        counters={
            e.name.lower(): {s.name.lower(): values[f"COUNT_{e.name}_{s.name}"] for s in Stall}
            for e in engines
        },
        vectors=values["VECTORS"],
        read_bytes=values["READ_BYTES"],
        write_bytes=values["WRITE_BYTES"],
        wall_s=wall_s,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultState:
    """What the NPU says about a fault.

    region, offset: where the run begins that OUTSIDE_REGION is about; 0 for other causes.
    """

    cause: str
    engine: str
    instruction: int
    region: int
    offset: int


def read_fault(read: Read) -> FaultState | None:
    """The fault that stopped the run, or None."""
    names = ("CAUSE", "ENGINE", "INSTRUCTION", "REGION", "OFFSET")
    values = read_words(read, ["STATUS", *(f"FAULT_{name}" for name in names)])
    if not values["STATUS"] & Status.FAULT:
        return None
    return FaultState(
        cause=_name(Fault, values["FAULT_CAUSE"]),
        engine=_name(Engine, values["FAULT_ENGINE"]).lower(),
        instruction=values["FAULT_INSTRUCTION"],
        region=values["FAULT_REGION"],
        offset=values["FAULT_OFFSET"],
    )


def read_positions(read: Read) -> dict[str, int]:
    """The instruction index that each engine is at."""
    values = read_words(read, [f"PC_{e.name}" for e in Engine])
    return {e.name.lower(): values[f"PC_{e.name}"] for e in Engine}


def describe_instruction(image: Image, index: int) -> str:
    """Disassembly of what is executed as number `index`, or what is wrong with it."""
    number = -1
    try:
        for number, (_, instruction) in enumerate(run_order(image.program.tobytes())):
            if number == index:
                return str(instruction)
    except IsaError as error:
        return str(error) if number + 1 == index else f"(lies behind an undecodable one: {error})"
    return "(lies behind END)"


def _name(kind: type[Fault] | type[Engine], value: int) -> str:
    try:
        return kind(value).name
    except ValueError:
        return f"unknown ({value})"

"""REPEAT: the order in which a program's instructions run, and the addresses that they have then.

Fetch executes REPEAT. Engines see the same instructions as in a program that has a section once for
each of its runs, and indices of instructions count those.
"""

from collections.abc import Callable, Iterator, Sequence

from spec.config import NpuConfig
from spec.errors import SystolaError
from spec.isa import (
    DISPLACED,
    FORMATS,
    GRANULE_BYTES,
    STEPS,
    Instruction,
    IsaError,
    Opcode,
    decode,
    decode_program,
)
from spec.legality import check_instruction

MOST_EXECUTED = 1 << 22
"""Instructions of a run that software takes: a damaged REPEAT can ask for any number."""


class ProgramTooLongError(SystolaError):
    """A program that runs more instructions than software looks at."""


def displaced(instruction: Instruction, displacements: Sequence[int]) -> Instruction:
    """The instruction as its engine gets it, without displacements of its own."""
    names = DISPLACED.get(instruction.opcode, ())
    chosen = [(name, instruction[f"{name}_by"]) for name in names]
    if not any(by for _, by in chosen):
        return instruction
    values = dict(instruction.values)
    for name, by in chosen:
        if by:
            width = FORMATS[instruction.opcode].field(name).bits
            values[name] = (values[name] + displacements[by - 1]) % (1 << width)
            values[f"{name}_by"] = 0
    return Instruction(instruction.opcode, values)


def execution(read: Callable[[int], Instruction]) -> Iterator[tuple[int, Instruction]]:
    """(byte offset, instruction) from BEGIN to END in the order of execution, without REPEAT.

    read: the instruction that is stored at a byte offset. `IsaError` where fetch would fault.
    """
    at = left = executed = 0
    active = -1
    moved = [0] * STEPS
    while True:
        instruction = read(at)
        after = at + FORMATS[instruction.opcode].granules * GRANULE_BYTES
        if instruction.opcode is Opcode.REPEAT:
            if active < 0:
                active, left = at, instruction["count"]
            elif active != at:
                raise IsaError(f"offset {at:#x}: REPEAT within a section that is repeated")
            if left:
                start = at - instruction["section"] * GRANULE_BYTES
                if start < 0:
                    raise IsaError(f"offset {at:#x}: REPEAT of what lies before the program")
                left -= 1
                for i, step in enumerate(instruction["step"]):
                    moved[i] += step["bytes"]
                at = start
                continue
            active, moved = -1, [0] * STEPS
        else:
            executed += 1
            if executed > MOST_EXECUTED:
                raise ProgramTooLongError(
                    f"the program runs more than {MOST_EXECUTED} instructions; a REPEAT is damaged"
                )
            yield at, displaced(instruction, moved)
            if instruction.opcode is Opcode.END:
                return
        at = after


def run_order(code: bytes, config: NpuConfig | None = None) -> Iterator[tuple[int, Instruction]]:
    """`execution` of an encoded program.

    config: every instruction is checked against the rules of this configuration, as it is stored
    and as it is executed.
    """
    stored: dict[int, Instruction] = {}

    def read(at: int) -> Instruction:
        if at not in stored:
            instruction = decode(code, at)
            if config is not None:
                check_instruction(instruction, config)
            stored[at] = instruction
        return stored[at]

    for at, instruction in execution(read):
        if config is not None and instruction is not stored[at]:
            check_instruction(instruction, config)
        yield at, instruction


def executed_program(code: bytes) -> list[Instruction]:
    """The instructions of an encoded program in the order of execution."""
    return [instruction for _, instruction in run_order(code)]


def listing(code: bytes) -> Iterator[tuple[int, Instruction]]:
    """(index of its first execution, instruction) of an encoded program as it is stored.

    The index of a REPEAT is that of what its section begins with in the first repetition.
    """
    at = index = 0
    begins: dict[int, int] = {}
    for instruction in decode_program(code):
        begins[at] = index
        yield index, instruction
        if instruction.opcode is Opcode.REPEAT:
            section = begins.get(at - instruction["section"] * GRANULE_BYTES, index)
            index += (index - section) * instruction["count"]
        else:
            index += 1
        at += instruction.format.granules * GRANULE_BYTES

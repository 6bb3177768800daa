"""REPEAT in random programs: sections of them run again, with addresses that move on."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from golden_model import Machine
from spec import Image, Opcode
from spec.errors import SystolaError
from spec.isa import (
    DISPLACED,
    FORMATS,
    STEPS,
    Instruction,
    decode_program,
    encode_program,
)

LONGEST = 2
"""Instructions of a section."""


def repeated(
    made: Image, inputs: Mapping[str, np.ndarray], rng: np.random.Generator, tries: int = 20
) -> tuple[Image, dict[str, np.ndarray]] | None:
    """`made` with a section that runs again, and its outputs; None if none of the tries is legal.

    Semaphores that do not come out even, races and addresses outside make most tries illegal.
    """
    machine = Machine(made.config)
    program = decode_program(made.program.tobytes())
    found = None
    for _ in range(tries):
        first = int(rng.integers(1, len(program) - 1))
        after = min(first + int(rng.integers(1, LONGEST + 1)), len(program) - 1)
        section = [_moved(each, rng) for each in program[first:after]]
        values = {
            "count": int(rng.integers(1, 4)),
            "section": sum(FORMATS[each.opcode].granules for each in section),
            "step": [{"bytes": 16 * int(rng.integers(-2, 5))} for _ in range(STEPS)],
        }
        again = Instruction(Opcode.REPEAT, values)
        code = encode_program([*program[:first], *section, again, *program[after:]])
        image = replace(made, program=np.frombuffer(code, np.uint8).copy())
        try:
            found = image, machine.run(image, inputs)
        except SystolaError:
            continue
        break
    return found


def _moved(instruction: Instruction, rng: np.random.Generator) -> Instruction:
    """The instruction, with displacements for some of its addresses."""
    values = dict(instruction.values)
    for name in DISPLACED.get(instruction.opcode, ()):
        if rng.random() < 0.4:
            values[f"{name}_by"] = int(rng.integers(1, STEPS + 1))
    return Instruction(instruction.opcode, values)

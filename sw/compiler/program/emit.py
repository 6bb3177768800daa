"""Stage `emit`: virtual instructions with addresses, waits and posts become instructions."""

from functools import cache, lru_cache
from typing import Any

from spec.config import NpuConfig
from spec.fields import field_of
from spec.isa import ISA_DIGEST, Instruction, IsaError, Opcode
from sw.compiler.errors import LegalityError
from sw.compiler.program.records import Loop
from sw.compiler.program.semaphores import Program
from sw.compiler.program.virtual import Buffer, Place, VirtualInstruction


def emit(program: Program, config: NpuConfig) -> list[Instruction]:
    """BEGIN, one instruction for each virtual one, END. `LegalityError` if a field overflows."""
    begin = {"isa_digest": ISA_DIGEST & 0xFFFFFFFF, "config_digest": config.digest()}
    body = [_instruction(each, program, config) for each in program.instructions]
    return [Instruction(Opcode.BEGIN, begin), *body, Instruction(Opcode.END)]


def _address(field: str, buffer: Buffer, config: NpuConfig) -> int:
    if buffer.address < 0:
        raise LegalityError(f"buffer {buffer.name} has no address")
    if buffer.place is Place.PARAM and field == "chip_base":
        return buffer.address * config.param_entry_bytes
    return buffer.address


def _instruction(virtual: VirtualInstruction, program: Program, config: NpuConfig) -> Instruction:
    record = virtual.record
    values: dict[str, Any] = record._asdict()
    values["loop"] = [_loop_values(loop) for loop in record.loop]
    for name, buffer in virtual.bases.items():
        value = values[name] + _address(name, buffer, config)
        # Bases may start outside the memory (padding); addresses wrap at the field's width.
        values[name] = value % _wrap(virtual.opcode, name)
        if name == "mem_base":
            values["region"] = buffer.region
    values["wait"] = program.waits[virtual]
    values["post"] = program.posts[virtual]
    try:
        return Instruction(virtual.opcode, values)
    except IsaError as error:
        raise LegalityError(str(error), node=virtual.note) from None


@cache
def _wrap(opcode: Opcode, name: str) -> int:
    """How many values a field has."""
    return 1 << field_of(opcode, name).bits


@lru_cache(maxsize=1 << 13)
def _loop_values(loop: Loop) -> dict[str, int]:
    """A loop as an instruction takes (and copies) it. Programs repeat their loops."""
    return {**loop._asdict(), "last": loop.last or loop.count}

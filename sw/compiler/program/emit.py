"""Stage `emit`: nodes with addresses and semaphores become instructions."""

from spec.config import NpuConfig
from spec.isa import FORMATS, ISA_DIGEST, Field, Instruction, IsaError, Opcode
from sw.compiler.errors import LegalityError
from sw.compiler.program.draft import Buffer, Node, Place
from sw.compiler.program.semaphores import Program


def emit(program: Program, config: NpuConfig) -> list[Instruction]:
    """The program: BEGIN, one instruction per node, END. `LegalityError` if a field overflows."""
    begin = {"isa_digest": ISA_DIGEST & 0xFFFFFFFF, "config_digest": config.digest()}
    body = [_instruction(node, program, config) for node in program.nodes]
    return [Instruction(Opcode.BEGIN, begin), *body, Instruction(Opcode.END)]


def _address(field: str, buffer: Buffer, config: NpuConfig) -> int:
    if buffer.address < 0:
        raise LegalityError(f"buffer {buffer.name} has no address")
    if buffer.place is Place.PARAM and field == "chip_base":
        return buffer.address * config.param_entry_bytes
    return buffer.address


def _instruction(node: Node, program: Program, config: NpuConfig) -> Instruction:
    values = dict(node.values)
    fields = {f.name: f for f in FORMATS[node.opcode].items if isinstance(f, Field)}
    for name, buffer in node.bases.items():
        value = values.get(name, 0) + _address(name, buffer, config)
        # Bases may start outside the memory (padding); addresses wrap at the field's width.
        values[name] = value % (1 << fields[name].bits)
        if name == "mem_base":
            values["region"] = buffer.region
    values["wait"] = program.waits[node]
    values["post"] = program.posts[node]
    try:
        return Instruction(node.opcode, values)
    except IsaError as error:
        raise LegalityError(str(error), node=node.note) from None

"""Single fields of the instruction table by name: their widths and legal values."""

from spec.isa import FORMATS, Field, Opcode


def field_of(opcode: Opcode, name: str) -> Field:
    """Field `name` of an opcode; one of a group's elements is called `group.field`.

    `KeyError` names a field that the opcode does not have.
    """
    return FORMATS[opcode].field(name)

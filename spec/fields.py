"""Single fields of the instruction table by name: their widths and legal values."""

from spec.isa import FORMATS, Field, Group, Opcode


def field_of(opcode: Opcode, name: str) -> Field:
    """Field `name` of an opcode; one of a group's elements is called `group.field`.

    `KeyError` names a field that the opcode does not have.
    """
    outer, _, inner = name.partition(".")
    for item in FORMATS[opcode].items:
        if item.name != outer:
            continue
        if isinstance(item, Group):
            for field in item.fields:
                if field.name == inner:
                    return field
        elif not inner:
            return item
    raise KeyError(f"{opcode.name} has no field {name}")

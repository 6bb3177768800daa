"""Writes `records.py` from the instruction table.

Run `PYTHONPATH=. python sw/compiler/program/records_source.py`: as a module of the compiler it
would import the records that it writes.

The records are text rather than classes made at run time, so that a type checker knows their
fields: a misspelt one is an error before anything runs, and at construction at the latest.
"""

from collections.abc import Iterator
from pathlib import Path

from spec.isa import DISPLACED, FORMATS, Field, Format, Group, Instruction, Opcode

OPCODES = (Opcode.LOAD, Opcode.STORE, Opcode.MATRIX, Opcode.DEPTHWISE, Opcode.VECTOR)
"""Those that a layer is made of."""

BASES = sorted({name for names in DISPLACED.values() for name in names})

LATER = ("opcode", "granules", "wait", "post", "region", *(f"{n}_by" for n in BASES))
"""What is known only when an instruction is encoded: never a field of a record."""

LOOPS = {
    Opcode.LOAD: "DmaLoop",
    Opcode.STORE: "DmaLoop",
    Opcode.MATRIX: "ArrayLoop",
    Opcode.DEPTHWISE: "ArrayLoop",
    Opcode.VECTOR: "VectorLoop",
}
"""Opcodes whose loops have the same fields share a record."""

_HIDES = "  # type: ignore[assignment]  # instead of the method of tuples"

_HEAD = '''"""Virtual instructions as records: a class for each opcode and each kind of loop.

Written by `records_source.py` from the instruction table; do not edit. The default of a field is
the value that an instruction has where none is given.
"""

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias, TypedDict

from spec.isa import Alu, DType, Opcode, Reduce, Scale, Space, Table
'''


def source() -> str:
    """The text of `records.py`."""
    parts = [_HEAD]
    written: set[str] = set()
    for opcode in OPCODES:
        fmt = FORMATS[opcode]
        if LOOPS[opcode] not in written:
            written.add(LOOPS[opcode])
            parts.append(_loop(fmt))
        parts.append(_record(fmt))
    parts.append(_some_fields(FORMATS[Opcode.VECTOR]))
    names = " | ".join(_name(opcode) for opcode in OPCODES)
    parts.append(
        f"Record: TypeAlias = {names}\nLoop: TypeAlias = DmaLoop | ArrayLoop | VectorLoop\n"
    )
    return "\n\n".join(parts)


def _name(opcode: Opcode) -> str:
    return opcode.name.capitalize()


def _fields(fmt: Format) -> Iterator[Field]:
    for item in fmt.items:
        if isinstance(item, Field) and item.name not in LATER and not item.reserved:
            yield item


def _loop(fmt: Format) -> str:
    group = next(item for item in fmt.items if isinstance(item, Group) and item.name == "loop")
    lines = [
        f"class {LOOPS[fmt.opcode]}(NamedTuple):",
        '    """A loop; `last`: iterations in the last one of the loop around it (0: `count`)."""',
        "",
    ]
    for field in group.fields:
        default = 1 if field.name == "count" else 0
        hides = _HIDES if hasattr(tuple, field.name) else ""
        lines.append(f"    {field.name}: int = {default}{hides}")
    return "\n".join(lines) + "\n"


def _record(fmt: Format) -> str:
    default = Instruction(fmt.opcode)
    lines = [f"class {_name(fmt.opcode)}(NamedTuple):", f'    """{fmt.doc}"""', ""]
    for field in _fields(fmt):
        value = default[field.name]
        text = f"{field.kind.__name__}.{field.kind(value).name}" if field.kind else str(value)
        lines.append(f"    {field.name}: {_type(field)} = {text}")
    lines += [
        f"    loop: Sequence[{LOOPS[fmt.opcode]}] = ()",
        "",
        "    @property",
        "    def opcode(self) -> Opcode:",
        f"        return Opcode.{fmt.opcode.name}",
    ]
    return "\n".join(lines) + "\n"


def _some_fields(fmt: Format) -> str:
    name, fields = _name(fmt.opcode), list(_fields(fmt))
    lines = [
        "class ArithmeticFields(TypedDict, total=False):",
        f'    """Some fields of a {name}: what it computes, but not of which elements."""',
        "",
        *(f"    {field.name}: {_type(field)}" for field in fields if _computes(field.name)),
        "",
        "",
        f"class {name}Fields(ArithmeticFields, total=False):",
        f'    """Some of the fields of a {name}, from which one is put together."""',
        "",
        *(f"    {field.name}: {_type(field)}" for field in fields if not _computes(field.name)),
    ]
    return "\n".join(lines) + "\n"


def _computes(name: str) -> bool:
    """Whether a field of VECTOR is arithmetic, on A, on B, between them or on the result."""
    if name.endswith(("_base", "_space", "_one")):
        return False
    return name.startswith(("a_", "b_", "o_")) or name in ("bias", "alu", "table")


def _type(field: Field) -> str:
    return field.kind.__name__ if field.kind else "int"


if __name__ == "__main__":
    Path(__file__).with_name("records.py").write_text(source())

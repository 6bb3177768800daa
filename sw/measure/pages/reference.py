"""docs/isa.md and docs/registers.md from the tables of spec/."""

import enum

from spec import isa, memmap
from spec.isa import TABLE, Field, Format, Group
from spec.memmap import REGISTERS, Register

_NOTE = "<!-- Generated from spec/ by sw/measure/pages/reference.py (make docs); do not edit. -->"
_FIELD_ENUMS = (isa.Point, isa.Space, isa.DType, isa.Scale, isa.Alu, isa.Reduce, isa.Table)


def isa_page() -> str:
    """docs/isa.md: every instruction with its bits, legal values and meaning."""
    major, minor = isa.ISA_VERSION
    lines = [
        _NOTE,
        "",
        "# Instructions",
        "",
        f"ISA version {major}.{minor}, digest `{isa.ISA_DIGEST:016x}`. What the instructions do is",
        "in [contract.md](contract.md); this page has their bits.",
        "",
        f"An instruction is a whole number of {isa.GRANULE_BYTES}-byte granules, little endian.",
        "Bits are counted from the lowest bit of the first byte; those above the last field are 0.",
        "Element *i* of a group lies *i* × (bits of an element) higher than element 0, whose bits",
        "are shown. *Reserved* fields must be zero.",
        "",
        "| instruction | opcode | engine | bits | granules | |",
        "|---|---|---|---|---|---|",
    ]
    for fmt in TABLE:
        lines.append(
            f"| [{fmt.opcode.name}](#{fmt.opcode.name.lower()}) | {fmt.opcode:#04x} "
            f"| {fmt.engine.name.lower()} | {fmt.bits} | {fmt.granules} | {fmt.doc} |"
        )
    lines += ["", "## Values of enumerated fields", "", "| | values |", "|---|---|"]
    for kind in _FIELD_ENUMS:
        lines.append(f"| {kind.__name__} | {_members(kind)} |")
    for fmt in TABLE:
        lines += _format_section(fmt)
    return "\n".join(lines) + "\n"


def _members(kind: type[enum.IntEnum] | type[enum.IntFlag]) -> str:
    return ", ".join(f"{int(m)} {m.name}" for m in kind)


def _format_section(fmt: Format) -> list[str]:
    fixed = {"opcode": f"{fmt.opcode:#04x}", "granules": str(fmt.granules)}
    lines = ["", f"## {fmt.opcode.name}", "", fmt.doc, ""]
    lines += ["| bits | field | type | legal values | |", "|---|---|---|---|---|"]
    at = 0
    for item in fmt.items:
        if isinstance(item, Group):
            each = item.bits // item.count
            lines.append(
                f"| {_span(at, item.bits)} | **{item.name}**\\[{item.count}] "
                f"| {item.count} × {each} bits | | {item.doc} |"
            )
            lsb = at
            for field in item.fields:
                lines.append(_field_row(f"{item.name}\\[0].{field.name}", field, lsb))
                lsb += field.bits
        else:
            lines.append(_field_row(item.name, item, at, fixed.get(item.name, "")))
        at += item.bits
    return lines


def _span(lsb: int, bits: int) -> str:
    return f"{lsb}" if bits == 1 else f"{lsb + bits - 1}:{lsb}"


def _field_row(name: str, field: Field, lsb: int, fixed: str = "") -> str:
    kind = f"{'s' if field.signed else 'u'}{field.bits}"
    if field.kind is not None:
        kind += f", {field.kind.__name__}"
    legal = "reserved: 0" if field.reserved else f"{field.minimum}…{field.maximum}"
    return f"| {_span(lsb, field.bits)} | `{name}` | {kind} | {fixed or legal} | {field.doc} |"


def registers_page() -> str:
    """docs/registers.md: the register map, its enumerations, the counters as one matrix."""
    counters = [r for r in REGISTERS if r.name.startswith("COUNT_")]
    lines = [
        _NOTE,
        "",
        "# Registers",
        "",
        f"32-bit registers in {1 << memmap.ADDR_BITS} bytes behind the AXI4-Lite port. Access:",
        "`ro` read, `wo` write, `rw` both, `rw1c` read and write one to clear.",
        "",
        "| offset | register | access | |",
        "|---|---|---|---|",
    ]
    lines += [_register_row(r) for r in REGISTERS if r not in counters]
    lines += ["", "## Values", "", "| | values |", "|---|---|"]
    for kind in (memmap.Control, memmap.Status, memmap.Fault, isa.Engine, memmap.Stall):
        lines.append(f"| {kind.__name__} | {_members(kind)} |")
    lines += [
        "",
        "## Counters",
        "",
        "What each engine did, in cycles: 64 bits each, low word at the offset shown, high word",
        "four bytes above. The counters of one engine sum to `CYCLES`.",
        "",
        "| engine | " + " | ".join(s.name for s in memmap.Stall) + " |",
        "|---|" + "---|" * len(memmap.Stall),
    ]
    for engine in isa.Engine:
        cells = [f"{memmap.OFFSETS[f'COUNT_{engine.name}_{s.name}_LO']:#05x}" for s in memmap.Stall]
        lines.append(f"| {engine.name} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _register_row(register: Register) -> str:
    return f"| {register.offset:#05x} | `{register.name}` | {register.access} | {register.doc} |"

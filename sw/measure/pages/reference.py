"""docs/isa.md and docs/registers.md from the tables of spec/."""

import enum
from collections.abc import Iterator

from spec import isa, memmap
from spec.isa import TABLE, Field, Format, Group
from spec.memmap import REGISTERS, Register
from sw.measure.pages.markdown import document, heading, prose, table

Members = type[enum.IntEnum] | type[enum.IntFlag]
_FIELD_ENUMS: tuple[Members, ...] = (
    *(isa.Point, isa.Space, isa.DType, isa.Scale),
    *(isa.Alu, isa.Reduce, isa.Table),
)
_REGISTER_ENUMS: tuple[Members, ...] = (
    *(memmap.Control, memmap.Status, memmap.Fault),
    *(isa.Engine, memmap.Stall),
)
_BITS = f"""
An instruction is a whole number of {isa.GRANULE_BYTES}-byte granules, little endian. Bits are
counted from the lowest bit of the first byte; those above the last field are 0. Element *i* of a
group lies *i* × (bits of an element) higher than element 0, whose bits are shown; a field that lies
elsewhere says so. *Reserved* fields must be zero.
"""
_COUNTERS = """
What each engine did, in cycles: 64 bits each, low word at the offset shown, high word four bytes
above. The counters of one engine sum to `CYCLES`.
"""


def isa_page() -> str:
    """docs/isa.md: every instruction with its bits, legal values and meaning."""
    major, minor = isa.ISA_VERSION
    blocks = [
        heading(1, "Instructions"),
        prose(
            f"ISA version {major}.{minor}, digest `{isa.ISA_DIGEST:016x}`. What the instructions "
            "do is in [contract.md](contract.md); this page has their bits."
        ),
        prose(_BITS),
        table(("instruction", "opcode", "engine", "bits", "granules", ""), map(_overview, TABLE)),
        heading(2, "Values of enumerated fields"),
        _enumerations(_FIELD_ENUMS),
    ]
    for fmt in TABLE:
        fields = table(("bits", "field", "type", "legal values", ""), _fields(fmt))
        blocks += [heading(2, fmt.opcode.name), prose(fmt.doc), fields]
    return document("systola pages isa", "spec/", *blocks)


def _overview(fmt: Format) -> list[object]:
    name = f"[{fmt.opcode.name}](#{fmt.opcode.name.lower()})"
    engine = fmt.engine.name.lower()
    return [name, f"{fmt.opcode:#04x}", engine, fmt.bits, fmt.granules, fmt.doc]


def _enumerations(kinds: tuple[Members, ...]) -> str:
    cells = [(kind.__name__, ", ".join(f"{int(m)} {m.name}" for m in kind)) for kind in kinds]
    return table(("", "values"), cells)


def _fields(fmt: Format) -> Iterator[list[str]]:
    fixed = {"opcode": f"{fmt.opcode:#04x}", "granules": str(fmt.granules)}
    at = 0
    for item in fmt.items:
        if isinstance(item, Group):
            each = f"{item.count} × {item.element_bits} bits"
            yield [_span(at, item.bits), f"**{item.name}**\\[{item.count}]", each, "", item.doc]
            for field, lsb, step in item.places():
                row = _field(f"{item.name}\\[0].{field.name}", field, at + lsb)
                if field.apart:
                    row[-1] += f"; of element *i* it lies *i* × {step} bits higher"
                yield row
        else:
            yield _field(item.name, item, at, fixed.get(item.name, ""))
        at += item.bits


def _span(lsb: int, bits: int) -> str:
    return f"{lsb}" if bits == 1 else f"{lsb + bits - 1}:{lsb}"


def _field(name: str, field: Field, lsb: int, fixed: str = "") -> list[str]:
    kind = f"{'s' if field.signed else 'u'}{field.bits}"
    if field.kind is not None:
        kind += f", {field.kind.__name__}"
    legal = "reserved: 0" if field.reserved else f"{field.minimum}…{field.maximum}"
    return [_span(lsb, field.bits), f"`{name}`", kind, fixed or legal, field.doc]


def registers_page() -> str:
    """docs/registers.md: the register map, its enumerations, the counters as one matrix."""
    stalls = [stall.name for stall in memmap.Stall]
    counters = [
        [engine.name]
        + [f"{memmap.OFFSETS[f'COUNT_{engine.name}_{stall}_LO']:#05x}" for stall in stalls]
        for engine in isa.Engine
    ]
    others = [_register(r) for r in REGISTERS if not r.name.startswith("COUNT_")]
    return document(
        "systola pages registers",
        "spec/",
        heading(1, "Registers"),
        prose(
            f"32-bit registers in {1 << memmap.ADDR_BITS} bytes behind the AXI4-Lite port. Access: "
            "`ro` read, `wo` write, `rw` both, `rw1c` read and write one to clear."
        ),
        table(("offset", "register", "access", ""), others),
        heading(2, "Values"),
        _enumerations(_REGISTER_ENUMS),
        heading(2, "Counters"),
        prose(_COUNTERS),
        table(("engine", *stalls), counters),
    )


def _register(register: Register) -> list[str]:
    return [f"{register.offset:#05x}", f"`{register.name}`", register.access, register.doc]

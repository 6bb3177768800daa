"""Instructions: values of the fields of `spec.isa_table`, encoded, decoded, disassembled."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any

from spec.codec import ROWS, Bits, Elements, pack, unpack
from spec.errors import SystolaError
from spec.isa_enums import (
    INTERPOLATED,
    TABLE_SHIFT,
    Alu,
    DType,
    Engine,
    Opcode,
    Point,
    Reduce,
    Scale,
    Space,
    Table,
)
from spec.isa_format import GRANULE_BITS, GRANULE_BYTES, Field, Format, Group
from spec.isa_table import (
    BY_BITS,
    CHIP_BITS,
    DISPLACED,
    DMA_LOOPS,
    FORMATS,
    INDEX_BYTES,
    ISA_DIGEST,
    ISA_VERSION,
    KERNEL_ROWS,
    LOOP_BITS,
    LOOPS,
    MEM_BITS,
    NO_LOOP,
    OPERAND_HIGH,
    OPERAND_LOW,
    POSITION_BITS,
    REGIONS,
    ROW_LOOPS,
    STEPS,
    SYNC_SLOTS,
    TABLE,
    VECTOR_BITS,
)
from spec.logic import Fields, Truth, absent, among

__all__ = [
    "BY_BITS",
    "CHIP_BITS",
    "DISPLACED",
    "DMA_LOOPS",
    "FORMATS",
    "GRANULE_BITS",
    "GRANULE_BYTES",
    "INDEX_BYTES",
    "INTERPOLATED",
    "ISA_DIGEST",
    "ISA_VERSION",
    "KERNEL_ROWS",
    "LOOPS",
    "LOOP_BITS",
    "MEM_BITS",
    "NO_LOOP",
    "OPERAND_HIGH",
    "OPERAND_LOW",
    "POSITION_BITS",
    "REGIONS",
    "ROW_LOOPS",
    "STEPS",
    "SYNC_SLOTS",
    "TABLE",
    "TABLE_SHIFT",
    "VECTOR_BITS",
    "Alu",
    "DType",
    "Engine",
    "Field",
    "Format",
    "Group",
    "Instruction",
    "IsaError",
    "Opcode",
    "Point",
    "Reduce",
    "Scale",
    "Space",
    "Sync",
    "Table",
    "adds_b",
    "decode",
    "decode_program",
    "disassemble",
    "encode_program",
    "merges_b",
    "reads_b",
    "rescales_b",
    "rescales_result",
    "scales_a_late",
    "uses_b",
]


class IsaError(SystolaError, ValueError):
    """A field that does not fit, an unknown opcode, or bytes that are no instruction."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sync:
    """One wait or post slot."""

    sem: int
    level: int = 0
    point: Point = Point.DONE
    amount: int = 1


Values = dict[str, Any]
_DEFAULTS: Values = dict.fromkeys(("row_loop", "col_loop", "lane_loop"), NO_LOOP)


@dataclass(frozen=True)
class Instruction:
    """An opcode and the values of its fields; every value is range-checked on construction.

    `values` maps a field's name to an int and a group's name to a list of dicts, element i being
    loop or slot i. Fields left out take their defaults; groups may be given short (the rest are
    loops of one iteration, or unused slots), slots also as `Sync`. A loop's `last` defaults to
    its `count`.
    """

    opcode: Opcode
    values: Values = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "values", _complete(FORMATS[self.opcode], self.values))

    @property
    def format(self) -> Format:
        return FORMATS[self.opcode]

    def __getitem__(self, name: str) -> Any:
        return self.values[name]

    @cached_property
    def waits(self) -> tuple[Sync, ...]:
        return _used(self.values.get("wait", ()))

    @cached_property
    def posts(self) -> tuple[Sync, ...]:
        return _used(self.values.get("post", ()))

    def encode(self) -> bytes:
        """The instruction's bytes, little endian, a whole number of granules."""
        word = pack(ROWS[self.opcode], self.values)
        return word.to_bytes(self.format.granules * GRANULE_BYTES, "little")

    def __str__(self) -> str:
        return disassemble(self)


_UNARY = tuple(kind for kind in Alu if kind.unary)


def uses_b(v: Fields) -> Truth:
    """Whether a VECTOR with the fields `v` uses operand B, in its ALU or to scale A."""
    return absent(among(v["alu"], *_UNARY)) | (v["a_scale"] == Scale.OPERAND)


def reads_b(v: Fields) -> Truth:
    """Whether a VECTOR with the fields `v` reads operand B from the scratchpad."""
    return uses_b(v) & absent(v["b_none"])


def _untouched(v: Fields) -> Truth:
    """Whether B is read, and nothing is done to A and B before the ALU but their zero points."""
    idle = absent(v["bias"]) & absent(v["a_scale"]) & absent(v["a_clamp"]) & absent(v["a_shl"])
    return idle & absent(v["b_none"]) & absent(v["b_scale"])


def adds_b(v: Fields) -> Truth:
    """Whether the lanes of a VECTOR add B to A, or subtract it, before RESCALE."""
    return among(v["alu"], Alu.ADD, Alu.SUB) & _untouched(v)


def merges_b(v: Fields) -> Truth:
    """Whether the lanes of a VECTOR make one operand of A and B before RESCALE: their sum or
    difference (`adds_b`), or the larger of elements of at most 16 bits without zero points.
    """
    raw = absent(v["a_zp"]) & absent(v["b_zp"])
    narrow = (v["a_type"] != DType.I32) & (v["b_type"] != DType.I32)
    larger = (v["alu"] == Alu.MAX) & raw & narrow & _untouched(v)
    return larger | adds_b(v)


def rescales_b(v: Fields, merged: Truth = None) -> Truth:
    """Whether operand B of a VECTOR takes the lanes' RESCALE for a cycle on its way to the ALU.

    It does so without a scale, too, if it was read: A takes RESCALE in the cycle before. It does
    not where it is one with A. merged: what `merges_b` says, where that is known.
    """
    follows = absent(v["b_none"]) | (v["b_scale"] != Scale.OFF)
    one = merges_b(v) if merged is None else merged
    return absent(among(v["alu"], *_UNARY)) & follows & absent(one)


def scales_a_late(v: Fields) -> Truth:
    """Whether nothing happens to A before the RESCALE of the result, which can then be done as A's:
    both are one.
    """
    idle = absent(v["a_scale"]) & absent(v["a_clamp"]) & absent(v["a_shl"])
    return idle & (v["alu"] == Alu.PASS) & (v["reduce"] == Reduce.NONE)


def rescales_result(v: Fields) -> Truth:
    """Whether the results of a VECTOR take the lanes' RESCALE for a cycle."""
    return (v["o_scale"] != Scale.OFF) & absent(scales_a_late(v))


def _used(slots: Sequence[Mapping[str, int]]) -> tuple[Sync, ...]:
    return tuple(_slot(*s.values()) for s in slots if s["amount"])


@lru_cache(maxsize=1 << 12)
def _slot(sem: int, level: int, point: int, amount: int) -> Sync:
    """Programs repeat their slots."""
    return Sync(sem=sem, level=level, point=Point(point), amount=amount)


def _check(where: str, bits: Bits, value: object) -> int:
    """`value` as an int; the caller has found it to be no int or not legal."""
    if isinstance(value, bool) or hasattr(value, "__index__"):
        value = int(value)
    if not isinstance(value, int):
        raise IsaError(f"{where}: value {value!r} is not a whole number")
    if bits.field.reserved and value != 0:
        raise IsaError(f"{where}: value {value} is reserved and must be 0")
    if not bits.low <= value <= bits.high:
        kind = "signed" if bits.field.signed else "unsigned"
        raise IsaError(
            f"{where}: value {value} does not fit in {bits.field.bits} bits {kind} "
            f"(legal: {bits.low}…{bits.high})"
        )
    return value


def _complete(fmt: Format, given: Values) -> Values:
    name, row = fmt.opcode.name, ROWS[fmt.opcode]
    for key in given:
        if key not in row.names:
            raise IsaError(
                f"{name}.{key}: no such field; fields are {', '.join(sorted(row.names))}"
            )
    fixed = {"opcode": int(fmt.opcode), "granules": fmt.granules}
    values: Values = {}
    for item in row.items:
        if isinstance(item, Elements):
            values[item.name] = _complete_group(name, item, given.get(item.name, ()))
            continue
        value = given.get(item.name)
        if value is None and item.name not in given:
            value = fixed.get(item.name, _DEFAULTS.get(item.name, max(0, item.low)))
        if type(value) is not int or not item.low <= value <= item.high:
            value = _check(f"{name}.{item.name}", item, value)
        if item.name in fixed and value != fixed[item.name]:
            raise IsaError(f"{name}.{item.name}: value {value} must be {fixed[item.name]}")
        values[item.name] = value
    return values


def _complete_group(name: str, group: Elements, given: Sequence[Any]) -> list[dict[str, int]]:
    if len(given) > group.count:
        raise IsaError(f"{name}.{group.name}: {len(given)} elements, at most {group.count}")
    out = [_complete_element(name, group, i, element) for i, element in enumerate(given)]
    out += [group.default.copy() for _ in range(len(given), group.count)]
    return out


def _complete_element(name: str, group: Elements, i: int, given: Any) -> dict[str, int]:
    if isinstance(given, Sync):
        given = {n: getattr(given, n) for n in ("sem", "level", "point", "amount")}
    for key in given:
        if key not in group.default:
            raise IsaError(f"{name}.{group.name}[{i}].{key}: no such field")
    element = {**group.default, **given}
    if "count" in given and "last" not in given:
        element["last"] = element["count"]
    for bits in group.fields:
        value = element[bits.name]
        if type(value) is not int or not bits.low <= value <= bits.high:
            element[bits.name] = _check(f"{name}.{group.name}[{i}].{bits.name}", bits, value)
    return element


def decode(data: bytes, offset: int = 0) -> Instruction:
    """The instruction at byte `offset`; `IsaError` says what is wrong there."""
    head = data[offset : offset + 4]
    if len(head) < 4:
        raise IsaError(f"offset {offset:#x}: instruction stream ends without END")
    try:
        opcode = Opcode(head[0])
    except ValueError:
        raise IsaError(f"offset {offset:#x}: illegal opcode {head[0]:#04x}") from None
    fmt = FORMATS[opcode]
    size = fmt.granules * GRANULE_BYTES
    raw = data[offset : offset + size]
    if len(raw) < size:
        raise IsaError(f"offset {offset:#x}: {opcode.name} is cut off ({len(raw)} of {size} bytes)")
    row, word = ROWS[opcode], int.from_bytes(raw, "little")
    values, legal = unpack(row, word)
    if word >> row.bits:
        raise IsaError(f"offset {offset:#x}: {opcode.name} has bits set above its last field")
    if legal and values["granules"] == fmt.granules:
        return _made(opcode, values)
    try:
        return Instruction(opcode, values)
    except IsaError as error:
        raise IsaError(f"offset {offset:#x}: {error}") from None


def _made(opcode: Opcode, values: Values) -> Instruction:
    """An instruction whose values are known to be complete and legal."""
    out = object.__new__(Instruction)
    object.__setattr__(out, "opcode", opcode)
    object.__setattr__(out, "values", values)
    return out


def decode_program(data: bytes) -> list[Instruction]:
    """Every instruction up to and including END, as it is stored: REPEAT is one of them."""
    out: list[Instruction] = []
    offset = 0
    while True:
        out.append(decode(data, offset))
        offset += out[-1].format.granules * GRANULE_BYTES
        if out[-1].opcode is Opcode.END:
            return out


def encode_program(instructions: Sequence[Instruction]) -> bytes:
    return b"".join(i.encode() for i in instructions)


def disassemble(instruction: Instruction) -> str:
    """One line: fields that differ from their defaults, loops and slots in use."""
    fmt = instruction.format
    default = _complete(fmt, {})
    parts = [fmt.opcode.name.lower()]
    for item in fmt.items:
        value = instruction.values[item.name]
        if isinstance(item, Group):
            parts += _show_group(item, value, default[item.name])
        elif value != default[item.name]:
            parts.append(f"{item.name}={item.kind(value).name if item.kind else value}")
    return " ".join(parts)


def _show_group(
    group: Group, value: list[dict[str, int]], default: list[dict[str, int]]
) -> list[str]:
    parts = []
    for i, (element, plain) in enumerate(zip(value, default, strict=True)):
        if element == plain:
            continue
        if group.name == "loop":
            text = f"{element['count']}"
            if element["last"] != element["count"]:
                text += f"/{element['last']}"
            extra = [f"{k}{v:+d}" for k, v in element.items() if k not in ("count", "last") and v]
            parts.append(f"L{i}[{' '.join([text, *extra])}]")
        elif group.name == "step":
            parts.append(f"by{i + 1}{element['bytes']:+d}")
        elif element["amount"]:
            point = Point(element["point"]).name
            parts.append(
                f"{group.name}(s{element['sem']}x{element['amount']}@{element['level']}:{point})"
            )
    return parts

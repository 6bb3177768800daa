"""Where the fields of an instruction lie in its word and what they may hold, worked out once."""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from spec.isa_enums import Opcode
from spec.isa_format import Field, Format, Group
from spec.isa_table import TABLE


@dataclass(frozen=True, slots=True, eq=False)
class Bits:
    """One field: `shift` within its row or group; `low` … `high` are the legal values.

    step: of a group, from one element to the next.
    """

    name: str
    field: Field
    shift: int
    step: int
    mask: int
    sign: int
    low: int
    high: int

    def of(self, word: int, element: int = 0) -> int:
        """The field's value in a row, or in a group that of an element."""
        value = word >> self.shift + element * self.step & self.mask
        return value - (self.sign << 1) if value & self.sign else value


@dataclass(frozen=True, slots=True, eq=False)
class Elements:
    """A group: `count` elements, all of them `bits` bits, from bit `shift` of the row.

    default: an element that is not given: a loop of one iteration, a slot that is not used.
    """

    name: str
    count: int
    shift: int
    bits: int
    fields: tuple[Bits, ...]
    default: dict[str, int]

    def place(self, field: Bits, element: int) -> int:
        """The lowest bit of an element's field in the row."""
        return self.shift + field.shift + element * field.step


@dataclass(frozen=True, slots=True, eq=False)
class Row:
    """A format: fields and groups in the order of the table, and its width in bits."""

    items: tuple[Bits | Elements, ...]
    names: frozenset[str]
    bits: int


def _field(field: Field, shift: int, step: int = 0) -> Bits:
    sign = 1 << (field.bits - 1) if field.signed else 0
    mask = (1 << field.bits) - 1
    return Bits(field.name, field, shift, step, mask, sign, field.minimum, field.maximum)


def _group(group: Group, shift: int) -> Elements:
    places = {field.name: _field(field, at, step) for field, at, step in group.places()}
    fields = tuple(places[field.name] for field in group.fields)
    default = {bits.name: max(0, bits.low) for bits in fields}
    return Elements(group.name, group.count, shift, group.bits, fields, default)


def _row(fmt: Format) -> Row:
    items: list[Bits | Elements] = []
    at = 0
    for item in fmt.items:
        items.append(_group(item, at) if isinstance(item, Group) else _field(item, at))
        at += item.bits
    return Row(tuple(items), frozenset(item.name for item in items), at)


ROWS: dict[Opcode, Row] = {fmt.opcode: _row(fmt) for fmt in TABLE}


def pack(row: Row, values: dict[str, Any]) -> int:
    """The word with `values`, which are complete and legal."""
    word = 0
    for item in row.items:
        value = values[item.name]
        if isinstance(item, Bits):
            word |= (value & item.mask) << item.shift
            continue
        for i, element in enumerate(value):
            for bits in item.fields:
                word |= (element[bits.name] & bits.mask) << item.place(bits, i)
    return word


def unpack(row: Row, word: int) -> tuple[dict[str, Any], bool]:
    """The values of a word's fields, and whether every one of them is legal."""
    values: dict[str, Any] = {}
    legal = True
    for item in row.items:
        if isinstance(item, Bits):
            # Not item.of(word): every instruction of a program passes here, field by field.
            value = word >> item.shift & item.mask
            if value & item.sign:
                value -= item.sign << 1
            values[item.name] = value
            legal = legal and item.low <= value <= item.high
            continue
        elements, good = _elements(item, word >> item.shift & (1 << item.bits) - 1)
        values[item.name] = [element.copy() for element in elements]
        legal = legal and good
    return values, legal


@lru_cache(maxsize=1 << 13)
def _elements(group: Elements, raw: int) -> tuple[list[dict[str, int]], bool]:
    """Programs repeat their loops and slots. The values are shared: copy them."""
    legal = True
    out = []
    for i in range(group.count):
        values = {bits.name: bits.of(raw, i) for bits in group.fields}
        legal &= all(bits.low <= values[bits.name] <= bits.high for bits in group.fields)
        out.append(values)
    return out, legal

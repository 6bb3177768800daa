"""What a row of the instruction table is made of: fields, groups of fields, formats."""

import enum
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from spec.isa_enums import Engine, Opcode, Point

GRANULE_BITS = 128
GRANULE_BYTES = GRANULE_BITS // 8


@dataclass(frozen=True, slots=True)
class Field:
    """`bits` wide; `low`/`high` bound the legal values where they are tighter than the width.

    `apart`, of a group: the values of all elements lie together, in front of the elements.

    `reserved` fields belong to functions of the complete machine that no configuration of this
    release has: anything but zero is an illegal instruction.
    """

    name: str
    bits: int
    doc: str
    signed: bool = False
    low: int | None = None
    high: int | None = None
    kind: type[enum.IntEnum] | None = None
    reserved: bool = False
    apart: bool = False

    @property
    def minimum(self) -> int:
        if self.low is not None:
            return self.low
        return -(1 << (self.bits - 1)) if self.signed else 0

    @property
    def maximum(self) -> int:
        if self.reserved:
            return 0
        if self.high is not None:
            return self.high
        if self.kind is not None:
            return max(self.kind)
        return (1 << (self.bits - self.signed)) - 1

    def broken(self, value: Any) -> Iterator[Any]:
        """Conditions of which each makes `value` illegal, `value` having this width and sign.

        For integers and hardware values alike; bounds that the width imposes anyway are left out.
        """
        plain = Field(self.name, self.bits, "", self.signed)
        if self.minimum > plain.minimum:
            yield value < self.minimum
        if self.maximum < plain.maximum:
            yield value > self.maximum


@dataclass(frozen=True, slots=True)
class Group:
    """`count` copies of the same fields, element 0 first."""

    name: str
    count: int
    fields: tuple[Field, ...]
    doc: str

    @property
    def bits(self) -> int:
        return self.count * sum(f.bits for f in self.fields)

    @property
    def element_bits(self) -> int:
        """From one element to the next, without the fields that lie apart."""
        return sum(f.bits for f in self.fields if not f.apart)

    def places(self) -> Iterator[tuple[Field, int, int]]:
        """Fields in their order in the word: of element 0 the lowest bit within the group, and how
        far on the next element has it."""
        at = 0
        for field in self.fields:
            if field.apart:
                yield field, at, field.bits
                at += self.count * field.bits
        for field in self.fields:
            if not field.apart:
                yield field, at, self.element_bits
                at += field.bits


@dataclass(frozen=True)
class Format:
    """One row of the table: an opcode and its fields. points: those its slots may have."""

    opcode: Opcode
    engine: Engine
    doc: str
    items: tuple[Field | Group, ...]
    points: tuple[Point, ...] = ()

    @cached_property
    def bits(self) -> int:
        return sum(item.bits for item in self.items)

    @cached_property
    def granules(self) -> int:
        return -(-self.bits // GRANULE_BITS)

    def field(self, name: str) -> Field:
        """The field `name`; a field of a group's elements is `group.field`, as in `loop.count`.

        `KeyError` names a field that the opcode does not have.
        """
        outer, dot, inner = name.partition(".")
        for item in self.items:
            if item.name == outer and isinstance(item, Group) is bool(dot):
                fields = item.fields if isinstance(item, Group) else (item,)
                for field in fields:
                    if field.name == (inner or outer):
                        return field
        raise KeyError(f"{self.opcode.name} has no field {name}")

    @cached_property
    def loops(self) -> int:
        """Loops of the instruction: 0 where it has none."""
        return sum(i.count for i in self.items if isinstance(i, Group) and i.name == "loop")

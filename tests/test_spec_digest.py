"""The ISA digest changes with everything that the meaning of a program depends on."""

import enum
from dataclasses import replace

import pytest

from spec import isa_table
from spec.isa import ISA_DIGEST, TABLE, Alu, Engine, Field, Format, Group, Opcode, Point
from spec.isa_table import table_digest

VECTOR = next(fmt for fmt in TABLE if fmt.opcode is Opcode.VECTOR)


def with_format(changed: Format) -> int:
    return table_digest(tuple(changed if fmt.opcode is changed.opcode else fmt for fmt in TABLE))


def with_field(name: str, /, **changes) -> int:
    """The digest of a table in which a field of VECTOR is another one."""

    def change(field: Field) -> Field:
        return replace(field, **changes) if field.name == name else field

    items = tuple(
        replace(i, fields=tuple(map(change, i.fields))) if isinstance(i, Group) else change(i)
        for i in VECTOR.items
    )
    assert items != VECTOR.items
    return with_format(replace(VECTOR, items=items))


def with_group(name: str, /, **changes) -> int:
    items = tuple(replace(i, **changes) if i.name == name else i for i in VECTOR.items)
    assert items != VECTOR.items
    return with_format(replace(VECTOR, items=items))


def renumbered(kind: type[enum.IntEnum], **values: int) -> type[enum.IntEnum]:
    """A copy of an enumeration in which some members have other values, or are new."""
    return enum.IntEnum(kind.__name__, {**{m.name: int(m) for m in kind}, **values})


def swapped(name: str, other: str) -> int:
    order = {name: other, other: name}
    fields = {item.name: item for item in VECTOR.items}
    items = tuple(fields[order.get(item.name, item.name)] for item in VECTOR.items)
    return with_format(replace(VECTOR, items=items))


Reduce = VECTOR.field("reduce").kind
MUTANTS = {
    "a field's name": lambda: with_field("a_shl", name="a_shift_left"),
    "a field's width": lambda: with_field("a_shl", bits=6, high=31),
    "a field's sign": lambda: with_field("a_zp", signed=False, low=-(1 << 17), high=(1 << 17) - 1),
    "a lower bound": lambda: with_field("lanes", low=2),
    "an upper bound": lambda: with_field("b_shift", high=61),
    "a bound within a group": lambda: with_field("count", high=1000),
    "a field that is no longer reserved": lambda: with_field("reduce_late", reserved=False),
    "a reserved field of one value": lambda: with_field("reduce_late", reserved=False, high=0),
    "two fields in another order": lambda: swapped("a_shl", "alu"),
    "a number of elements": lambda: with_group("loop", count=5),
    "a number of semaphore slots": lambda: with_group("wait", count=5),
    "an opcode's value": lambda: table_digest(
        (replace(TABLE[0], opcode=renumbered(Opcode, BEGIN=3).BEGIN), *TABLE[1:])
    ),
    "an opcode's engine": lambda: with_format(replace(VECTOR, engine=Engine.MATRIX)),
    "the points of an opcode": lambda: with_format(replace(VECTOR, points=(Point.DONE,))),
    "an enumeration's value": lambda: with_field("reduce", kind=renumbered(Reduce, MIN=4)),
    "the names of members": lambda: with_field(
        "reduce", kind=enum.IntEnum("Reduce", "A B C D", start=0)
    ),
    "a new member below the maximum": lambda: with_field(
        "o_scale", kind=renumbered(VECTOR.field("o_scale").kind, LANE=9)
    ),
}


@pytest.mark.parametrize("what", MUTANTS)
def test_another_meaning_has_another_digest(what: str) -> None:
    assert MUTANTS[what]() != ISA_DIGEST


def test_mutants_are_told_apart() -> None:
    digests = [make() for make in MUTANTS.values()]
    assert len(set(digests)) == len(digests)


@pytest.mark.parametrize(("name", "value"), [("GRANULE_BITS", 256), ("REGIONS", 4), ("NO_LOOP", 6)])
def test_facts_outside_the_fields_count_too(
    monkeypatch: pytest.MonkeyPatch, name: str, value: int
) -> None:
    monkeypatch.setattr(isa_table, name, value)
    assert table_digest(TABLE) != ISA_DIGEST


def test_what_a_member_carries_counts_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Alu.CLZ, "operands", 2)
    assert table_digest(TABLE) != ISA_DIGEST


def test_prose_does_not_count() -> None:
    assert with_field("a_shl", doc="another sentence") == ISA_DIGEST
    assert with_format(replace(VECTOR, doc="another sentence")) == ISA_DIGEST


def test_the_digest_is_that_of_this_version() -> None:
    # A change here makes stored programs unusable: they must be compiled again.
    assert f"{ISA_DIGEST:016x}" == "39cb5beed236e12b"

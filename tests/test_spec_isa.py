"""The instruction table: round trip, range checks, decoder errors, disassembly."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spec.isa import (
    FORMATS,
    GRANULE_BYTES,
    TABLE,
    Field,
    Group,
    Instruction,
    IsaError,
    Opcode,
    Point,
    Sync,
    decode,
    decode_program,
    encode_program,
)


def legal_value(field: Field):
    if field.kind is not None and not field.reserved:
        members = [int(m) for m in field.kind if field.minimum <= m <= field.maximum]
        return st.sampled_from(members)
    limits = (field.minimum, 0 if field.reserved else field.maximum)
    if field.reserved:
        return st.just(0)
    return st.integers(*limits) | st.sampled_from(limits)


@st.composite
def instructions(draw, opcode=None):
    fmt = FORMATS[opcode or draw(st.sampled_from(list(Opcode)))]
    values = {}
    for item in fmt.items:
        if item.name in ("opcode", "granules"):
            continue
        if isinstance(item, Group):
            values[item.name] = [
                {f.name: draw(legal_value(f)) for f in item.fields} for _ in range(item.count)
            ]
        else:
            values[item.name] = draw(legal_value(item))
    return Instruction(fmt.opcode, values)


@given(instructions())
@settings(max_examples=300, deadline=None)
def test_decoding_what_was_encoded_gives_the_same_instruction(instruction):
    data = instruction.encode()
    assert len(data) == instruction.format.granules * GRANULE_BYTES
    assert data[0] == instruction.opcode
    assert data[1] == instruction.format.granules
    assert decode(data) == instruction
    assert decode(data).encode() == data


@given(st.lists(instructions(), max_size=4))
@settings(max_examples=50, deadline=None)
def test_programs_round_trip(body):
    body = [i for i in body if i.opcode is not Opcode.END]
    program = [*body, Instruction(Opcode.END)]
    assert decode_program(encode_program(program) + b"\xff" * 16) == program


def every_field():
    for fmt in TABLE:
        for item in fmt.items:
            for f in item.fields if isinstance(item, Group) else (item,):
                if f.name not in ("opcode", "granules"):
                    yield fmt, item, f


def make(fmt, item, field, value):
    if not isinstance(item, Group):
        return Instruction(fmt.opcode, {item.name: value})
    element = {field.name: value}
    return Instruction(fmt.opcode, {item.name: [{}, element]})


FIELDS = [
    pytest.param(fmt, item, f, id=f"{fmt.opcode.name}.{item.name}.{f.name}")
    for fmt, item, f in every_field()
]


@pytest.mark.parametrize(("fmt", "item", "field"), FIELDS)
def test_every_field_refuses_values_outside_its_range(fmt, item, field):
    where = f"{fmt.opcode.name}.{item.name}"
    if isinstance(item, Group):
        where += f"[1].{field.name}"
    for value in (field.minimum - 1, field.maximum + 1):
        if field.reserved:
            message = f"{where}: value {value} is reserved and must be 0"
        else:
            sign = "signed" if field.signed else "unsigned"
            message = (
                f"{where}: value {value} does not fit in {field.bits} bits {sign} "
                f"(legal: {field.minimum}…{field.maximum})"
            )
        with pytest.raises(IsaError, match=f"^{re.escape(message)}$"):
            make(fmt, item, field, value)


@pytest.mark.parametrize(("fmt", "item", "field"), FIELDS)
def test_extreme_values_of_a_field_touch_no_other(fmt, item, field):
    plain = int.from_bytes(make(fmt, item, field, field.minimum).encode(), "little")
    extreme = int.from_bytes(make(fmt, item, field, field.maximum).encode(), "little")
    changed = plain ^ extreme
    if isinstance(item, Group) and item.name == "loop" and field.name == "count":
        return  # `last` follows `count`: two fields change by design, covered by its own test
    assert (changed == 0) == (field.minimum == field.maximum)
    if changed:
        lowest = (changed & -changed).bit_length() - 1
        assert changed >> lowest < 1 << field.bits


def test_field_positions_do_not_overlap_and_fill_the_format():
    for fmt in TABLE:
        seen = 0
        for item in fmt.items:
            if isinstance(item, Group):
                assert item.bits == item.count * sum(f.bits for f in item.fields)
                bits = [
                    at + i * step + bit
                    for field, at, step in item.places()
                    for i in range(item.count)
                    for bit in range(field.bits)
                ]
                assert sorted(bits) == list(range(item.bits))
            seen += item.bits
        assert seen == fmt.bits
        assert fmt.granules * 128 - 127 <= fmt.bits <= fmt.granules * 128


def test_strides_of_b_lie_in_front_of_the_loops():
    fmt = FORMATS[Opcode.VECTOR]
    group = next(item for item in fmt.items if item.name == "loop")
    loops = [{"count": 0x100 + i, "b": 0x1000 + i} for i in range(group.count)]
    word = int.from_bytes(Instruction(Opcode.VECTOR, {"loop": loops}).encode(), "little")
    word >>= fmt.bits - group.bits
    for i in range(group.count):
        assert word >> 24 * i & 0xFFFFFF == 0x1000 + i
        assert word >> 24 * group.count + 128 * i & 0xFFFF == 0x100 + i


def test_last_defaults_to_count():
    loops = Instruction(Opcode.LOAD, {"loop": [{"count": 7}, {"count": 5, "last": 2}]})["loop"]
    assert [(x["count"], x["last"]) for x in loops] == [(7, 7), (5, 2), (1, 1), (1, 1)]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"region": 1.5}, "LOAD.region: value 1.5 is not a whole number"),
        ({"loop": [{}] * 5}, "LOAD.loop: 5 elements, at most 4"),
        ({"loop": [{"stride": 1}]}, "LOAD.loop[0].stride: no such field"),
        ({"wait": [{"amount": 1}, {"sema": 3}]}, "LOAD.wait[1].sema: no such field"),
        ({"opcode": 2}, "LOAD.opcode: value 2 must be 16"),
        ({"granules": 7}, "LOAD.granules: value 7 must be 6"),
        ({"flags": 1}, "LOAD.flags: value 1 is reserved and must be 0"),
    ],
)
def test_bad_instruction_says_where(values, message):
    with pytest.raises(IsaError, match=f"^{re.escape(message)}$"):
        Instruction(Opcode.LOAD, values)


def test_unknown_field_lists_the_known_ones():
    with pytest.raises(IsaError, match=r"^END\.foo: no such field; fields are flags, granules, op"):
        Instruction(Opcode.END, {"foo": 1})


def end_bytes(**change):
    data = bytearray(Instruction(Opcode.END).encode())
    for position, value in change.items():
        data[int(position[1:])] = value
    return bytes(data)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "offset 0x0: instruction stream ends without END"),
        (b"\x01\x01\x00", "offset 0x0: instruction stream ends without END"),
        (b"\x00" * 16, "offset 0x0: illegal opcode 0x00"),
        (b"\xff" * 16, "offset 0x0: illegal opcode 0xff"),
        (end_bytes()[:10], "offset 0x0: END is cut off (10 of 16 bytes)"),
        (end_bytes(b4=1), "offset 0x0: END has bits set above its last field"),
        (end_bytes(b15=128), "offset 0x0: END has bits set above its last field"),
        (end_bytes(b1=2), "offset 0x0: END.granules: value 2 must be 1"),
        (end_bytes(b3=1), "offset 0x0: END.flags: value 256 is reserved and must be 0"),
    ],
)
def test_decoder_says_what_is_wrong_and_where(data, message):
    with pytest.raises(IsaError, match=f"^{re.escape(message)}$"):
        decode(data)


def test_decoder_errors_name_the_offset_of_the_bad_instruction():
    good = Instruction(Opcode.LOAD).encode()
    with pytest.raises(IsaError, match=r"^offset 0x60: illegal opcode 0x55$"):
        decode_program(good + b"\x55" * 16)
    with pytest.raises(IsaError, match=r"^offset 0x60: instruction stream ends without END$"):
        decode_program(good)


def test_decoder_refuses_a_count_of_zero():
    data = Instruction(Opcode.STORE).encode()
    word = int.from_bytes(data, "little")
    at = 0
    for item in FORMATS[Opcode.STORE].items:
        if item.name == "loop":
            break
        at += item.bits
    broken = (word & ~(0xFFFF << at)).to_bytes(len(data), "little")
    with pytest.raises(IsaError, match=r"^offset 0x0: STORE\.loop\[0\]\.count: value 0 does not"):
        decode(broken)


@given(st.binary(min_size=16, max_size=256))
@settings(max_examples=300, deadline=None)
def test_decoder_never_fails_in_another_way(data):
    try:
        instruction = decode(data)
    except IsaError:
        return
    assert data.startswith(instruction.encode())


def test_syncs_come_back_as_written():
    wait = Sync(sem=3, level=2, point=Point.WEIGHTS, amount=5)
    post = Sync(sem=63, level=6, point=Point.READ, amount=127)
    instruction = Instruction(Opcode.MATRIX, {"wait": [wait], "post": [post]})
    assert decode(instruction.encode()).waits == (wait,)
    assert decode(instruction.encode()).posts == (post,)
    assert Instruction(Opcode.END).waits == ()


def test_disassembly_shows_what_differs_from_the_defaults():
    instruction = Instruction(
        Opcode.LOAD,
        {
            "wait": [Sync(sem=1, level=1)],
            "post": [Sync(sem=2, amount=3)],
            "region": 1,
            "mem_base": 64,
            "run": 16,
            "loop": [{"count": 4, "mem": 256}, {"count": 3, "last": 2, "mem": -16, "chip": 16}],
        },
    )
    assert str(instruction) == (
        "load wait(s1x1@1:DONE) post(s2x3@0:DONE) region=1 mem_base=64 run=16 "
        "L0[4 mem+256] L1[3/2 mem-16 chip+16]"
    )
    assert str(Instruction(Opcode.END)) == "end"

"""Records of virtual instructions: as the instruction table says, and strict about their fields."""

from pathlib import Path

import pytest

from spec.isa import FORMATS, Field, Instruction
from sw.compiler.program import records, records_source
from sw.compiler.program.records import Load, Vector, VectorLoop


def test_records_are_what_the_instruction_table_says_today() -> None:
    text = Path(records.__file__).read_text()
    assert text == records_source.source(), (
        "run `PYTHONPATH=. python sw/compiler/program/records_source.py`"
    )


@pytest.mark.parametrize("opcode", records_source.OPCODES)
def test_an_empty_record_is_the_instruction_without_fields(opcode) -> None:
    record = getattr(records, opcode.name.capitalize())()
    assert record.opcode is opcode
    known = Instruction(opcode)
    for item in FORMATS[opcode].items:
        if isinstance(item, Field) and item.name in record._fields:
            assert getattr(record, item.name) == known[item.name]


@pytest.mark.parametrize(
    ("record", "field"), [(Vector, "a_bias"), (Load, "spase"), (VectorLoop, "n")]
)
def test_a_misspelt_field_is_named(record: type, field: str) -> None:
    with pytest.raises(TypeError, match=f"unexpected keyword argument '{field}'"):
        record(**{field: 1})

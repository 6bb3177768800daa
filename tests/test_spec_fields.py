"""Fields of the instruction table by name."""

import pytest

from spec.fields import field_of
from spec.isa import Opcode


def test_a_field_and_a_field_of_a_group_are_found_by_name() -> None:
    assert field_of(Opcode.LOAD, "run").maximum == 2**24 - 1
    assert field_of(Opcode.VECTOR, "loop.count").maximum == 2**16 - 1
    assert field_of(Opcode.MATRIX, "wait.amount").maximum == 127


@pytest.mark.parametrize("name", ["runs", "loop", "loop.runs", "run.count"])
def test_an_unknown_field_is_named(name: str) -> None:
    with pytest.raises(KeyError, match=f"LOAD has no field {name}"):
        field_of(Opcode.LOAD, name)

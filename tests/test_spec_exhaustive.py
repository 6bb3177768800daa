"""A member that is added to an enumeration is an error in every block that must handle it."""

import enum
import importlib.util
import sys

import pytest
from amaranth.lib import data

from golden_model.state import State
from hw_gen.blocks.dma_runs import RunStage
from hw_gen.top import Npu
from spec import preset
from spec.exhaustive import MissingMemberError, exhaustive, handles
from spec.isa import Alu, DType, Engine, Opcode, Point, Reduce, Scale, Space, Table

BLOCKS = [
    ("spec.isa_table", Opcode, "spec.isa_table.TABLE"),
    ("spec.legality", Opcode, "spec.legality"),
    ("spec.numerics", DType, "spec.numerics.NUMPY"),
    ("golden_model.lanes", Alu, "golden_model.lanes"),
    ("golden_model.lanes", Reduce, "golden_model.lanes"),
    ("golden_model.lanes", Table, "golden_model.lanes"),
    ("golden_model.vector", Scale, "golden_model.vector"),
    ("golden_model.vector", Space, "golden_model.vector"),
    ("golden_model.vector_parts", Scale, "golden_model.vector_parts"),
    ("golden_model.vector_parts", Space, "golden_model.vector_parts"),
    ("golden_model.clocks", Engine, "golden_model.clocks"),
    ("golden_model.clocks", Point, "golden_model.clocks"),
    ("golden_model.machine", Engine, "golden_model.machine"),
    ("golden_model.machine", Opcode, "golden_model.machine"),
    ("hw_gen.blocks.decode", Opcode, "hw_gen.blocks.decode"),
    ("hw_gen.blocks.dispatch", Opcode, "hw_gen.blocks.dispatch"),
    ("hw_gen.blocks.load_writer", Space, "hw_gen.blocks.load_writer"),
    ("hw_gen.blocks.vector_alu", Alu, "hw_gen.blocks.vector_alu"),
    ("hw_gen.blocks.vector_alu", Reduce, "hw_gen.blocks.vector_alu"),
    ("hw_gen.blocks.vector_issue", Scale, "hw_gen.blocks.vector_issue"),
    ("hw_gen.blocks.vector_issue", Space, "hw_gen.blocks.vector_issue"),
    ("hw_gen.blocks.vector_lanes", Scale, "hw_gen.blocks.vector_lanes"),
    ("hw_gen.blocks.vector_table", Table, "hw_gen.blocks.vector_table"),
    ("hw_gen.blocks.vector_write", Space, "hw_gen.blocks.vector_write"),
]
TINY = preset("tiny")
ELABORATED = [
    (lambda: Npu(TINY), Engine, "hw_gen.top"),
    (lambda: State(TINY), Space, "golden_model.state"),
    (
        lambda: RunStage(TINY, Opcode.LOAD, data.StructLayout({"chip": 24, "mem": 40, "fires": 1})),
        Space,
        "hw_gen.blocks.dma_runs",
    ),
]


@pytest.fixture
def extend(monkeypatch: pytest.MonkeyPatch):
    """Adds a member `EXTRA` to an enumeration for the length of a test."""

    def add(kind: type[enum.IntEnum]) -> None:
        number = 1 + max(kind)
        extra = int.__new__(kind, number)
        vars(extra).update({**vars(max(kind)), "_name_": "EXTRA", "_value_": number})
        monkeypatch.setitem(kind._member_map_, "EXTRA", extra)
        monkeypatch.setitem(kind._value2member_map_, number, extra)
        monkeypatch.setattr(kind, "_member_names_", [*kind._member_names_, "EXTRA"])
        assert list(kind)[-1] is extra and kind(number) is extra

    return add


def import_again(name: str) -> None:
    """Execute a module's source as another module."""
    spec = importlib.util.find_spec(name)
    again = importlib.util.spec_from_file_location("imported_again", spec.origin)
    module = importlib.util.module_from_spec(again)
    sys.modules[again.name] = module  # where dataclasses look for it
    try:
        again.loader.exec_module(module)
    finally:
        del sys.modules[again.name]


@pytest.mark.parametrize(("module", "kind", "block"), BLOCKS, ids=str)
def test_a_new_member_is_an_error_that_names_block_and_member(extend, module, kind, block) -> None:
    import_again(module)
    extend(kind)
    with pytest.raises(
        MissingMemberError,
        match=rf"^{block} does not handle {kind.__name__}\.EXTRA; add it to the table there$",
    ):
        import_again(module)


@pytest.mark.parametrize(
    ("make", "kind", "block"),
    ELABORATED,
    ids=lambda value: getattr(value, "__name__", str(value)).strip("<>"),
)
def test_a_new_member_is_an_error_where_a_block_is_made(extend, make, kind, block) -> None:
    extend(kind)
    with pytest.raises(MissingMemberError, match=rf"^{block} does not handle .*\.EXTRA; add it to"):
        make().elaborate(None)


def test_a_table_may_leave_members_to_others() -> None:
    table = {Reduce.SUM: 0, Reduce.MAX: 1, Reduce.MIN: 2}
    assert exhaustive("here", Reduce, table, without=[Reduce.NONE]) == table
    with pytest.raises(MissingMemberError, match=r"^here does not handle Reduce\.NONE; "):
        exhaustive("here", Reduce, table)
    with pytest.raises(MissingMemberError, match=r"^here does not handle Table\.I16; "):
        handles("here", Table, Table.OFF, Table.I8)


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (Alu, "Alu 99: a member needs its number of operands"),
        (DType, "DType 99: a member needs its bytes and whether it is signed"),
    ],
)
def test_a_member_without_what_follows_from_it_is_no_member(kind, message: str) -> None:
    with pytest.raises(TypeError, match=f"^{message}$"):
        kind.__new_member__(kind, 99)

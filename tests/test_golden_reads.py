"""What VECTOR's and the transfers' newer operands read, no more and no less, and when."""

import re
from typing import Any

import numpy as np
import pytest
from golden_programs import ROOMY, by_address, image, run_partly

from golden_model import HazardError, MachineFault
from spec import Instruction, Opcode
from spec.isa import Alu, DType, Point, Reduce, Scale, Space, Sync, Table
from spec.memmap import Fault

LOAD, STORE, VECTOR = Opcode.LOAD, Opcode.STORE, Opcode.VECTOR
WORDS = np.arange(100, 164, dtype=np.int32)
Body = list[tuple[Opcode, dict[str, Any]]]


@pytest.fixture(autouse=True, params=["strided", "by address"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Accesses are checked by regions of strided views, or by addresses."""
    if request.param == "by address":
        by_address(monkeypatch)


def run(body: Body, words: np.ndarray = WORDS) -> np.ndarray:
    instructions = [Instruction(opcode, values) for opcode, values in body]
    program = image(ROOMY, instructions, [("x", words)], [("y", (64,), "int32")])
    return run_partly(ROOMY, program, {"x": words})["y"]


def load(size: int, **more: Any) -> tuple[Opcode, dict[str, Any]]:
    """The first bytes of the input to scratchpad byte 0."""
    return LOAD, {"region": 1, "run": size, "post": [Sync(sem=0)], **more}


def vector(**more: Any) -> tuple[Opcode, dict[str, Any]]:
    """Int32 from byte 0, four lanes, to byte 1024."""
    fixed = {"a_type": DType.I32, "b_type": DType.I32, "o_type": DType.I32, "lanes": 4}
    fixed |= {"o_base": 1024, "o_min": -(1 << 31), "o_max": (1 << 31) - 1}
    return VECTOR, {**fixed, "wait": [Sync(sem=0)], "post": [Sync(sem=1)], **more}


def store(size: int, **more: Any) -> tuple[Opcode, dict[str, Any]]:
    """What `vector` wrote to the output."""
    return STORE, {"region": 2, "chip_base": 1024, "run": size, "wait": [Sync(sem=1)], **more}


def hazard(body: Body, text: str) -> None:
    with pytest.raises(HazardError, match=re.escape(text)):
        run(body)


@pytest.mark.parametrize(
    ("values", "lanes", "unwritten"),
    [
        ({"a_one": 1}, [100] * 4, {"a_one": 0}),
        ({"a_one": 1, "alu": Alu.SUB, "b_one": 1}, [0] * 4, {"b_one": 0}),
        ({"a_one": 1, "alu": Alu.SUB, "b_none": 1, "b_zp": -7}, [93] * 4, {"b_none": 0}),
        ({"a_one": 1, "alu": Alu.CLZ}, [25] * 4, {"alu": Alu.LSR}),
        ({"a_one": 1, "alu": Alu.ABS}, [100] * 4, {"a_scale": Scale.OPERAND}),
        (
            {"a_one": 1, "a_scale": Scale.OPERAND, "b_one": 1, "a_shift": 3},
            [1250] * 4,
            {"b_base": 1},
        ),
    ],
)
def test_only_the_elements_that_take_part_are_read(
    values: dict[str, int], lanes: list[int], unwritten: dict[str, int]
) -> None:
    """One int32 is there: more of it is a read of bytes that nothing has written."""
    got = run([load(4), vector(**values), store(16)])
    assert got[:4].tolist() == lanes
    hazard([load(4), vector(**{**values, **unwritten}), store(16)], "which nothing has written")


def test_lanes_combined_write_one_element() -> None:
    values = {"reduce": Reduce.SUM, "reduce_lanes": 1}
    assert run([load(16), vector(**values), store(4)])[0] == 100 + 101 + 102 + 103
    hazard([load(16), vector(**values), store(5)], "reads spad 1028, which nothing has written")


def test_a_row_that_does_not_fill_its_last_vector_is_one_reduction() -> None:
    """Ten elements in vectors of four: the last vector has two."""
    loop = [{"count": 3, "a": 16}]
    values = {"reduce": Reduce.SUM, "reduce_lanes": 1, "reduce_loops": 63, "loop": loop}
    values |= {"lane_loop": 0, "lanes_last": 2}
    assert run([load(40), vector(**values), store(4)])[0] == WORDS[:10].sum()


def test_an_int16_table_needs_all_entries_and_an_int8_table_256_bytes() -> None:
    def table(size: int) -> tuple[Opcode, dict[str, Any]]:
        return load(size, fill=1, fill_value=1, space=Space.TABLE, post=[Sync(sem=2)])

    both = [Sync(sem=0), Sync(sem=2)]
    values = {"wait": both, "table": Table.I16, "o_min": -(1 << 15), "o_max": (1 << 15) - 1}
    assert run([table(1026), load(16), vector(**values), store(16)])[0] == 0x0101 << 7
    hazard([table(1025), load(16), vector(**values), store(16)], "reads table 1025, which nothing")
    values |= {"table": Table.I8}
    assert run([table(256), load(16), vector(**values), store(16)])[0] == 1
    hazard([table(255), load(16), vector(**values), store(16)], "reads table 255, which nothing")


# Indices -----------------------------------------------------------------------------------------


def offsets(*values: int) -> np.ndarray:
    """An input that begins with these indices."""
    words = WORDS.copy()
    words[: len(values)] = values
    return words


def gather(**more: Any) -> tuple[Opcode, dict[str, Any]]:
    """Three words of the input to byte 1024, where the indices say."""
    loop = [{"count": 3, "chip": 4}]
    values = {"region": 1, "chip_base": 1024, "run": 4, "indexed": 1, "loop": loop}
    return LOAD, {**values, "wait": [Sync(sem=0)], "post": [Sync(sem=1)], **more}


def test_a_load_gathers_and_a_store_scatters() -> None:
    words = offsets(80, 16, 40)
    assert run([load(12), gather(), store(12)], words)[:3].tolist() == [
        words[n] for n in (20, 4, 10)
    ]
    loop = [{"count": 3, "chip": 4}]
    scatter = (STORE, {"region": 2, "run": 4, "indexed": 1, "loop": loop, "wait": [Sync(sem=0)]})
    got = run([load(12), scatter], words)
    assert [got[n] for n in (20, 4, 10)] == [80, 16, 40]


def test_indices_must_be_there_and_be_ordered() -> None:
    body = [load(12), gather(), store(12)]
    hazard([load(8), *body[1:]], "spad 8, which nothing has written")
    hazard([body[0], gather(wait=[]), store(12)], "race: load at instruction 2 ")
    first = load(16, post=[Sync(sem=0), Sync(sem=5)])
    rows = gather(post=[Sync(sem=1), Sync(sem=6)])
    over = vector(o_base=0, wait=[Sync(sem=5)], post=[])
    hazard([first, rows, over, body[2]], "race: vector at instruction 3 ")
    over[1]["wait"].append(Sync(sem=6))
    run([first, rows, over, body[2]], offsets(0, 8, 4))


def test_an_index_that_an_earlier_row_overwrites_is_a_race() -> None:
    hazard([load(12), gather(chip_base=4), store(12)], "race: load at instruction 2 ")


@pytest.mark.parametrize("index", [-4, 253, 1 << 30, -(1 << 31)])
def test_an_index_out_of_the_region_faults(index: int) -> None:
    with pytest.raises(MachineFault) as caught:
        run([load(12), gather(), store(12)], offsets(0, index, 0))
    assert (caught.value.cause, caught.value.index) == (Fault.OUTSIDE_REGION, 2)


def test_an_index_outside_the_scratchpad_faults() -> None:
    last = ROOMY.spad_bytes - 8
    with pytest.raises(MachineFault, match=re.escape(f"spad {last + 8}…{last + 11}")) as caught:
        run([load(12), (LOAD, {"fill": 1, "chip_base": last, "run": 8}), gather(index_base=last)])
    assert (caught.value.cause, caught.value.index) == (Fault.CHIP_ADDRESS, 3)


def test_an_index_is_read_once_when_its_iteration_begins() -> None:
    """READ of the first row of a block says that the block's index may go."""
    words = offsets(0, 64)
    rows = [{"count": 2, "chip": 8}, {"count": 2, "mem": 4, "chip": 4}]
    posts = [Sync(sem=3, level=2, point=Point.READ)]
    waits = [Sync(sem=0), Sync(sem=4, level=2)]
    out = {"region": 2, "chip_base": 8, "run": 4, "indexed": 1, "loop": rows}
    zero = {"fill": 1, "region": 0, "run": 4, "fill_value": 3}
    loop = [{"count": 2, "chip": 4}, {"count": 2}]
    # After the first row of each block its index becomes nonsense, before the second row.
    spoil = (
        LOAD,
        {
            **zero,
            "loop": loop,
            "wait": [Sync(sem=3, level=2)],
            "post": [Sync(sem=4, level=2)],
        },
    )
    start = (LOAD, {**zero, "chip_base": 512, "post": [Sync(sem=4)]})
    body = [load(64), start, (STORE, {**out, "wait": waits, "post": posts}), spoil]
    got = run(body, words)
    assert got[[0, 1, 16, 17]].tolist() == words[2:6].tolist()

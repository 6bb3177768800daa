"""Every hazard check: a program that provokes it, and the same one with the semaphore restored."""

import re
from typing import Any

import numpy as np
import pytest
from golden_programs import ROOMY, by_address, image, run_partly

from golden_model import HazardError, Machine
from spec import Image, Instruction, NpuConfig, Opcode, preset
from spec.isa import Alu, DType, Point, Scale, Space, Sync

Body = list[tuple[Opcode, dict[str, Any]]]
LOAD, STORE, MATRIX, VECTOR = Opcode.LOAD, Opcode.STORE, Opcode.MATRIX, Opcode.VECTOR
READ, WEIGHTS = Point.READ, Point.WEIGHTS
VECTORS, BLOCK = 6, 16
DATA = np.random.default_rng(3).integers(-128, 128, (8, 64), dtype=np.int8)


@pytest.fixture(autouse=True, params=["strided", "by address"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Accesses are checked by regions of strided views, or by addresses."""
    if request.param == "by address":
        by_address(monkeypatch)


def run(body: Body, temp: int = 256) -> np.ndarray:
    program = image(
        ROOMY,
        [Instruction(opcode, values) for opcode, values in body],
        inputs=[("x", DATA)],
        outputs=[("y", (VECTORS, 4), "int8")],
        temp_bytes=temp,
        constants=np.zeros(64, np.uint8),
    )
    return run_partly(ROOMY, program, {"x": DATA})["y"]


def load(at: int, size: int = 24, region: int = 1, **more: Any) -> tuple[Opcode, dict[str, Any]]:
    return LOAD, {"region": region, "mem_base": 0, "chip_base": at, "run": size} | more


def matrix(act: int = 0, wgt: int = 64, **more: Any) -> tuple[Opcode, dict[str, Any]]:
    """Six vectors at `act` times a 4 x 4 block at `wgt`."""
    fixed = {"act_base": act, "wgt_base": wgt, "wgt_row": 4, "rows": 4, "cols": 4}
    return MATRIX, {**fixed, "loop": [{"count": VECTORS, "act": 4, "acc": 1}], **more}


def vector(out: int = 128, **more: Any) -> tuple[Opcode, dict[str, Any]]:
    """The six accumulator vectors to int8 at `out`."""
    fixed = {
        "a_space": Space.ACC,
        "a_type": DType.I32,
        "lanes": 4,
        "o_base": out,
        "o_min": -128,
        "o_max": 127,
    }
    return VECTOR, {**fixed, "loop": [{"count": VECTORS, "a": 1, "o": 4}], **more}


def copy(source: int, to: int, **more: Any) -> tuple[Opcode, dict[str, Any]]:
    """Six vectors of four bytes within the scratchpad."""
    fixed = {"a_base": source, "lanes": 4, "o_base": to, "o_min": -128, "o_max": 127}
    return VECTOR, {**fixed, "loop": [{"count": VECTORS, "a": 4, "o": 4}], **more}


def store(at: int = 128, **more: Any) -> tuple[Opcode, dict[str, Any]]:
    return STORE, {"region": 2, "chip_base": at, "run": VECTORS * 4} | more


def chain() -> Body:
    """Load activations and weights, multiply, requantize, store: every semaphore is needed."""
    return [
        load(64, post=[Sync(sem=1)]),
        load(0, post=[Sync(sem=0)]),
        matrix(wait=[Sync(sem=0), Sync(sem=1, point=WEIGHTS)], post=[Sync(sem=2)]),
        vector(wait=[Sync(sem=2)], post=[Sync(sem=3)]),
        store(wait=[Sync(sem=3)]),
    ]


def without_wait(body: Body, at: int, semaphore: int) -> Body:
    opcode, values = body[at]
    kept = [s for s in values["wait"] if s.sem != semaphore]
    assert len(kept) == len(values["wait"]) - 1
    return [*body[:at], (opcode, {**values, "wait": kept}), *body[at + 1 :]]


def hazard(body: Body, text: str, **more: Any) -> HazardError:
    with pytest.raises(HazardError, match=re.escape(text)) as caught:
        run(body, **more)
    return caught.value


def test_the_chain_passes_with_all_its_semaphores() -> None:
    x = DATA.reshape(-1)[:24].reshape(6, 4).astype(int)
    want = np.clip(x @ DATA.reshape(-1)[:16].reshape(4, 4).astype(int), -128, 127)
    np.testing.assert_array_equal(run(chain()), want)


@pytest.mark.parametrize(
    ("at", "semaphore", "reader", "space", "writer"),
    [
        (2, 0, "matrix at instruction 3", "spad 0", "load at instruction 2"),
        (2, 1, "matrix (weights) at instruction 3", "spad 64", "load at instruction 1"),
        (3, 2, "vector at instruction 4", "acc 0", "matrix at instruction 3"),
        (4, 3, "store at instruction 5", "spad 128", "vector at instruction 4"),
    ],
)
def test_a_read_that_no_semaphore_orders_after_its_write_is_a_race(
    at: int, semaphore: int, reader: str, space: str, writer: str
) -> None:
    error = hazard(without_wait(chain(), at, semaphore), f"race: {reader} `")
    message = str(error)
    assert f"reads {space}, and {writer} `" in message
    assert message.endswith("writes it; no semaphore orders the two")
    assert error.index == at + 1
    assert f"{error.space} {error.address}" == space


def test_overwriting_activations_needs_the_matrix_engines_read_post() -> None:
    body = chain()
    body[2][1]["post"].append(Sync(sem=4, point=READ))
    refill = load(0, wait=[Sync(sem=4)])
    run([*body, refill])
    text = "race: load at instruction 6 `load region=1 run=24` writes spad 0, and matrix at instr"
    hazard([*body, without_wait([refill], 0, 4)[0]], text)


def test_overwriting_weights_needs_the_weights_post() -> None:
    body = chain()
    body[2][1]["post"].append(Sync(sem=4, point=WEIGHTS))
    refill = load(64, wait=[Sync(sem=4)])
    run([*body, refill])
    hazard([*body, without_wait([refill], 0, 4)[0]], "and matrix (weights) at instruction 3")


def test_the_main_sequencers_posts_cover_the_weights_it_has_used() -> None:
    body = chain()
    body[2][1]["post"].append(Sync(sem=4, point=READ))
    run([*body, load(64, wait=[Sync(sem=4)])])


@pytest.mark.parametrize(("products", "ordered"), [(2, False), (3, False), (4, True)])
def test_weights_three_folds_on_are_read_after_what_the_main_sequencer_waited_for(
    products: int, ordered: bool
) -> None:
    """The last product's weights come with the first ones' activations, and nothing says so."""
    body = [
        load(64, post=[Sync(sem=1)]),
        load(256),
        load(0, post=[Sync(sem=0)]),
        matrix(wait=[Sync(sem=0), Sync(sem=1, point=WEIGHTS)]),
        *[matrix()] * (products - 2),
        matrix(wgt=256),
    ]
    if ordered:
        run(body)
    else:
        hazard(body, f"race: matrix (weights) at instruction {products + 3}")


def test_a_weights_post_says_nothing_about_activations() -> None:
    body = chain()
    body[2][1]["post"].append(Sync(sem=4, point=WEIGHTS))
    hazard([*body, load(0, wait=[Sync(sem=4)])], "and matrix at instruction 3")


def test_a_read_post_publishes_no_writes() -> None:
    body = chain()
    body[3][1]["post"] = [Sync(sem=3, point=READ)]
    hazard(body, "race: store at instruction 5")


def test_overwriting_accumulators_needs_the_vector_engines_read_post() -> None:
    body = chain()
    body[3][1]["post"].append(Sync(sem=4, point=READ))
    again = matrix(wait=[Sync(sem=4)])
    run([*body, again])
    hazard([*body, without_wait([again], 0, 4)[0]], "writes acc 0, and vector at instruction 4")


def test_an_engine_sees_its_own_write_only_through_a_semaphore() -> None:
    body: Body = [
        load(0, post=[Sync(sem=0)]),
        copy(0, 64, wait=[Sync(sem=0)], post=[Sync(sem=1)]),
        copy(64, 128, wait=[Sync(sem=1)], post=[Sync(sem=3)]),
        store(wait=[Sync(sem=3)]),
    ]
    np.testing.assert_array_equal(run(body).reshape(-1), DATA.reshape(-1)[:24])
    hazard(without_wait(body, 2, 1), "and vector at instruction 2")


def test_an_older_write_of_the_same_engine_is_not_ordered_either() -> None:
    body: Body = [
        load(0, 48, post=[Sync(sem=0)]),
        copy(0, 64, wait=[Sync(sem=0)]),
        copy(24, 256),
        copy(24, 384, post=[Sync(sem=1)]),
        copy(64, 128, wait=[Sync(sem=1)], post=[Sync(sem=3)]),
        store(wait=[Sync(sem=3)]),
    ]
    run(body)
    hazard(without_wait(body, 4, 1), "vector at instruction 2")


def test_matrix_accumulates_onto_its_own_writes_without_a_semaphore() -> None:
    body = chain()
    body.insert(3, matrix(accumulate=1, post=[Sync(sem=5)]))
    body[4][1]["wait"].append(Sync(sem=5))
    x = DATA.reshape(-1)[:24].reshape(6, 4).astype(int)
    want = np.clip(2 * (x @ DATA.reshape(-1)[:16].reshape(4, 4).astype(int)), -128, 127)
    np.testing.assert_array_equal(run(body), want)


def test_a_step_may_not_read_what_an_earlier_step_writes() -> None:
    def body(to: int) -> Body:
        return [
            load(0, 32, post=[Sync(sem=0)]),
            copy(0, to, wait=[Sync(sem=0)], post=[Sync(sem=3)]),
            store(at=to, wait=[Sync(sem=3)]),
        ]

    run(body(0))
    assert "spad 4, which an earlier step" in str(hazard(body(4), "race: vector at instruction 2"))


def test_a_read_before_a_later_write_of_the_same_engine_is_ordered() -> None:
    run(
        [
            load(0, 64, post=[Sync(sem=0)]),
            copy(0, 128, wait=[Sync(sem=0)]),
            copy(24, 0, post=[Sync(sem=3)]),
            store(wait=[Sync(sem=3)]),
        ]
    )


def test_two_engines_writing_the_same_bytes_race() -> None:
    body: Body = [
        load(0, post=[Sync(sem=0)]),
        load(128, post=[Sync(sem=1)]),
        copy(0, 128, wait=[Sync(sem=0), Sync(sem=1)], post=[Sync(sem=3)]),
        store(wait=[Sync(sem=3)]),
    ]
    run(body)
    hazard(without_wait(body, 2, 1), "vector at instruction 3")


def test_data_spilled_to_memory_comes_back_only_after_the_stores_done() -> None:
    def body(point: Point) -> Body:
        spill = {"region": 3, "wait": [Sync(sem=0)], "post": [Sync(sem=1, point=point)]}
        return [
            load(0, post=[Sync(sem=0)]),
            store(0, **spill),
            load(128, region=3, wait=[Sync(sem=1)], post=[Sync(sem=3)]),
            store(wait=[Sync(sem=3)]),
        ]

    np.testing.assert_array_equal(run(body(Point.DONE)).reshape(-1), DATA.reshape(-1)[:24])
    hazard(body(READ), "reads memory region 3 byte 0, and store at instruction 2")


def test_a_wait_counts_only_the_posts_that_it_needs() -> None:
    def body(amount: int) -> Body:
        return [
            load(0, post=[Sync(sem=0)]),
            load(64, post=[Sync(sem=0)]),
            copy(64, 128, wait=[Sync(sem=0, amount=amount)], post=[Sync(sem=3)]),
            store(wait=[Sync(sem=3)]),
        ]

    run(body(2))
    hazard(body(1), "race: vector at instruction 3")


def test_a_wait_that_another_engines_post_could_satisfy_proves_nothing() -> None:
    def body(amount: int) -> Body:
        return [
            load(0, 24, post=[Sync(sem=0), Sync(sem=5)]),
            copy(0, 64, wait=[Sync(sem=0)], post=[Sync(sem=1)]),
            load(128, 24, post=[Sync(sem=1)]),
            store(wait=[Sync(sem=1, amount=amount)]),
        ]

    run(body(2))
    hazard(body(1), "race: store at instruction 4")


def test_order_is_transitive_through_other_engines() -> None:
    body = chain()
    body[4] = store(at=0, wait=[Sync(sem=3)])
    np.testing.assert_array_equal(run(body).reshape(-1), DATA.reshape(-1)[:24])


def test_a_slice_may_be_consumed_as_soon_as_its_level_posts() -> None:
    body = chain()
    body[2][1]["post"] = [Sync(sem=2, level=1)]
    body[3][1]["wait"] = [Sync(sem=2, level=1)]
    run(body)
    body[3][1]["loop"] = [{"count": VECTORS, "a": -1, "o": 4}]
    body[3][1]["a_base"] = VECTORS - 1
    hazard(body, "acc 5")


def test_a_semaphore_has_one_waiting_sequencer() -> None:
    body = chain()
    body[1][1]["post"] = [Sync(sem=0, amount=2)]
    body[4][1]["wait"].append(Sync(sem=0))
    hazard(body, "semaphore 0 has several waiting sequencers (matrix_issue, store_issue)")


def test_a_semaphore_must_not_overflow_however_slow_its_waiter() -> None:
    def tiles(config: NpuConfig, back_pressure: bool) -> Image:
        body = []
        for at in (0, 256, 512):
            full = [Sync(sem=0, level=1)]
            fill = {"fill": 1, "run": 1, "chip_base": at, "post": full}
            fill["wait"] = [Sync(sem=1)] if back_pressure and at else []
            read = {
                "a_base": at,
                "o_space": Space.ACC,
                "o_type": DType.I32,
                "wait": full,
                "post": [Sync(sem=1)],
            }
            body.append(Instruction(LOAD, {**fill, "loop": [{"count": 100, "chip": 1}]}))
            body.append(Instruction(VECTOR, {**read, "loop": [{"count": 100, "a": 1}]}))
        return image(config, body)

    tiny = preset("tiny")
    Machine(tiny).run(tiles(tiny, True), {})
    Machine(ROOMY).run(tiles(ROOMY, False), {})
    text = (
        "load at instruction 5 posts 1 to semaphore 0: if its waiter is slow it may hold 256, more"
    )
    with pytest.raises(HazardError, match=re.escape(text)):
        Machine(tiny).run(tiles(tiny, False), {})


@pytest.mark.parametrize(
    ("values", "again", "space"),
    [
        ({"bias": 1}, {"space": Space.PARAM, "run": 40}, "param 0"),
        ({"table": 1}, {"space": Space.TABLE, "run": 256}, "table 0"),
    ],
)
def test_parameters_and_table_are_read_when_the_vector_engine_is_done(
    values: dict[str, int], again: dict[str, int], space: str
) -> None:
    """Its READ speaks of A and B only."""
    fill = {"fill": 1, "region": 0, **again}
    body = [(LOAD, {**fill, "post": [Sync(sem=6)]}), *chain()]
    body[4][1]["wait"].append(Sync(sem=6))
    body[4][1].update(values)
    body[4][1]["post"].append(Sync(sem=7, point=READ))
    body.append((LOAD, {**fill, "wait": [Sync(sem=7)]}))
    hazard(body, f"writes {space}, and vector at instruction 5 ")
    body[4][1]["post"][-1] = Sync(sem=7)
    run(body)


# Reads of what nothing wrote ---------------------------------------------------------------------


def parameters(at: int = 0, run_bytes: int = 40) -> tuple[Opcode, dict[str, Any]]:
    values = {"space": Space.PARAM, "region": 0, "chip_base": at, "run": run_bytes}
    return LOAD, {**values, "post": [Sync(sem=6)]}


def test_scratchpad_bytes_must_have_been_written() -> None:
    body = chain()
    body[1][1]["run"] = 23
    text = "matrix at instruction 3 `matrix wait(s0x1@0:DONE)"
    error = hazard(body, text)
    assert str(error).endswith("reads spad 23, which nothing has written")


def test_weights_must_have_been_written() -> None:
    body = chain()
    body[0][1]["run"] = 10
    hazard(body, "reads spad 74, which nothing has written")


def test_accumulators_must_have_been_written() -> None:
    body = chain()
    body[3][1]["a_base"] = 1
    hazard(body, "reads acc 6, which nothing has written")


def test_accumulating_onto_nothing_is_found() -> None:
    body = chain()
    body[2][1]["accumulate"] = 1
    hazard(body, "accumulates onto acc 0, which nothing has written")


@pytest.mark.parametrize(
    ("values", "address"),
    [({"bias": 1}, 0), ({"o_scale": Scale.CHANNEL}, 16), ({"a_scale": Scale.CHANNEL}, 16)],
)
def test_parameters_must_have_been_written(values: dict[str, int], address: int) -> None:
    body = chain()
    body[3][1].update(values)
    hazard(body, f"reads param {address}, which nothing has written")
    if "bias" in values:
        body[3][1]["wait"].append(Sync(sem=6))
        run([parameters(), *body])


def test_the_table_must_have_been_written() -> None:
    body = chain()
    body[3][1]["table"] = 1
    hazard(body, "reads table 0, which nothing has written")
    body[3][1]["wait"].append(Sync(sem=6))
    fill = (LOAD, {"space": Space.TABLE, "fill": 1, "run": 256, "post": [Sync(sem=6)]})
    run([fill, *body])


@pytest.mark.parametrize("region", [2, 3])
def test_memory_that_a_program_reads_must_hold_something(region: int) -> None:
    body = chain()
    body[1][1]["region"] = region
    hazard(body, f"load at instruction 2 `load post(s0x1@0:DONE) region={region} run=24` reads")


def test_void_steps_read_nothing() -> None:
    body = chain()
    body[1][1]["run"] = 20
    _, values = body[2]
    values |= {"height": 5, "loop": [{"count": VECTORS, "act": 4, "acc": 1, "dy": 1}]}
    run(body)
    values["height"] = 6
    hazard(body, "reads spad 20")


def test_without_checks_the_same_program_runs() -> None:
    body = without_wait(chain(), 3, 2)
    program = image(
        ROOMY,
        [Instruction(opcode, values) for opcode, values in body],
        inputs=[("x", DATA)],
        outputs=[("y", (VECTORS, 4), "int8")],
    )
    assert Machine(ROOMY).run(program, {"x": DATA}, check=False)["y"].shape == (VECTORS, 4)


def test_second_operand_is_checked_too() -> None:
    body: Body = [
        load(0, post=[Sync(sem=0)]),
        load(64, post=[Sync(sem=1)]),
        copy(0, 128, wait=[Sync(sem=0), Sync(sem=1)], post=[Sync(sem=3)]),
        store(wait=[Sync(sem=3)]),
    ]
    loop = [{"count": VECTORS, "a": 4, "b": 4, "o": 4}]
    body[2][1].update({"alu": Alu.ADD, "b_base": 64, "loop": loop})
    run(body)
    hazard(without_wait(body, 2, 1), "reads spad 64")


def test_weights_that_come_last_of_all_are_no_deadlock() -> None:
    """The main sequencer has waited longer, and nothing else in the machine can go on."""
    folds = [{"count": 2, "act": 4, "wgt": 16}, {"count": VECTORS, "act": 4, "acc": 1}]
    body = [
        load(0, 64),
        load(64, 64, post=[Sync(sem=0), Sync(sem=1)]),
        matrix(wait=[Sync(sem=0), Sync(sem=1, point=WEIGHTS)]),
        matrix(
            fold_loops=1,
            k_loops=1,
            loop=folds,
            wait=[Sync(sem=2, point=WEIGHTS)],
            post=[Sync(sem=3)],
        ),
        vector(wait=[Sync(sem=3)], post=[Sync(sem=4)]),
        store(wait=[Sync(sem=4)]),
        load(256, post=[Sync(sem=2)]),
    ]
    data = DATA.reshape(-1).astype(int)
    sums = sum(
        np.array([data[4 * (m + k) :][:4] for m in range(VECTORS)])
        @ data[16 * k :][:16].reshape(4, 4)
        for k in range(2)
    )
    np.testing.assert_array_equal(run(body), np.clip(sums, -128, 127))

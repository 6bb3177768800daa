"""Double-buffered tiles: every wait of the pipeline is needed, and the checks know it."""

import dataclasses
from typing import Any

import numpy as np
import pytest
from golden_programs import image

from golden_model import GoldenError, HazardError, Machine
from spec import Image, Instruction, Opcode, preset
from spec.isa import DType, Point, Space, Sync
from sw.runtime.golden import GoldenDevice

TINY = preset("tiny")
TILES, M, K, N = 5, 8, 4, 4
ACT, WGT, OUT, STEP = 0, 256, 512, 128
FULL_A, FREE_A, FULL_W, FREE_W, FULL_ACC, FREE_ACC, FULL_O, FREE_O = range(8)
Body = list[tuple[Opcode, dict[str, Any]]]


def tile(t: int) -> Body:
    """Tile t works in half t % 2 of every buffer; from tile 2 on it waits until that is free.

    Weights are loaded before activations: the other way round their semaphores would make those
    of the activations superfluous, as an engine's reads and writes keep their order.
    """
    half = t % 2
    again = t >= 2

    def free(semaphore: int, **more: Any) -> list[Sync]:
        return [Sync(sem=semaphore, **more)] if again else []

    act, wgt, out, acc = (
        ACT + half * STEP,
        WGT + half * STEP,
        OUT + half * STEP,
        half * TINY.acc_half,
    )
    return [
        (
            Opcode.LOAD,
            {
                "region": 0,
                "mem_base": t * K * N,
                "chip_base": wgt,
                "run": K * N,
                "wait": free(FREE_W),
                "post": [Sync(sem=FULL_W)],
            },
        ),
        (
            Opcode.LOAD,
            {
                "region": 1,
                "mem_base": t * M * K,
                "chip_base": act,
                "run": M * K,
                "wait": free(FREE_A),
                "post": [Sync(sem=FULL_A)],
            },
        ),
        (
            Opcode.MATRIX,
            {
                "act_base": act,
                "wgt_base": wgt,
                "wgt_row": N,
                "acc_base": acc,
                "rows": K,
                "cols": N,
                "loop": [{"count": M, "act": K, "acc": 1}],
                "wait": [
                    Sync(sem=FULL_A),
                    Sync(sem=FULL_W, point=Point.WEIGHTS),
                    *free(FREE_ACC),
                ],
                "post": [
                    Sync(sem=FREE_A, point=Point.READ),
                    Sync(sem=FREE_W, point=Point.WEIGHTS),
                    Sync(sem=FULL_ACC),
                ],
            },
        ),
        (
            Opcode.VECTOR,
            {
                "a_space": Space.ACC,
                "a_type": DType.I32,
                "a_base": acc,
                "o_base": out,
                "o_min": -128,
                "o_max": 127,
                "lanes": N,
                "loop": [{"count": M, "a": 1, "o": N}],
                "wait": [Sync(sem=FULL_ACC), *free(FREE_O)],
                "post": [Sync(sem=FREE_ACC, point=Point.READ), Sync(sem=FULL_O)],
            },
        ),
        (
            Opcode.STORE,
            {
                "region": 2,
                "mem_base": t * M * N,
                "chip_base": out,
                "run": M * N,
                "wait": [Sync(sem=FULL_O)],
                "post": [Sync(sem=FREE_O, point=Point.READ)],
            },
        ),
    ]


X = np.random.default_rng(1).integers(-9, 9, (TILES, M, K), dtype=np.int8)
W = np.random.default_rng(2).integers(-9, 9, (TILES, K, N), dtype=np.int8)
WANT = np.clip(X.astype(int) @ W.astype(int), -128, 127)


def pipeline(without: tuple[int, int, int] | None = None) -> Image:
    """without: (tile, instruction, slot) of a wait to leave out."""
    tiles = [tile(t) for t in range(TILES)]
    if without is not None:
        t, i, slot = without
        del tiles[t][i][1]["wait"][slot]
    body = [Instruction(opcode, values) for part in tiles for opcode, values in part]
    return image(
        TINY,
        body,
        [("x", X)],
        [("y", (TILES, M, N), "int8")],
        constants=W.reshape(-1).view(np.uint8),
    )


WAITS = [
    (t, i, slot)
    for t in range(TILES)
    for i, (_, values) in enumerate(tile(t))
    for slot in range(len(values["wait"]))
]


def test_the_pipeline_is_free_of_hazards_and_right() -> None:
    got = Machine(TINY).run(pipeline(), {"x": X})["y"]
    np.testing.assert_array_equal(got, WANT)


def test_every_wait_is_tested() -> None:
    assert len(WAITS) == 4 * TILES + 4 * (TILES - 2)


@pytest.mark.parametrize("without", WAITS, ids=str)
def test_without_any_one_of_its_waits_the_pipeline_races(without: tuple[int, int, int]) -> None:
    with pytest.raises(HazardError, match=r"^race: "):
        Machine(TINY).run(pipeline(without), {"x": X})


def test_a_short_queue_changes_nothing() -> None:
    config = dataclasses.replace(TINY, queue_depth=2)
    program = dataclasses.replace(pipeline(), config=config)
    data = program.program.copy()
    data[8:16] = np.frombuffer(config.digest().to_bytes(8, "little"), np.uint8)
    program = dataclasses.replace(program, program=data)
    np.testing.assert_array_equal(Machine(config).run(program, {"x": X})["y"], WANT)


def test_the_device_runs_the_program_as_often_as_asked() -> None:
    device = GoldenDevice(TINY)
    device.load(pipeline())
    with pytest.raises(GoldenError, match=r"^inputs not written before the run: x$"):
        device.run()
    for factor in (1, -1):
        device.write("x", X * factor)
        assert device.run().cycles is None
        want = np.clip(factor * (X.astype(int) @ W.astype(int)), -128, 127)
        np.testing.assert_array_equal(device.read("y"), want)
    device.close()
